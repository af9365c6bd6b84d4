"""EMQX's files: its configuration, and the archives of its data export."""

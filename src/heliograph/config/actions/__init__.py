"""Settings of `connectors` and `actions`: where the rows of rules go, in EMQX's words."""

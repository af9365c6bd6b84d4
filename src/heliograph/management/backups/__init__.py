"""Data export and import: an archive with configuration, users, rules and bans of an installation, for another one."""

"""mosquitto's files: its configuration, users, rules, and what it has stored."""

"""A small MQTT client of one connection, for commands: it blocks, and keeps nothing when it ends."""

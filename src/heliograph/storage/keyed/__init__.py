"""The layout `keyed`: the newest message of each topic, found by topic."""

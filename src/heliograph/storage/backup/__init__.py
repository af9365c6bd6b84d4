"""Backups of a data directory in a place: made beside a running node, incremental, verified, restored elsewhere."""

"""Durable streams: every message is stored once, replayed by topic filter and time; `interface` defines the terms."""

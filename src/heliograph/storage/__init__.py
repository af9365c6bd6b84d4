"""Durable streams: every message is stored once and replayed by topic filter and time; `interface` has the words."""

"""Durable sessions: what is saved of them, read back, replayed to them, and done for those that are away."""

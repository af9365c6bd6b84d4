"""Durable sessions: saved, read back, replayed to, and their wills."""

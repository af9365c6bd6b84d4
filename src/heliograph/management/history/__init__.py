"""Samples of what nodes count, for the last seven days."""

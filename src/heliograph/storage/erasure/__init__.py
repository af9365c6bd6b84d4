"""Erases messages and records of a stopped node, so that no file holds them any more."""

"""Checking databases, and mending those that are damaged."""

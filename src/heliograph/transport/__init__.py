"""Sockets: listeners and connections. What is said on them is the channel's."""

"""Sockets: listeners, the limits on new connections, and connections. What is said on them is the channel's."""

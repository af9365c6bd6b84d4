"""Asking nodes over their control sockets."""

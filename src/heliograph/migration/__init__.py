"""Configurations and users of other brokers as ours, for `heliograph conf import`."""

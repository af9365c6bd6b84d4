"""Traces, metrics and the log of nodes for an OpenTelemetry collector; loaded when it is switched on."""

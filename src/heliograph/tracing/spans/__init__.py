"""Spans for an OpenTelemetry collector: made while clients are served, kept in a ring until they are fetched."""

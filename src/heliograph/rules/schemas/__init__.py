"""Schemas: Avro, Protobuf, JSON Schema, external services and Sparkplug B, by name."""

from heliograph.rules.schemas.interface import INSTALLED, Schema, SchemaError, SchemaRegistry

__all__ = ["INSTALLED", "Schema", "SchemaError", "SchemaRegistry"]

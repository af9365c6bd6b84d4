"""Schemas: Avro, Protobuf, JSON Schema, external services and Sparkplug B, by name."""

from heliograph.rules.schemas.interface import Schema, SchemaError
from heliograph.rules.schemas.registry import SchemaRegistry

__all__ = ["Schema", "SchemaError", "SchemaRegistry"]

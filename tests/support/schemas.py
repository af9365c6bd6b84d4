"""Schemas that policies of tests name."""

from typing import Final

_SOURCES: Final = {
    "reading": (
        "json",
        '{"type": "object", "required": ["t"], "properties": {"t": {"type": "number", "maximum": 60}}}',
    ),
    "listed": ("json", '{"type": "array"}'),
    "row": (
        "avro",
        '{"type": "record", "name": "Row", '
        '"fields": [{"name": "t", "type": "double"}, {"name": "dev", "type": "string"}]}',
    ),
    "device": ("protobuf", 'syntax = "proto3"; message Sample { string dev = 1; int32 n = 2; }'),
}

SCHEMAS: Final = "\n".join(
    f'schema_registry.schemas.{name} {{ type = {kind}, source = """{source}""" }}'
    for name, (kind, source) in _SOURCES.items()
)
"""The settings of these schemas."""

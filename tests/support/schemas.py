"""Schemas that policies of tests name, as settings and in the registry."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from heliograph.rules.schemas import INSTALLED
from heliograph.rules.schemas.settings import SchemaSettings, build

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


@contextmanager
def installed_schemas() -> Iterator[None]:
    """Have the registry of this process hold these schemas, and afterwards what it held before."""
    before = list(INSTALLED.all().values())
    INSTALLED.replace(build(SchemaSettings.of_text(name, kind, source) for name, (kind, source) in _SOURCES.items()))
    try:
        yield
    finally:
        INSTALLED.replace(before)

"""Reads what the views of a pipeline file are made of: sources, static tables, watermarks; which views SQL names."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from heliograph.pipeline.datasource.options import SourceOptions
from heliograph.pipeline.errors import OptionError
from heliograph.pipeline.files.definition import Source, StaticTable
from heliograph.pipeline.files.section import FileSection
from heliograph.pipeline.files.settings import SourceSettings
from heliograph.settings.secrets import FILE_PREFIX, Secret

# Options of the data source that a source may have, by their names in a file.
_SOURCE_OPTIONS: Final = {
    "database": "database",
    "endpoint": "endpoint",
    "start": "start",
    "schema": "schema",
    "json_schema": "jsonSchema",
    "mode": "mode",
    "max_messages_per_trigger": "maxMessagesPerTrigger",
    "max_bytes_per_trigger": "maxBytesPerTrigger",
    "token": "token",
}

# What of a query's text is no name: strings and comments.
_NOT_NAMES: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_source(name: str, section: FileSection) -> Source:
    """A source of its section."""
    settings = section.read(SourceSettings, others=_SOURCE_OPTIONS)
    options = dict(settings.options)
    for key, option in _SOURCE_OPTIONS.items():
        if key in section.fields:
            options[option] = str(section.fields[key].value)
    token = Secret.of(options.get("token", ""))
    if token.file is not None:  # relative to the pipeline file
        options["token"] = f"{FILE_PREFIX}{Path(section.node.position.source).parent / token.file}"
    if "schema" in options:
        options.setdefault("schemas", section.node.position.source)
    try:
        # The driver that reads it says which time zone its session has.
        SourceOptions.of({"timeZone": "UTC"} | {name: text for name, text in options.items() if name != "token"})
    except OptionError as error:
        raise section.mistake(str(error)) from error
    deduplicate = settings.deduplicate.columns if settings.deduplicate is not None else ()
    return Source(name, settings.topics, options, settings.watermark, deduplicate, section.origin)


def read_table(name: str, section: FileSection) -> StaticTable:
    """A static table of its section; a relative path begins at the file."""
    table = section.read(StaticTable, {"name": name, "origin": section.origin})
    path = table.path if "://" in table.path else str(Path(section.node.position.source).parent / table.path)
    defaults = {"header": "true", "inferSchema": "true"} if table.type == "csv" else {}
    return replace(table, path=path, options={**defaults, **table.options})


def names_in(sql: str, names: Iterable[str]) -> tuple[str, ...]:
    """Which of the names a query says outside of strings and comments, in their order; letter case does not matter."""
    words = {word.casefold() for word in _WORD.findall(_NOT_NAMES.sub(" ", sql))}
    return tuple(name for name in names if name.casefold() in words)

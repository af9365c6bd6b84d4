"""Reads what the views of a pipeline file are made of: sources, static tables, watermarks; which views SQL names."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from heliograph.mqtt.topic import MAX_TOPIC_BYTES, topic_filter_fault
from heliograph.pipeline.datasource.options import SourceOptions
from heliograph.pipeline.errors import OptionError
from heliograph.pipeline.files.definition import Source, StaticTable, Watermark
from heliograph.pipeline.files.section import Section

TABLE_TYPES: Final = ("csv", "delta", "json", "orc", "parquet")

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
    "token_file": "tokenFile",
}

# What of a query's text is no name: strings and comments.
_NOT_NAMES: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_source(name: str, section: Section) -> Source:
    """A source of its section."""
    section.check_keys("topics", "watermark", "deduplicate", "options", *_SOURCE_OPTIONS)
    options = section.texts("options")
    for key, option in _SOURCE_OPTIONS.items():
        if key in section.fields:
            value = section.fields[key].value
            options[option] = str(value) if isinstance(value, int) else section.text(key)
    if "tokenFile" in options:
        options["tokenFile"] = str(Path(section.node.position.source).parent / options["tokenFile"])
    if "schema" in options:
        options.setdefault("schemas", section.node.position.source)
    try:
        # The driver that reads it says which time zone its session has.
        SourceOptions.of({"timeZone": "UTC"} | {name: text for name, text in options.items() if name != "tokenFile"})
    except OptionError as error:
        raise section.mistake(f"{section.path}: {error}") from error
    watermark = read_watermark(section.section("watermark"))
    return Source(name, _topics(section), options, watermark, read_deduplication(section, watermark), section.origin)


def read_table(name: str, section: Section) -> StaticTable:
    """A static table of its section; a relative path begins at the file."""
    section.check_keys("type", "path", "options")
    kind = section.text("type")
    if kind not in TABLE_TYPES:
        raise section.mistake(
            f"{section.path}.type is {kind!r}, but must be one of {', '.join(TABLE_TYPES)}", section.fields["type"]
        )
    path = section.text("path")
    if "://" not in path:
        path = str(Path(section.node.position.source).parent / path)
    options = {"header": "true", "inferSchema": "true"} if kind == "csv" else {}
    return StaticTable(name, kind, path, options | section.texts("options"), section.origin)


def read_watermark(section: Section | None) -> Watermark | None:
    """A watermark, if there is one."""
    if section is None:
        return None
    section.check_keys("column", "delay")
    return Watermark(section.text("column"), section.text("delay"))


def read_deduplication(section: Section, watermark: Watermark | None) -> tuple[str, ...]:
    """The columns of ``deduplicate``; none without it."""
    inner = section.section("deduplicate")
    if inner is None:
        return ()
    inner.check_keys("columns")
    if watermark is None:
        raise inner.mistake(
            f"{section.path} has deduplicate but no watermark: it says for how long a row is remembered"
        )
    columns = inner.names("columns")
    if not columns:
        raise inner.mistake(f"{inner.path} has no columns: it must be a list of column names, such as [id]")
    return columns


def names_in(sql: str, names: Iterable[str]) -> tuple[str, ...]:
    """Which of the names a query says outside of strings and comments, in their order; letter case does not matter."""
    words = {word.casefold() for word in _WORD.findall(_NOT_NAMES.sub(" ", sql))}
    return tuple(name for name in names if name.casefold() in words)


def _topics(section: Section) -> tuple[str, ...]:
    topics = (section.text("topics"),) if _is_text(section, "topics") else section.names("topics")
    if not topics:
        raise section.mistake(f'{section.path} has no topics: it must be a list of topic filters, such as ["a/#"]')
    for topic in topics:
        fault = topic_filter_fault(topic, MAX_TOPIC_BYTES)
        if fault:
            raise section.mistake(
                f"{section.path}.topics has {json.dumps(topic)}, which is no topic filter: {fault}",
                section.fields["topics"],
            )
    return topics


def _is_text(section: Section, key: str) -> bool:
    return key in section.fields and isinstance(section.fields[key].value, str)

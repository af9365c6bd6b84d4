"""Where the rows of a pipeline go: one module for each kind of sink, `interface` says what a sink is.

`read_sink` makes a sink of its section in a pipeline file.
"""

import difflib
from importlib import import_module
from typing import Final

from heliograph.pipeline.files.section import Section
from heliograph.pipeline.sinks.interface import ChecksRows, Guarantee, MicroBatch, OutputMode, Sink, Written

__all__ = ["KINDS", "ChecksRows", "Guarantee", "MicroBatch", "OutputMode", "Sink", "Written", "read_sink"]

#: The module and class of each `type`.
KINDS: Final = {
    "console": ("console", "ConsoleSink"),
    "csv": ("files", "CsvSink"),
    "delta": ("delta", "DeltaSink"),
    "iceberg": ("iceberg", "IcebergSink"),
    "json": ("files", "JsonSink"),
    "http": ("http", "HttpSink"),
    "kafka": ("kafka", "KafkaSink"),
    "mariadb": ("mysql", "MysqlSink"),
    "mqtt": ("mqtt", "MqttSink"),
    "mysql": ("mysql", "MysqlSink"),
    "orc": ("files", "OrcSink"),
    "parquet": ("parquet", "ParquetSink"),
    "postgresql": ("postgresql", "PostgresqlSink"),
    "redis": ("redis", "RedisSink"),
    "webhook": ("http", "HttpSink"),
}


def read_sink(section: Section, mode: OutputMode, *more_keys: str) -> Sink:
    """Make the sink that a section describes.

    Args:
        section: The section; its key `type` says which kind.
        mode: Which rows the batches bring.
        more_keys: Keys of the section that are not the sink's, and valid.

    Raises:
        RuleFileError: There is no such kind, or its settings are not valid.
    """
    kind = section.text("type")
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise section.mistake(f"{section.path}.type is {kind!r}, but must be one of {', '.join(sorted(KINDS))}{hint}")
    module, name = KINDS[kind]
    made: Sink = getattr(import_module(f"{__name__}.{module}"), name).read(section, mode, more_keys)
    return made

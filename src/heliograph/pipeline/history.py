"""Stored messages as one table; Spark's own reader reads closed generations from Parquet files.

A Python data source hands every row through a Python process; files that Spark reads itself do not pass there. Which
generations are in files the storage reader says (those that were offloaded), or the notes of an export. All others, the
one that is still written among them, are read by the format ``heliograph``, so the table has every message once.
"""

import json
from collections.abc import Mapping
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from heliograph.pipeline.datasource.offsets import make_offset
from heliograph.pipeline.datasource.options import LATEST, SourceOptions
from heliograph.pipeline.datasource.source import FORMAT
from heliograph.pipeline.errors import OptionError
from heliograph.rules.spark.native import topic_condition
from heliograph.storage.message_columns import COLUMNS

_QOS_MAX: Final = 2
#: Columns that are not in the files.
_SHARD: Final = "shard"
_POSITION: Final = "position"
#: Files of one target, by it: paths below it.
_Files = dict[str, list[str]]


def read_messages(spark: SparkSession, exported: str | None = None, /, **options: str) -> DataFrame:
    """The table of ``spark.read.format("heliograph")``, with closed generations read as Parquet by Spark's own reader.

    It has what was stored when it was made, as a table of files does. The storage reader is only used
    for a rest that is not in files, since a Python data source costs some 100 ms even with no rows. The column
    `position` is null for what comes from files.

    Args:
        exported: The directory or URI that ``heliograph storage export`` wrote to; None takes what was offloaded.
        options: Those of the data source. ``schema`` can only be raw, ``start`` and ``end`` are no offsets, and there
            is one endpoint.
    """
    zone = {"timeZone": spark.conf.get("spark.sql.session.timeZone") or "UTC"}
    options = SourceOptions.named(options)
    source = SourceOptions.of(zone | options)
    _check(source)
    generations = _exported(source, exported) if exported is not None else _offloaded(source)
    files = _by_target(generations)
    rest = _rest(source, generations)
    table = spark.read.format(FORMAT).options(**zone | options | rest).load()
    parts = [_parquet(spark, source, target, paths).select(*table.columns) for target, paths in files.items()]
    return reduce(DataFrame.unionByName, [table, *parts] if rest or not parts else parts)


def _check(source: SourceOptions) -> None:
    if len(source.endpoints) != 1:
        raise OptionError("endpoint", ",".join(source.endpoints), "one, whose files these are")
    if source.payload_format.is_decoded:
        raise OptionError("schema", source.payload_format.kind, "raw: files have payloads as they came")
    if source.start == LATEST:
        raise OptionError("start", LATEST, "earliest or a time: a batch read of what comes later is empty")
    for name, place in (("start", source.start), ("end", source.end)):
        if isinstance(place, dict):
            raise OptionError(name, json.dumps(place), "a time: a position says nothing of files")


def _offloaded(source: SourceOptions) -> dict[int, _Files]:
    """The files of each generation that is in files as a whole."""
    with source.connect(source.endpoints[0]) as client:
        generations = client.offloaded(source.database)
    found: dict[int, _Files] = {}
    for generation in generations:
        files = found.setdefault(generation["generation"], {})
        for file in generation["files"]:
            files.setdefault(file["target"], []).append(file["path"])
    return found


def _exported(source: SourceOptions, target: str) -> dict[int, _Files]:
    """The same of an export of this node, by its notes; what was exported in part is left out."""
    with source.connect(source.endpoints[0]) as client:
        site = client.info(source.database)["site"]
    found: dict[int, _Files] = {}
    for note in _notes(target, source.database):
        if note.get("site") == site and not note.get("topics") and not note.get("damages"):
            found[note["generation"]] = {target: note["files"]}
    return found


def _notes(target: str, database: str) -> list[dict[str, Any]]:
    try:
        files, path = fs.FileSystem.from_uri(target) if "://" in target else (fs.LocalFileSystem(), target)
        listed = files.get_file_info(fs.FileSelector(f"{path.rstrip('/')}/database={database}"))
        names = [info.path for info in listed if info.base_name.startswith("_generation-")]
        return [json.loads(files.open_input_stream(name).read()) for name in names]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise OptionError(
            "exported", target, f"where `heliograph storage export` wrote {database} to ({error})"
        ) from None


def _by_target(generations: Mapping[int, _Files]) -> _Files:
    files: _Files = {}
    for found in generations.values():
        for target, paths in found.items():
            files.setdefault(target, []).extend(paths)
    return files


def _rest(source: SourceOptions, generations: Mapping[int, _Files]) -> dict[str, str]:
    """The options `start` and `end` for what is stored now and is in no file; none where all of it is in files."""
    start = source.start if isinstance(source.start, int) else None
    end = source.end if isinstance(source.end, int) else None
    selection = source.selection(start, end)
    with source.connect(source.endpoints[0]) as client:
        covered = {one.stream for one in client.streams(selection) if one.generation in generations and one.is_sealed}
        steps = client.plan(selection).streams
    ends = {stream: step.position for stream, step in steps.items() if step.position}
    if not any(step.messages for stream, step in steps.items() if stream not in covered):
        return {}
    begins = make_offset({stream: position for stream, position in ends.items() if stream in covered}, start)
    stop = {} if end is not None else {"end": json.dumps(make_offset(ends, None))}
    return {"start": json.dumps(begins), **stop}


def _parquet(spark: SparkSession, source: SourceOptions, target: str, paths: list[str]) -> DataFrame:
    root = target.rstrip("/")
    columns = [column.ddl for column in COLUMNS if column.name not in (_SHARD, _POSITION)]
    reader = spark.read.schema(", ".join([*columns, "shard int"]))
    rows = reader.option("basePath", root).parquet(*[f"{root}/{path}" for path in paths])
    rows = rows.where(F.col("qos") <= _QOS_MAX)  # what is above was erased
    rows = rows.where(topic_condition(source.topics))  # `#` says something, too: no topics that begin with `$`
    if isinstance(source.start, int):
        rows = rows.where(F.col("stored_at") >= F.timestamp_micros(F.lit(source.start)))
    if isinstance(source.end, int):
        rows = rows.where(F.col("stored_at") < F.timestamp_micros(F.lit(source.end)))
    return rows.withColumn(_POSITION, F.lit(None).cast("string"))

"""Columns that `merge_schema` adds to a table, as both kinds of SQL servers do it."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import pytest
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import AltersTable
from heliograph.pipeline.sinks.spark.arrow_rows import fields_of
from heliograph.pipeline.sinks.spark.writing import write_batch
from support.sinks import batch_of, sink_of


class SqlServer(Protocol):
    def section(self, settings: str, /) -> str:
        """The settings of a sink that writes to it."""

    def query(self, statement: str, /) -> Iterable[Any]:
        """The rows of a statement."""


def missing_columns_are_shown_and_added(
    spark: SparkSession, server: SqlServer, output: Path, fraction: str, text: str, structure: str
) -> None:
    """The words of the server's types are `fraction`, `text` and `structure`."""
    server.query("CREATE TABLE merged (id VARCHAR(10) PRIMARY KEY, speed INT)")
    server.query("INSERT INTO merged VALUES ('a', 1)")
    rows = spark.sql("SELECT 'b' AS id, 2 AS speed, 1.5D AS energy, named_struct('x', 1) AS tool")
    keyed = "table = merged, key = [id]"
    strict, sink = (sink_of(server.section(keyed + more)) for more in ("", ", merge_schema = true"))
    assert isinstance(strict, AltersTable)
    assert isinstance(sink, AltersTable)
    energy, tool = f"energy ({fraction})", f"tool ({structure})"
    with pytest.raises(SinkError) as refused:
        strict.changes(fields_of(rows.schema), output)
    assert f"lacks columns of the rows: {energy}, {tool}. Add" in str(refused.value)
    assert sink.changes(fields_of(rows.schema), output) == (f"adds the column {energy}", f"adds the column {tool}")
    write_batch(sink, rows, batch_of(0, query="merged"))
    assert sink.changes(fields_of(rows.schema), output) == ()
    assert list(server.query("SELECT id, energy FROM merged ORDER BY id")) == [("a", None), ("b", 1.5)]
    other = spark.sql("SELECT 'c' AS id, '2503 rpm' AS speed, 1 AS other")
    with pytest.raises(SinkError, match=rf"the column 'speed' is int.*, but the rows have string there \({text}\)"):
        write_batch(sink, other, batch_of(1, query="merged"))
    # Nothing was added, since the rows cannot go there.
    assert "adds the column other" in sink.changes(fields_of(other.drop("speed").schema), output)[0]
    # Where nothing is added, the server says for each value whether it fits.
    assert strict.changes(fields_of(other.drop("other").schema), output) == ()
    write_batch(strict, spark.sql("SELECT 'c' AS id, '7' AS speed"), batch_of(2, query="merged"))
    assert list(server.query("SELECT speed FROM merged WHERE id = 'c'")) == [(7,)]


def writers_add_the_same_columns(spark: SparkSession, server: SqlServer) -> None:
    """Four of them at once."""
    server.query("CREATE TABLE races (id INT PRIMARY KEY)")
    sink = sink_of(server.section("table = races, key = [id], merge_schema = true"))
    ids = ["int(id) AS id", *(f"int(id) AS c{number}" for number in range(12))]
    rows = [spark.range(n, n + 1).selectExpr(*ids) for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: write_batch(sink, rows[n], batch_of(0, query=f"races_{n}")), range(4)))
    assert list(server.query("SELECT id, c0, c11 FROM races ORDER BY id")) == [(n, n, n) for n in range(4)]

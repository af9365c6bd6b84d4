"""Files of every format: what a reader of the directory sees, sizes of files, and settings that are refused.

Beside them, formats that are named: of those that Spark brings along, JDBC is tried with Derby in Spark's own process.
"""

import csv
import gzip
import json
from decimal import Decimal
from pathlib import Path

import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.orc
import pytest
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import RuleFileError, SinkError
from heliograph.pipeline.sinks import MicroBatch, OutputMode
from heliograph.pipeline.sinks.spark.writing import check_rows, write_batch
from pipeline.batches import Batches, sink_of, station_rows
from support.cases import cases

pytestmark = [pytest.mark.service, pytest.mark.slow]

EVERYTHING = """
    select 7 i, 8L l, 2.5D d, cast('12.34' as decimal(10,2)) price, 'ä"x,' s, true b, date'2026-01-02' day,
        timestamp'2026-01-02 03:04:05.123456' at, cast(null as string) none
"""


def _lines(directory: Path) -> list[str]:
    return [line for file in sorted(directory.iterdir()) for line in file.read_text(encoding="utf-8").splitlines()]


def test_csv_refuses_columns_that_it_has_no_form_for(spark: SparkSession) -> None:
    sink = sink_of("type = csv, path = obs")
    with pytest.raises(SinkError, match="the column 'tools' is map<string,int>, and CSV has no such values"):
        check_rows(sink, spark.sql("SELECT 1 AS n, map('a', 1) AS tools").schema)


@pytest.mark.parametrize("kind", ["json", "csv", "orc", "parquet"])
def test_a_batch_that_runs_again_is_there_once(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    sink = sink_of(f'type = {kind}, path = "lake/obs", partition_by = [station]')
    batches = Batches(tmp_path)
    written = write_batch(sink, station_rows(spark, ("JFK", 1), ("EWR", 2)), batches.number(0))
    assert (written.rows_total, written.figures["rows"]) == (2, 2)
    assert written.figures["files"] == 2
    assert written.figures["bytes"] > 0
    for _ in range(2):
        assert write_batch(sink, station_rows(spark, ("JFK", 3)), batches.number(1)).rows_total == 3
    files = sorted(str(file.relative_to(tmp_path / "lake")) for file in (tmp_path / "lake").rglob(f"*.{kind}"))
    assert files == [
        f"obs/station=EWR/11111111-00000000-0000.{kind}",
        f"obs/station=JFK/11111111-00000000-0001.{kind}",
        f"obs/station=JFK/11111111-00000001-0000.{kind}",
    ]
    found = ds.dataset(tmp_path / "lake" / "obs", format=kind, partitioning="hive").to_table()
    assert sorted(map(str, found.column("n").to_pylist())) == ["1", "2", "3"]
    with pytest.raises(SinkError, match="was written by 11111111-owner-1, not by this checkpoint"):
        write_batch(sink, station_rows(spark, ("JFK", 1)), Batches(tmp_path, "22222222-other").number(0))


def test_values_of_every_kind_as_text_and_in_orc(spark: SparkSession, tmp_path: Path) -> None:
    rows, batches = spark.sql(EVERYTHING), Batches(tmp_path)
    write_batch(sink_of("type = json, path = json"), rows, batches.number(0))
    (line,) = _lines(tmp_path / "json")
    numbers = {"i": 7, "l": 8, "d": 2.5, "price": 12.34, "b": True, "none": None}
    times = {"day": "2026-01-02", "at": "2026-01-02T03:04:05.123456Z"}
    assert json.loads(line) == {"s": 'ä"x,', **numbers, **times}
    write_batch(sink_of("type = csv, path = csv"), rows, batches.number(0))
    assert _lines(tmp_path / "csv") == [
        "i,l,d,price,s,b,day,at,none",
        '7,8,2.5,12.34,"ä""x,",true,2026-01-02,2026-01-02T03:04:05.123456Z,',
    ]
    write_batch(
        sink_of('type = csv, path = csv2, header = false, delimiter = "|", null_value = NULL'), rows, batches.number(0)
    )
    assert _lines(tmp_path / "csv2") == ['7|8|2.5|12.34|"ä""x,"|true|2026-01-02|2026-01-02T03:04:05.123456Z|NULL']
    write_batch(sink_of("type = orc, path = orc, compression = zlib"), rows, batches.number(0))
    (file,) = (tmp_path / "orc").iterdir()
    (row,) = pyarrow.orc.read_table(file).to_pylist()
    assert (row["i"], row["price"], row["s"], row["none"]) == (7, Decimal("12.34"), 'ä"x,', None)


def test_texts_come_back_from_csv_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    texts = ["  lead", "trail  ", "a,b", 'q"q', "two\nlines", "cr\rx", "back\\", '\\"x', "#no comment", "", " "]
    rows = spark.createDataFrame([(number, text) for number, text in enumerate(texts)], 'n int, `a, "b` string')
    write_batch(sink_of('type = csv, path = "with blanks"'), rows.coalesce(1), Batches(tmp_path).number(0))
    (file,) = (tmp_path / "with blanks").iterdir()
    with file.open(newline="", encoding="utf-8") as stream:
        head, *lines = csv.reader(stream)
    assert head == ["n", 'a, "b']
    assert [text for _, text in lines] == texts


def test_compressed_text_says_so_in_its_name(spark: SparkSession, tmp_path: Path) -> None:
    write_batch(
        sink_of("type = json, path = obs, compression = gzip"), station_rows(spark, ("JFK", 1)), _first(tmp_path)
    )
    (file,) = (tmp_path / "obs").iterdir()
    assert file.name.endswith(".json.gz")
    assert json.loads(gzip.decompress(file.read_bytes())) == {"station": "JFK", "n": 1}


def test_columns_that_csv_does_not_have_are_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"(?s)ARRAY"):
        write_batch(sink_of("type = csv, path = obs"), spark.sql("select array(1) a"), _first(tmp_path))


def test_files_have_the_rows_that_are_wanted(spark: SparkSession, tmp_path: Path) -> None:
    batches, rows = Batches(tmp_path), spark.range(100).repartition(8)
    sink = sink_of("type = parquet, path = obs, target_file_rows = 40")
    assert write_batch(sink, rows, batches.number(0)).figures["files"] == 3
    parted = sink_of("type = json, path = parted, target_file_rows = 1000, partition_by = [k]")
    assert write_batch(parted, rows.selectExpr("id", "id % 3 k"), batches.number(0)).figures["files"] == 3


def test_files_have_about_the_bytes_that_are_wanted(spark: SparkSession, tmp_path: Path) -> None:
    batches, rows = Batches(tmp_path), spark.range(0, 20_000, numPartitions=8).selectExpr("uuid() u")
    sink = sink_of("type = json, path = obs, target_file_bytes = 400000")
    before = write_batch(sink, rows, batches.number(0))
    assert before.figures["bytes"] == 20_000 * 45
    assert write_batch(sink, rows, batches.number(1)).figures["files"] == 3, (
        "900 kB by what a row of the first batch took"
    )


def test_a_guest_writes_beside_the_owner(spark: SparkSession, tmp_path: Path) -> None:
    sink, owner = sink_of("type = parquet, path = obs"), Batches(tmp_path)
    write_batch(sink, station_rows(spark, ("JFK", 1)), owner.number(0))
    guest = Batches(tmp_path, "22222222-backfill", owner.owner)
    for _ in range(2):
        assert write_batch(sink, station_rows(spark, ("EWR", 2)), guest.number(0)).rows_total == 2
    assert write_batch(sink, station_rows(spark, ("LGA", 3)), owner.number(1)).rows_total == 3
    assert sorted(ds.dataset(tmp_path / "obs").to_table().column("n").to_pylist()) == [1, 2, 3]


@cases(
    ("text", "mode", "said"),
    [
        ('type = json, path = "/tmp/obs"', "append", "expected a path below the output directory"),
        ("type = json, path = obs", "complete", "takes mode append only"),
        ("type = json, path = obs, compression = zstd", "append", "expected none, gzip or bzip2"),
        ('type = csv, path = obs, delimiter = ""', "append", "expected one character"),
        ("type = csv, path = obs, target_file_rows = 0", "append", "expected an integer of at least 1"),
        ("type = parquet, path = obs, headers = true", "append", "headers: unknown key"),
        ('type = parquet, path = "ftp://x/y"', "append", "the scheme must be one of s3, gs"),
        ('type = parquet, path = "s3://bucket"', "append", "must have a path after the bucket"),
        ('type = orc, path = "s3://b/x", storage_options { key = x }', "append", "has the option 'key', which s3 does"),
        ("type = orc, path = obs, storage_options { region = x }", "append", "storage_options: are for a URI"),
        ("type = parquet, path = obs, partition_by = [a]", "complete", "partition_by: is for mode append"),
        ("type = parquet, path = obs", "update", "has no key"),
    ],
)
def test_settings_that_are_not_valid_are_named(text: str, mode: str, said: str) -> None:
    with pytest.raises(RuleFileError) as caught:
        sink_of(text, OutputMode(mode))
    assert said in str(caught.value)


def _first(output: Path) -> MicroBatch:
    return Batches(output).number(0)


def test_rows_are_added_in_the_format_that_is_named(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(
        f"SELECT reflect('java.lang.System', 'setProperty', 'derby.stream.error.file', '{tmp_path}/log')"
    ).collect()
    derby = {"url": "jdbc:derby:memory:heliograph;create=true", "dbtable": "obs"}
    options = ", ".join(f'{name} = "{value}"' for name, value in derby.items())
    sink, batches = sink_of(f"type = spark, format = jdbc, options {{ {options} }}"), Batches(tmp_path)
    for number in range(2):
        written = write_batch(sink, station_rows(spark, ("JFK", number), (None, 7)), batches.number(number))
        assert written.figures == {"rows": 2}
    found = spark.read.format("jdbc").options(**derby).load().collect()
    assert sorted((str(row[0]), row[1]) for row in found) == [("JFK", 0), ("JFK", 1), ("None", 7), ("None", 7)]


@cases(
    ("settings", "reason"),
    [
        ("format = nothing", r"Spark's format nothing: .*Failed to find the data source: nothing.*: name its jar"),
        (
            'format = jdbc, options { url = "jdbc:nothing://h;password=hunter2", dbtable = t }',
            r"Spark's format jdbc: .*No suitable driver: name its jar",
        ),
        (
            'format = jdbc, options { url = "jdbc:derby:memory:x", dbtable = t, driver = org.example.Driver }',
            r"ClassNotFoundException: org.example.Driver: name its jar",
        ),
        (
            'format = jdbc, options { url = "jdbc:derby:memory:hunter2", dbtable = t, password = hunter2 }',
            r"Database '.*\*\*\*\*\*\*' not found",
        ),
        ("format = json", r"Spark's format json: .*path"),
    ],
)
def test_what_spark_cannot_write_is_one_sentence(
    spark: SparkSession, tmp_path: Path, settings: str, reason: str
) -> None:
    with pytest.raises(SinkError, match=reason) as raised:
        write_batch(sink_of(f"type = spark, {settings}"), station_rows(spark, ("JFK", 1)), Batches(tmp_path).number(0))
    assert (raised.value.__cause__, raised.value.__context__) == (None, None)
    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)

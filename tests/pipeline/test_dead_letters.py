"""Dead letters: what a rule or a sink refuses is kept with its reason and position, and comes back when mended."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from heliograph.pipeline.files.rulefile import load_pipeline
from heliograph.pipeline.side_outputs.dead_letter_table import count_letters, show_letters
from heliograph.pipeline.side_outputs.letter_replay import replay_letters
from heliograph.pipeline.side_outputs.retention import Retention, count_table, keep_within
from heliograph.pipeline.sinks import KINDS
from heliograph.pipeline.sinks import parquet as parquet_sinks
from heliograph.processes.backoff import Backoff
from pipeline.refusing_sink import RefusingSink
from support.pipeline_run import Run

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]

_RULE = """
rules.obs {
  sql = "SELECT payload.n / payload.by AS n, payload.name AS name FROM \\"a/#\\""
  columns { n = double, name = string }
  required = [name]
  sink { type = parquet, path = obs }
}
"""


@pytest.fixture
def run(stored: "Stored", tmp_path: Path) -> Run:
    made = Run(tmp_path, stored.endpoint)
    made.backoff = Backoff(0.01, 60.0)
    return made


def _letters(run: Run) -> list[dict[str, Any]]:
    table: pa.Table = ds.dataset(run.output / "dead_letters", format="parquet").to_table()
    return sorted(table.to_pylist(), key=lambda letter: (letter["cause"], letter["payload"] or b""))


def test_messages_that_fail_or_lack_something_are_kept_and_replayed_once_the_rule_is_mended(
    spark: SparkSession, run: Run, stored: "Stored"
) -> None:
    run.write_rules(_RULE)
    stored.put("a/1", [b'{"n": 4, "by": 2, "name": "x"}', b'{"n": 1, "by": 0, "name": "y"}'])
    stored.put("a/2", [b'{"n": 6, "by": 2}', b"no JSON"])
    figures = run.once(spark)["obs"]
    assert (figures.rows_written, figures.rows_failed, figures.rows_refused, figures.dead_letters) == (1, 2, 1, 3)
    lacking, not_json, failed = _letters(run)
    assert (lacking["cause"], lacking["row"]) == ("required", '{"n":3.0}')
    assert lacking["reason"] == "without a value, but required: name"
    assert (failed["cause"], failed["rule"], failed["topic"]) == ("rule", "obs", "a/1")
    assert (failed["batch"], failed["payload"]) == (0, b'{"n": 1, "by": 0, "name": "y"}')
    assert len(failed["guid"]) == 16
    assert failed["stream"].startswith("messages/")
    assert failed["stored_at"] is not None
    assert "zero" in failed["reason"]
    assert not_json["payload"] == b"no JSON"

    mended = _RULE.replace("payload.n / payload.by", "CASE WHEN payload.by = 0 THEN 0 ELSE payload.n / payload.by END")
    run.write_rules(mended)
    replayed = replay_letters(spark, load_pipeline(run.file), "obs", run.settings())
    assert (replayed.letters, replayed.rows, replayed.kept) == (1, 1, 2)
    assert sorted(run.table("obs").column("name").to_pylist()) == ["x", "y"]
    again = replay_letters(spark, load_pipeline(run.file), "obs", run.settings())
    assert (again.letters, again.rows, again.kept) == (0, 0, 2)
    assert run.table("obs").num_rows == 2
    # Spark reads the table also behind a replay.
    table_of_spark = spark.read.option("recursiveFileLookup", "true").parquet(str(run.output / "dead_letters"))
    assert sum(row["replayed_at"] is not None for row in table_of_spark.collect()) == 1

    counts = {count.cause: (count.waiting, count.replayed) for count in count_letters(run.output / "dead_letters")}
    assert counts == {"required": (1, 0), "rule": (1, 1)}
    shown = list(show_letters(run.output / "dead_letters", "obs", 10))
    assert len(shown) == 2
    assert "no JSON" in "\n".join(letter.to_text() for letter in shown)
    table = run.output / "dead_letters"
    assert keep_within(table, Retention(3600)).batches == 0
    assert count_table(table, {}).rows == 3
    removed = keep_within(table, Retention(-1))
    assert (removed.batches, removed.rows) == (1, 3)
    assert count_letters(run.output / "dead_letters") == []


def test_a_row_that_the_sink_refuses_keeps_its_message_also_when_the_batch_runs_again(
    spark: SparkSession, run: Run, stored: "Stored", monkeypatch: pytest.MonkeyPatch
) -> None:
    picky = dict(KINDS) | {"picky": ("picky", "RefusingSink")}
    monkeypatch.setattr("heliograph.pipeline.sinks.KINDS", picky)
    monkeypatch.setattr("heliograph.pipeline.sinks.import_module", lambda name: _Modules(name))
    # A time and bytes, which sinks have in other forms than Spark's rows.
    timed = _RULE.replace("AS name FROM", "AS name, '2026-01-02T03:04:05.123456Z' AS at, payload AS raw FROM")
    timed = timed.replace("name = string }", "name = string, at = timestamp, raw = binary }")
    run.write_rules(timed.replace("type = parquet", "type = picky"))
    stored.put("a/1", [b'{"n": 4, "by": 2, "name": "x"}', b'{"n": 8, "by": 2, "name": "y"}', b"no JSON"])
    RefusingSink.refused["name"] = {"y"}
    RefusingSink.fails_once.append("killed behind the sink's commit")
    try:
        figures = run.once(spark)["obs"]
        assert (figures.restarts, figures.dead_letters, figures.rows_written) == (1, 2, 1)
        assert run.table("obs").column("name").to_pylist() == ["x"]
        not_json, refused = _letters(run)
        assert not_json["cause"] == "rule"
        assert (refused["cause"], refused["reason"]) == ("sink", "y is taken")
        assert (refused["topic"], refused["payload"]) == ("a/1", b'{"n": 8, "by": 2, "name": "y"}')
        kept = replay_letters(spark, load_pipeline(run.file), "obs", run.settings())
        assert (kept.letters, kept.rows, kept.kept) == (0, 0, 2)
        RefusingSink.refused.clear()
        replayed = replay_letters(spark, load_pipeline(run.file), "obs", run.settings())
        assert (replayed.letters, replayed.rows, replayed.kept) == (1, 1, 1)
        assert sorted(run.table("obs").column("name").to_pylist()) == ["x", "y"]
    finally:
        RefusingSink.refused.clear()
        RefusingSink.fails_once.clear()


def test_a_letter_of_which_nothing_can_be_made_again_waits_on(spark: SparkSession, run: Run, stored: "Stored") -> None:
    run.write_rules(_RULE)
    stored.put("a/1", [b'{"n": 1, "by": 1, "name": "x"}', b"no JSON"])
    run.once(spark)
    (file,) = (run.output / "dead_letters").rglob("*.parquet")
    letters = pq.read_table(file)
    for name, value in {"topic": None, "row": "{'n': datetime.date(2026, 1, 1), 'name': None}"}.items():
        place = letters.schema.get_field_index(name)
        letters = letters.set_column(place, letters.schema.field(name), pa.array([value], pa.string()))
    pq.write_table(letters, file)
    replayed = replay_letters(spark, load_pipeline(run.file), "obs", run.settings())
    assert (replayed.letters, replayed.rows, replayed.kept) == (0, 0, 1)
    assert run.table("obs").column("name").to_pylist() == ["x"]


_SOURCE = """
sources.typed { topics = "a/#", schema = json, json_schema = "id STRING, speed INT" }
stream_sql.obs {
  sql = "SELECT value.id AS id, value.speed AS speed FROM typed"
  sink { type = parquet, path = obs }
}
"""


def test_what_a_source_cannot_decode_is_counted_and_becomes_a_letter_where_the_source_says_so(
    spark: SparkSession, run: Run, stored: "Stored"
) -> None:
    run.write_rules(_SOURCE)
    stored.put("a/1", [b'{"id": "x", "speed": 1200}', b'{"id": 7, "speed": "1200 rpm"}', b'{"id": "z", "sp'])
    kept = run.once(spark)["obs"]
    assert (kept.rows_read, kept.rows_written, kept.decode_failed, kept.dead_letters) == (3, 3, 2, 0)
    rows = sorted(run.table("obs").to_pylist(), key=str)
    assert rows == [{"id": "7", "speed": None}, {"id": "x", "speed": 1200}, {"id": None, "speed": None}]

    run.write_rules(_SOURCE.replace("topics =", "dead_letters = true, topics ="))
    stored.put("a/1", [b'{"id": "y", "speed": 1300}', b'{"id": "w", "speed": "1300 rpm"}', b"no JSON"])
    left_out = run.once(spark)["obs"]
    assert (left_out.rows_read, left_out.rows_written) == (3, 1)
    assert (left_out.decode_failed, left_out.dead_letters) == (2, 2)
    other_type, no_json = sorted(_letters(run), key=lambda letter: letter["payload"] == b"no JSON")
    assert (no_json["rule"], no_json["cause"], no_json["payload"]) == ("typed", "decode", b"no JSON")
    assert other_type["reason"] == 'field speed is "1300 rpm", which is no INT'


class _Modules:
    """The module of a kind of sink: of Parquet's, or this one."""

    def __init__(self, name: str) -> None:
        self.RefusingSink = RefusingSink
        self.ParquetSink = parquet_sinks.ParquetSink

"""Stream SQL: several views, joins, deduplication and sessions; and late rows, compared with what Spark has dropped."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from heliograph.cli.main import main
from heliograph.pipeline.errors import DefinitionChangedError, OptionError
from heliograph.pipeline.files.definition import Pipeline
from heliograph.pipeline.files.rulefile import load_pipeline
from heliograph.pipeline.side_outputs.late_table import late_target, replay_late_rows
from heliograph.pipeline.sinks.parquet import ParquetSink
from pipeline.refusing_sink import RefusingSink
from support.pipeline_run import Run

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]

_OBS = """
rules.obs {
  sql = "SELECT payload.id AS id, payload.station AS station, payload.n AS n, payload.at AS at FROM \\"obs/#\\""
  columns { id = string, station = string, n = bigint, at = timestamp }
  watermark { column = at, delay = "1 minute" }
  DEDUPLICATE
}
"""
_TWICE = _OBS.replace("DEDUPLICATE", "deduplicate { columns = [id] }")
_PLAIN = _OBS.replace("DEDUPLICATE", "")


@pytest.fixture
def run(stored: "Stored", tmp_path: Path) -> Run:
    return Run(tmp_path, stored.endpoint)


def _observation(station: str, n: int, minute: int, **more: Any) -> bytes:
    at = f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00Z"
    return json.dumps({"id": f"{station}{n}", "station": station, "n": n, "at": at, **more}).encode()


def _late(run: Run, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ds.dataset(run.output / "late" / name, format="parquet").to_table().to_pylist()
    return rows


def test_views_join_tables_and_one_another(spark: SparkSession, run: Run, stored: "Stored") -> None:
    (run.directory / "airports.csv").write_text("code,name\nJFK,Kennedy\nEWR,Newark\n")
    run.write_rules(
        _TWICE
        + """
        sources.alerts {
          topics = ["alerts/#"]
          watermark { column = stored_at, delay = "1 hour" }
        }
        tables.airports { type = csv, path = airports.csv }
        stream_sql.named {
          sql = "SELECT o.station, a.name, o.n FROM obs o JOIN airports a ON a.code = o.station -- not alerts"
          sink { type = parquet, path = named }
        }
        stream_sql.alerted {
          sql = "SELECT n, CAST(a.payload AS STRING) AS alert FROM obs JOIN alerts a ON a.topic = 'alerts/' || id"
          sink { type = parquet, path = alerted }
        }
        stream_sql.visits {
          from = obs
          sql = \"\"\"SELECT station, session_window.start AS began, count(*) AS rows FROM obs
                   GROUP BY station, session_window(at, '5 minutes')\"\"\"
          mode = complete
          sink { type = parquet, path = visits }
        }
        """
    )
    jfk = [_observation("JFK", n, minute) for n, minute in enumerate([0, 1, 30, 31])]
    stored.put("obs/1", [*jfk, jfk[0], _observation("EWR", 9, 31)])
    stored.put("alerts/JFK2", [b"gust"])
    figures = run.once(spark)
    named = run.table("named").to_pylist()
    assert sorted((row["name"], row["n"]) for row in named) == [("Kennedy", n) for n in range(4)] + [("Newark", 9)]
    assert run.table("alerted").to_pylist() == [{"n": 2, "alert": "gust"}]
    visits = {(row["station"], row["began"].minute): row["rows"] for row in run.table("visits").to_pylist()}
    assert visits == {("JFK", 0): 2, ("JFK", 30): 2, ("EWR", 31): 1}
    assert {name: query.lag for name, query in figures.items()} == dict.fromkeys(figures, 0)
    assert figures["alerted"].rows_read == 7


def test_rows_that_spark_drops_as_late_are_kept_exactly(
    spark: SparkSession, run: Run, stored: "Stored", capsys: pytest.CaptureFixture[str]
) -> None:
    job = """
    stream_sql.hourly {
      sql = "SELECT n, window.end AS till, count(*) AS rows FROM obs GROUP BY n, window(at, '1 hour')"
      mode = MODE
      sink { type = parquet, path = hourly, KEY }
    }
    """
    updated = job.replace("MODE", "update").replace("KEY", "key = [n, till]")
    single = _TWICE.replace("rules.obs", "rules.once")
    run.write_rules(
        _PLAIN
        + updated
        + single.replace("columns = [id] }", "columns = [id] }\n  sink { type = parquet, path = once }")
        + "sinks.elsewhere { type = parquet, path = elsewhere }"
    )
    stored.put("obs/1", [_observation("a", 1, 10), _observation("b", 2, 100)])
    run.once(spark)  # the watermark comes to 1:39 behind this batch
    late = [_observation("c", 3, 59), _observation("d", 4, 0)]
    in_time = [_observation("e", 5, 61), _observation("f", 6, 200), _observation("g", 7, 99, id="a1")]
    stored.put("obs/1", [*late, *in_time])
    figures = run.once(spark)
    hourly, once = figures["hourly"], figures["once"]
    # Of a window the end decides, of a single row its own time.
    assert (hourly.rows_late, hourly.late_kept) == (2, 2)
    assert {json.loads(row["row"])["n"] for row in _late(run, "hourly")} == {3, 4}
    assert {row["view"] for row in _late(run, "hourly")} == {"obs"}
    assert (once.rows_late, once.late_kept) == (4, 4)
    assert {json.loads(row["row"])["n"] for row in _late(run, "once")} == {3, 4, 5, 7}
    assert {row["n"] for row in run.table("hourly").to_pylist()} == {1, 2, 5, 6, 7}
    capsys.readouterr()
    output = ["--output", str(run.output)]
    assert main(["pipeline", "late", "ls", *output]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["hourly", "obs", "2", "0", "2026-01-01T00:00:00+00:00"]
    assert main(["pipeline", "late", "show", "hourly", *output, "--limit", "1", "--json"]) == 0
    (shown,) = capsys.readouterr().out.splitlines()
    assert json.loads(shown)["event_time"] == "2026-01-01T00:00:00+00:00"
    _replay_late_rows(spark, run, load_pipeline(run.file))
    capsys.readouterr()
    assert main(["pipeline", "late", "ls", *output]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["hourly", "obs", "0", "2"],
        ["once", "once", "0", "4"],
    ]
    assert main(["pipeline", "late", "show", "hourly", *output]) == 0
    assert capsys.readouterr().out == ""
    assert main(["pipeline", "late", "show", "hourly", *output, "--all"]) == 0
    assert capsys.readouterr().out.count(", replayed 20") == 2
    _see_which_late_rows_are_not_replayed(spark, run, load_pipeline(run.file))

    run.write_rules(_PLAIN + updated.replace("count(*)", "sum(1)"))
    told = "its SQL changed, on which its state depends.* version = 2 in hourly"
    with pytest.raises(DefinitionChangedError, match=told):
        run.once(spark)


def _replay_late_rows(spark: SparkSession, run: Run, pipeline: Pipeline) -> None:
    """Replay them with a sink that fails behind its commit, and with one that refuses a row."""
    RefusingSink.fails_once.append("killed behind the sink's commit")
    place = RefusingSink("once_late")
    with pytest.raises(RuntimeError, match="killed"):
        replay_late_rows(spark, pipeline, "once", run.settings(), place)
    assert run.table("once_late").num_rows == 4
    for rows in (4, 0):
        done = replay_late_rows(spark, pipeline, "once", run.settings(), place)
        assert (done.rows, done.kept) == (rows, 0)
    found = sorted(run.table("once_late").to_pylist(), key=lambda row: int(row["n"]))
    assert [(row["n"], row["station"]) for row in found] == [(3, "c"), (4, "d"), (5, "e"), (7, "g")]
    assert found[0]["at"].replace(tzinfo=UTC) == datetime(2026, 1, 1, 0, 59, tzinfo=UTC)
    # Spark reads what was marked, too.
    late = spark.read.option("recursiveFileLookup", "true").parquet(str(run.output / "late" / "once"))
    assert [row["replayed_at"] is not None for row in late.collect()] == [True] * 4

    RefusingSink.refused["n"] = {4}
    try:
        done = replay_late_rows(spark, pipeline, "hourly", run.settings(), RefusingSink("hourly_late"))
        assert (done.rows, done.kept, done.reason) == (1, 1, "4 is taken")
    finally:
        RefusingSink.refused.clear()
    done = replay_late_rows(spark, pipeline, "hourly", run.settings(), late_target(pipeline, "hourly_late", None))
    assert (done.rows, done.kept, done.target) == (1, 0, "Parquet table hourly_late")
    hours = {row["n"]: row["window"]["start"].replace(tzinfo=UTC) for row in run.table("hourly_late").to_pylist()}
    assert hours == dict.fromkeys((3, 4), datetime(2026, 1, 1, tzinfo=UTC))


def _see_which_late_rows_are_not_replayed(spark: SparkSession, run: Run, pipeline: Pipeline) -> None:
    assert late_target(pipeline, None, "elsewhere").target == "Parquet table elsewhere"
    for table, sink, told in (
        ("hourly", None, "hourly writes the table hourly"),
        ("late", None, "keeps what was left out there"),
        ("a/b", None, "the name of a table"),
        (None, "nowhere", "there are: elsewhere"),
    ):
        with pytest.raises(OptionError, match=told):
            late_target(pipeline, table, sink)
    (file, *_) = (run.output / "late" / "hourly").rglob("*.parquet")
    of_views = [{"view": view, "replayed_at": None} for view in ("obs", "alerts")]
    place = run.output / "late" / "hourly" / "0123abcd-00000099"
    place.mkdir()
    pq.write_table(
        pa.Table.from_pylist(of_views, pa.schema([("view", "string"), ("replayed_at", "timestamp[us]")])),
        place / file.name,
    )
    with pytest.raises(OptionError, match="--view is '', but must be one of alerts, obs"):
        replay_late_rows(spark, pipeline, "hourly", run.settings(), ParquetSink("hourly_late"))


def test_a_batch_that_only_the_sink_knows_is_not_repeated_and_keeps_its_state(
    spark: SparkSession, run: Run, stored: "Stored"
) -> None:
    run.write_rules(
        _PLAIN
        + """
        stream_sql.hours {
          sql = "SELECT window.start AS began, count(*) AS rows FROM obs GROUP BY window(at, '1 hour')"
          sink { type = parquet, path = hours }
        }
        """
    )
    stored.put("obs/1", [_observation("JFK", n, minute) for n, minute in enumerate([0, 1, 62])])
    run.once(spark)
    commits = run.checkpoint / "hours" / "commits"
    newest = max((file for file in commits.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
    newest.unlink()  # as if the driver had been killed between the sink's commit and Spark's
    (commits / f".{newest.name}.crc").unlink(missing_ok=True)
    again = run.once(spark)["hours"]
    assert (again.failures, again.last_error) == (0, None)
    stored.put("obs/1", [_observation("JFK", n, minute) for n, minute in ((4, 63), (5, 190))])
    run.once(spark)
    assert sorted(run.table("hours").column("rows").to_pylist()) == [2, 2]

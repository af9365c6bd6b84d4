"""`heliograph pipeline`: what its actions print and how they end."""

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import py4j.java_gateway
import pytest
from pyspark.sql import SparkSession

from heliograph.cli import pipeline_actions
from heliograph.cli.main import main
from heliograph.pipeline.errors import RuleFileError
from heliograph.pipeline.files.rulefile import load_pipeline
from heliograph.pipeline.running.driver import PipelineDriver
from heliograph.pipeline.running.figures import QueryFigures
from heliograph.pipeline.running.identity import claim_output
from heliograph.pipeline.running.preview import preview_queries
from heliograph.pipeline.running.queries import check_pipeline
from support.pipeline_run import Run

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]

_FILE = """
rules.obs {
  sql = "SELECT payload.n AS n, 6 / payload.n AS share FROM \\"a/#\\""
  columns { n = bigint, share = double }
  sink { type = parquet, path = obs }
}
stream_sql.total {
  sql = "SELECT sum(n) AS n FROM obs"
  mode = complete
  sink { type = console }
}
"""


@pytest.fixture
def run(stored: "Stored", tmp_path: Path) -> Run:
    return Run(tmp_path, stored.endpoint)


def test_a_pipeline_is_checked_without_a_broker(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "p.hocon"
    file.write_text(_FILE)
    nobody = {"endpoint": "127.0.0.1:9"}
    assert check_pipeline(spark, load_pipeline(file), nobody) == ["obs", "total"]
    file.write_text(_FILE.replace("sum(n)", "sum(gust)").replace("type = console }", "type = console }\n  version = 2"))
    with pytest.raises(RuleFileError, match=r"p.hocon:7: total: \[UNRESOLVED_COLUMN"):
        check_pipeline(spark, load_pipeline(file), nobody)
    file.write_text(_FILE.replace("mode = complete", "mode = append"))
    with pytest.raises(RuleFileError, match=r"p.hocon:7: total: .*append"):
        check_pipeline(spark, load_pipeline(file), nobody)


def test_validation_imports_what_sinks_need(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "p.hocon"
    file.write_text(_FILE.replace("type = parquet", "type = delta").replace("sum(n)", "sum(gust)"))
    monkeypatch.setitem(sys.modules, "deltalake", None)  # as where it is not installed
    with pytest.raises(RuleFileError) as caught:
        check_pipeline(spark, load_pipeline(file), {"endpoint": "127.0.0.1:9"})
    lacking, column = caught.value.mistakes
    assert "obs: the sink delta needs the package deltalake: pip install 'heliograph[pipeline,sinks]'" in lacking
    assert "total: [UNRESOLVED_COLUMN" in column


def test_a_checkpoint_belongs_to_one_output_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, checkpoint, output = tmp_path / "p.hocon", tmp_path / "checkpoint", tmp_path / "output"
    file.write_text(_FILE)
    claim_output(checkpoint, output)
    claim_output(checkpoint, tmp_path / "other" / ".." / "output")
    for action in (["once"], ["backfill", "--from", "earliest"]):
        command = ["pipeline", *action, str(file), "--checkpoint", str(checkpoint), "--output", str(tmp_path / "other")]
        assert main(command) == 2
        told = capsys.readouterr().err
        assert f"option --output is '{tmp_path / 'other'}', but must be {output}, to which the checkpoint" in told


def test_what_is_dead_is_not_told_to_be_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    states = [("a", "running", 0), ("b", "waiting to restart", 5), ("c", "finished", 0)]
    queries = [QueryFigures(name, state, lag=lag).to_json() for name, state, lag in states]
    (tmp_path / "status.json").write_text(json.dumps({"queries": queries}))
    assert main(["pipeline", "status", "--checkpoint", str(tmp_path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["queries"]
    assert [(query["state"], query["lag"]) for query in told] == [
        ("interrupted", None),
        ("interrupted", None),
        ("finished", 0),
    ]


def test_the_lag_behind_what_never_answered_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(tmp_path, "127.0.0.1:9")
    run.write_rules(_FILE)
    driver = PipelineDriver(spark, load_pipeline(run.file), run.settings())
    driver.stop()
    driver.run()
    assert [query.lag for query in driver.figures] == [None, None]


def test_a_plan_shows_what_comes_of_the_last_messages_and_writes_nothing(
    spark: SparkSession, run: Run, stored: "Stored"
) -> None:
    run.write_rules(_FILE)
    stored.put("b/1", [b"of no interest"])
    for n in (1, 2, 3, 0):
        stored.put("a/1", [b'{"n": %d}' % n])
    pipeline = load_pipeline(run.file)
    source = {"endpoint": run.endpoint}
    obs, total = preview_queries(spark, pipeline, pipeline.query_names, source, 3, run.output)
    assert (obs.messages, obs.failed, obs.rows_count) == (3, 1, 2)
    assert sorted(row["n"] for row in obs.rows) == [2, 3]
    assert "zero" in obs.reasons[0]
    assert [(part, engine) for part, engine, _ in obs.parts] == [("n", "udf"), ("share", "udf")]
    assert "payload" in obs.parts[0][2]
    assert (obs.target, obs.guarantee) == (pipeline.sink("obs").target, "exactly once")
    assert (total.engine, total.rows) == ("Spark SQL", ({"n": 5},))
    assert not run.output.exists()
    assert not run.checkpoint.exists()


@pytest.mark.timeout(240)
def test_the_commands_as_a_person_uses_them(
    spark: SparkSession,
    run: Run,
    stored: "Stored",
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run.write_rules(_FILE.split("stream_sql")[0])
    stored.put("a/1", [b'{"n": 1}', b'{"n": 0}'])
    # There is one Spark session in a process, which the other tests have already, and its signals are pytest's.
    monkeypatch.setattr(pipeline_actions, "start_session", lambda *_, **__: spark)
    monkeypatch.setattr(pipeline_actions, "stop_session", lambda _: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert main([str(word) for word in run.command(action="once")[1:]]) == 0
    capsys.readouterr()
    checkpoint, output = ["--checkpoint", str(run.checkpoint)], ["--output", str(run.output)]
    assert main(["pipeline", "status", *checkpoint]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("not running; the figures are of the last run")
    assert "exactly once" in shown
    assert main(["pipeline", "status", *checkpoint, "--json"]) == 1
    (figures,) = json.loads(capsys.readouterr().out)["queries"]
    assert (figures["rows_written"], figures["rows_failed"], figures["dead_letters"], figures["lag"]) == (1, 1, 1, 0)
    assert main(["pipeline", "dlq", "ls", *output]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["obs", "rule", "1", "0"]
    assert main(["pipeline", "dlq", "show", "obs", *output]) == 0
    assert 'payload {"n": 0}' in capsys.readouterr().out
    assert main(["pipeline", "dlq", "show", "obz", *output]) == 0
    assert capsys.readouterr().err.endswith("there is no dead letter of obz\n")
    assert main(["pipeline", "status", "--checkpoint", str(run.directory / "nothere")]) == 2
    for table in ("dlq", "late"):
        assert main(["pipeline", table, "ls", "--output", str(run.directory / "nothere")]) == 2
        assert "but must be the directory of a pipeline that has run" in capsys.readouterr().err


def test_py4j_logs_nothing_of_a_java_process_that_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert main(["pipeline", "status", "--checkpoint", str(tmp_path)]) == 2
    record = {"levelno": logging.INFO, "levelname": "INFO", "msg": "Exception while sending command."}
    for file, seen in ((py4j.java_gateway.__file__, 0), (__file__, 1)):
        logging.getLogger().handle(logging.makeLogRecord({**record, "pathname": file}))
        assert len(caplog.records) == seen


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_checkpoint_whose_figures_cannot_be_read_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "status.json").write_text(text)
    assert main(["pipeline", "status", "--checkpoint", str(tmp_path)]) == 2
    assert "must be the checkpoint of a pipeline that has run" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--rule", "none"),
        ("dlq", "replay", "none"),
        ("late", "replay", "none", "--table", "late"),
        ("backfill", "--rule", "none", "--from", "earliest"),
    ],
)
def test_a_rule_that_is_not_there_is_told_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def start_session(*_: object, **__: object) -> None:
        raise AssertionError("Spark starts")

    monkeypatch.setattr(pipeline_actions, "start_session", start_session)
    file = tmp_path / "p.hocon"
    file.write_text(_FILE)
    places = [] if words[0] == "plan" else ["--checkpoint", str(tmp_path / "c"), "--output", str(tmp_path / "o")]
    assert main(["pipeline", *words, str(file), *places]) == 2
    assert "option --rule is 'none', but must be one of obs, total" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--tls-ca", "none"), "option --tls-ca is 'none', but must be a file that can be read"),
        (("--token-file", "none"), "option --token-file is 'none', but must be a file that can be read"),
        (("--token-file", "/dev/null"), "a file with a token in it; it is empty"),
        (("--mqtt", "broker"), "option --mqtt is 'broker', but must be host:port, such as 127.0.0.1:1883"),
        (("--start", "soon"), "option start is 'soon'"),
    ],
)
def test_a_wrong_option_ends_a_run_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, str], told: str
) -> None:
    file = tmp_path / "p.hocon"
    file.write_text(_FILE)
    assert main(["pipeline", "run", str(file), "--checkpoint", str(tmp_path / "checkpoint"), *option]) == 2
    assert told in capsys.readouterr().err

"""The driver: rule files in, tables and messages out; in this process, and as a process that is stopped and killed."""

import json
import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from pyspark.sql import SparkSession

from heliograph.cli import pipeline_actions
from heliograph.cli.main import main
from heliograph.pipeline.errors import RuleFileError
from heliograph.pipeline.running.checkpoint_lock import checkpoint_lock
from heliograph.processes.backoff import Backoff
from support.pipeline_run import Run
from support.waiting import wait_until
from support.watchdog import show_stacks_at_sigterm

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]

_OBS = """
rules.obs {
  sql = "SELECT payload.station AS station, payload.n AS n, payload.at AS at FROM \\"weather/+/obs\\""
  columns { station = string, n = bigint, at = timestamp }
  sink { type = parquet, path = obs, partition_by = [station] }
}
"""
_ALERTS = """
rules.alerts {
  sql = "SELECT payload.station AS station, payload.n AS n FROM \\"weather/+/obs\\" WHERE payload.n >= 8"
  sink { type = mqtt, topic = "alerts/${station}", columns { station = string, n = bigint } }
}
"""
_HOURLY = """
stream_sql.hourly {
  from = obs
  sql = "SELECT station, window.start AS hour, count(*) AS rows FROM obs GROUP BY station, window(at, '1 hour')"
  MODE
  sink { type = parquet, path = hourly, KEY }
}
"""
_HOURLY_UPDATED = _HOURLY.replace("MODE", "mode = update").replace("KEY", "key = [station, hour]")


@pytest.fixture
def run(stored: "Stored", tmp_path: Path) -> Run:
    return Run(tmp_path, stored.endpoint)


def _observations(station: str, numbers: Sequence[int]) -> list[bytes]:
    return [
        b'{"station": "%s", "n": %d, "at": "2026-01-01T%02d:%02d:00Z"}' % (station.encode(), n, n // 60 % 24, n % 60)
        for n in numbers
    ]


@contextmanager
def _subscribed(address: tuple[str, int], topic_filter: str) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    messages: list[tuple[str, dict[str, Any]]] = []
    subscribed = threading.Event()
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_message = lambda client, data, message: messages.append((message.topic, json.loads(message.payload)))
    client.on_subscribe = lambda *_: subscribed.set()
    client.connect(*address)
    client.loop_start()
    client.subscribe(topic_filter, qos=1)
    assert subscribed.wait(20)
    yield messages
    client.disconnect()
    client.loop_stop()


@contextmanager
def _started(command: Sequence[str | Path], output: IO[bytes] | int, log: IO[bytes]) -> Iterator["Popen[bytes]"]:
    """A driver in a process of its own, which a test that fails leaves no more than one that passes."""
    with Popen(command, stdout=output, stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()


def test_rows_without_a_required_column_are_refused(spark: SparkSession, run: Run, stored: "Stored") -> None:
    # Null is ordered after every number, so the rule lets the observation without a number pass.
    run.write_rules(
        """
        rules.obs {
          sql = "SELECT payload.n AS n FROM \\"weather/+/obs\\" WHERE payload.n >= 8"
          sink { type = parquet, path = obs, required = [n], columns { n = bigint } }
        }
        """
    )
    stored.put("weather/JFK/obs", [b'{"n": 9}', b'{"n": null}', b'{"n": 7}', b'{"n": 8}'])
    figures = run.once(spark)["obs"]
    assert run.numbers() == [8, 9]
    assert (figures.rows_read, figures.rows_failed, figures.rows_refused, figures.rows_written) == (4, 0, 1, 2)


def test_one_run_brings_everything_stored_to_every_sink_and_the_next_only_what_is_new(
    spark: SparkSession, run: Run, stored: "Stored", mosquitto: tuple[str, int]
) -> None:
    run.mqtt = f"{mosquitto[0]}:{mosquitto[1]}"
    run.write_rules(_OBS + _ALERTS + _HOURLY_UPDATED)
    stored.put("weather/JFK/obs", [*_observations("JFK", range(10)), b'{"station": "JFK"'])
    stored.put("weather/EWR/obs", _observations("EWR", range(10, 70)), clientid="other")
    stored.put("weather/EWR/status", [b"ok"])
    with _subscribed(mosquitto, "alerts/#") as alerts:
        first = run.once(spark)
        wait_until(lambda: len(alerts) >= 62, "the alerts")
        assert len(alerts) == 62
        assert {topic for topic, _ in alerts} == {"alerts/JFK", "alerts/EWR"}
        assert ("alerts/JFK", {"station": "JFK", "n": 9}) in alerts
    assert run.numbers() == list(range(70))
    assert (first["obs"].rows_read, first["obs"].rows_written, first["obs"].rows_failed) == (71, 70, 1)
    assert (first["obs"].lag, first["obs"].state) == (0, "finished")
    rows = run.table("hourly").to_pylist()
    assert sorted((row["station"], row["hour"].hour, row["rows"]) for row in rows) == [
        ("EWR", 0, 50),
        ("EWR", 1, 10),
        ("JFK", 0, 10),
    ]
    stored.put("weather/EWR/status", [b"also of the stream, and of no query"])
    stored.put("weather/JFK/obs", _observations("JFK", [70]))
    stored.put("weather/EWR/status", [b"ok"])
    second = run.once(spark)
    assert (second["obs"].rows_read, second["obs"].rows_written) == (1, 1)
    assert (second["obs"].lag, second["obs"].behind_s) == (0, 0.0)
    assert run.numbers() == list(range(71))
    assert run.table("hourly").num_rows == 4


@pytest.mark.parametrize(("mode", "hours"), [("complete", {0, 1, 2}), ("append", {0, 1})])
def test_a_window_is_written_as_its_mode_says(
    spark: SparkSession, run: Run, stored: "Stored", mode: str, hours: set[int]
) -> None:
    watermark = 'watermark { column = at, delay = "1 minute" }'
    run.write_rules(_OBS + _HOURLY.replace("MODE", f"mode = {mode}\n{watermark}").replace(", KEY", ""))
    stored.put("weather/JFK/obs", _observations("JFK", range(130)))
    figures = run.once(spark)
    assert {row["hour"].hour for row in run.table("hourly").to_pylist()} == hours
    assert figures["hourly"].rows_late == 0


def test_the_console_shows_rows_as_json(
    spark: SparkSession, run: Run, stored: "Stored", capsys: pytest.CaptureFixture[str]
) -> None:
    run.write_rules(_ALERTS.replace('type = mqtt, topic = "alerts/${station}"', "type = console, rows = 2"))
    stored.put("weather/JFK/obs", _observations("JFK", [8, 9, 10]))
    run.once(spark)
    assert capsys.readouterr().out.splitlines() == [
        'alerts: {"station":"JFK","n":8}',
        'alerts: {"station":"JFK","n":9}',
        "alerts: ... and more rows of this batch",
    ]


def test_a_query_that_fails_is_started_again_and_catches_up(spark: SparkSession, run: Run, stored: "Stored") -> None:
    run.write_rules(_OBS)
    stored.put("weather/JFK/obs", _observations("JFK", range(5)))
    driver = run.driver(spark, trigger_s=0.1)
    (figures,) = driver.figures
    thread = threading.Thread(target=driver.run)
    thread.start()
    try:
        wait_until(lambda: figures.rows_written == 5, is_alive=thread.is_alive)
        stored.stop_reader()
        wait_until(lambda: figures.state == "waiting to restart", is_alive=thread.is_alive)
        assert figures.last_error is not None
        assert figures.last_error.startswith(f"the storage reader at {run.endpoint} does not answer")
        stored.start_reader(run.endpoint)
        stored.put("weather/JFK/obs", _observations("JFK", range(5, 9)))
        wait_until(lambda: figures.rows_written == 9, is_alive=thread.is_alive)
    finally:
        driver.stop()
        thread.join(60)
    assert figures.restarts >= 1
    assert run.numbers() == list(range(9))


def test_a_query_that_fails_at_every_start_is_given_up_in_a_single_run(
    spark: SparkSession, run: Run, stored: "Stored"
) -> None:
    run.backoff = Backoff(0.01, 60.0)
    run.write_rules(_ALERTS.replace("type = mqtt,", "type = mqtt, retry { attempts = 1 },"))
    stored.put("weather/JFK/obs", _observations("JFK", [8]))
    driver = run.driver(spark)
    assert not driver.run()
    (figures,) = driver.figures
    assert (figures.state, figures.restarts) == ("failed", 4)
    assert figures.last_error is not None
    assert "the MQTT broker at 127.0.0.1:9 cannot be reached" in figures.last_error


def test_a_mistake_that_spark_finds_stops_the_start(spark: SparkSession, run: Run) -> None:
    run.write_rules(_OBS + _HOURLY_UPDATED.replace("count(*)", "sum(wind)"))
    with pytest.raises(RuleFileError, match=r"pipeline.hocon:8: hourly: \[UNRESOLVED_COLUMN"):
        run.driver(spark).run()


@pytest.mark.timeout(300)
def test_a_driver_killed_in_the_middle_of_a_batch_loses_and_repeats_no_row(
    spark: SparkSession, run: Run, stored: "Stored", capsys: pytest.CaptureFixture[str]
) -> None:
    run.write_rules(_OBS + _HOURLY_UPDATED)
    bookkeeping = run.directory / "output" / ".heliograph" / "obs"
    count = 2000
    # As many batches as commits, so that it is in the middle however late it is looked at.
    command = run.command("--trigger", "50ms", "--max-messages-per-trigger", "20")
    with (run.directory / "driver.log").open("ab") as log, _started(command, log, log) as process:
        wait_until(
            lambda: run.status().get("obs", {}).get("state") == "running", is_alive=lambda: process.poll() is None
        )
        used = f"the checkpoint {run.checkpoint} is in use by another pipeline driver (process {process.pid})"
        for action in ("run", "once"):
            assert main([str(word) for word in run.command(action=action)[1:]]) == 2
            assert used in capsys.readouterr().err
        for begin in range(0, count, 20):
            stored.put("weather/JFK/obs", _observations("JFK", range(begin, begin + 20)))
        # Killed while files are staged; those who were refused have disturbed nothing.
        for is_there in (lambda: any(bookkeeping.glob("batches/*.json")), (bookkeeping / "staging").exists):
            wait_until(is_there, is_alive=lambda: process.poll() is None)
    assert len(run.numbers()) < count
    # What the killed driver left of Spark may live on for a moment; the lock says when it has ended.
    with checkpoint_lock(run.directory / "checkpoint"):
        run.once(spark)
    assert run.numbers() == list(range(count))
    assert sum(row["rows"] for row in run.table("hourly").to_pylist()) == count


@pytest.mark.timeout(300)
def test_the_command_runs_until_it_is_told_to_stop(
    spark: SparkSession,
    run: Run,
    stored: "Stored",
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    # There is one Spark session in a process, which the other tests have already; signals come to this thread.
    monkeypatch.setattr(pipeline_actions, "start_session", lambda *_, **__: spark)
    monkeypatch.setattr(pipeline_actions, "stop_session", lambda _: None)
    caplog.set_level(logging.INFO)
    run.write_rules(_OBS)
    stored.put("weather/JFK/obs", _observations("JFK", range(5)))

    def stop_when_all_is_written() -> None:
        try:
            wait_until(lambda: run.status().get("obs", {}).get("rows_written") == 5)
            stored.put("weather/JFK/obs", _observations("JFK", range(5, 8)))
            wait_until(lambda: run.status().get("obs", {}).get("rows_written") == 8)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    signal.signal(signal.SIGTERM, lambda *_: pytest.fail("the command does not listen to signals"))
    person = threading.Thread(target=stop_when_all_is_written)
    person.start()
    try:
        code = main([str(word) for word in run.command("--trigger", "100ms", "--json")[1:]])
    finally:
        try:
            person.join()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            show_stacks_at_sigterm(request.config)
    assert code == 0
    (figures,) = json.loads(capsys.readouterr().out)["queries"]
    assert (figures["name"], figures["rows_written"], figures["lag"]) == ("obs", 8, 0)
    assert figures["failures"] == 0
    assert any(message.startswith("obs: finished, batch") for message in caplog.messages)
    assert run.numbers() == list(range(8))


def test_the_command_names_a_mistake_in_a_rule_file(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.write_rules('rules.r { sql = "SELECT FROM" }')
    assert main([str(word) for word in run.command(action="once")[1:]]) == 2
    printed = capsys.readouterr()
    assert "pipeline.hocon:1: rules.r.sql: line 1, column" in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


def test_a_rule_keeps_the_newest_nested_row_of_each_key(spark: SparkSession, run: Run, stored: "Stored") -> None:
    from deltalake import DeltaTable  # heavy: not while tests are collected

    run.write_rules(
        """
        rules.last {
          sql = "SELECT payload.machine AS machine, payload.ts AS ts, payload.tools AS tools FROM \\"load/#\\""
          columns { machine = string, ts = timestamp, tools = "array<struct<id: string, wear: map<string, double>>>" }
          sink { type = delta, path = last, key = [machine], newest_by = ts }
        }
        """
    )

    def put(machine: str, hour: int, tools: object) -> None:
        document = {"machine": machine, "ts": f"2026-01-31T{hour:02}:00:00Z", "tools": tools}
        stored.put(f"load/{machine}", [json.dumps(document).encode()])

    put("a", 9, [{"id": 1, "wear": {"x": 0.5, "y": "worn"}}, None])
    put("a", 8, [{"id": 2}])
    put("b", 1, "none")
    figures = run.once(spark)["last"]
    assert (figures.rows_failed, figures.dead_letters) == (1, 1)
    put("a", 6, [])
    put("b", 2, [])
    run.once(spark)
    rows = pa.table(DeltaTable(str(run.output / "last")).scan())
    assert {row["machine"]: row["tools"] for row in rows.to_pylist()} == {
        "a": [{"id": "1", "wear": [("x", 0.5), ("y", None)]}, None],
        "b": [],
    }

"""Backfills and changed files: nothing is left out or repeated, and what is not sound is refused."""

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from heliograph.pipeline.datasource.client import MessageSelection, StorageClient
from heliograph.pipeline.errors import BackfillError
from heliograph.pipeline.files.rulefile import load_pipeline
from heliograph.pipeline.running.backfill import BACKFILLS, plan_backfill
from heliograph.pipeline.running.driver import FileWatch, PipelineDriver
from heliograph.pipeline.running.queries import RunSettings
from support.pipeline_run import Run
from support.waiting import wait_until

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]

_RULE = """
rules.obs {
  sql = "SELECT payload.n AS n FROM \\"a/#\\""
  columns { n = bigint }
  sink { type = parquet, path = obs }
}
"""


@pytest.fixture
def run(stored: "Stored", tmp_path: Path) -> Run:
    return Run(tmp_path, stored.endpoint)


def _backfill(
    spark: SparkSession,
    run: Run,
    since: str,
    until: str | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> int:
    pipeline, settings = load_pipeline(run.file), run.settings()
    spans = plan_backfill(pipeline, pipeline.query_names, settings, since, until)
    meanwhile()
    directory = run.checkpoint / BACKFILLS
    own = RunSettings(directory, settings.output, settings.mqtt, settings.source, None)
    directory.mkdir(exist_ok=True)
    driver = PipelineDriver(spark, pipeline, own, spans=spans)
    assert driver.run(), driver.figures
    return driver.figures[0].rows_written


def test_a_backfill_ends_exactly_where_the_query_began(spark: SparkSession, run: Run, stored: "Stored") -> None:
    run.write_rules(_RULE)
    stored.put_commits("a/1", 3, 10)
    run.source = {"start": "latest"}
    assert run.once(spark)["obs"].rows_written == 0
    stored.put("a/1", [b'{"n": 100}', b'{"n": 101}'])
    assert run.once(spark)["obs"].rows_written == 2
    assert _backfill(spark, run, "earliest") == 30
    assert run.numbers() == [*range(30), 100, 101]
    assert _backfill(spark, run, "earliest") == 0
    stored.put("a/1", [b'{"n": 102}'])
    assert run.once(spark)["obs"].rows_written == 1
    assert run.numbers() == [*range(30), 100, 101, 102]
    with pytest.raises(BackfillError, match=r"obs was backfilled from the earliest message until .* already"):
        _backfill(spark, run, "1970-01-02")
    with pytest.raises(BackfillError, match=r"obs itself began at .* would repeat messages: leave --to out"):
        _backfill(spark, run, "earliest", "2100-01-01")


def test_a_query_that_was_backfilled_before_it_ran_goes_on_there(
    spark: SparkSession, run: Run, stored: "Stored"
) -> None:
    run.write_rules(_RULE)
    stored.put_commits("a/1", 2, 10)
    assert _backfill(spark, run, "earliest") == 20
    stored.put("a/1", [b'{"n": 20}'])
    assert run.once(spark)["obs"].rows_written == 1
    assert run.numbers() == list(range(21))


@pytest.fixture
def late(tmp_path: Path) -> Iterator["Stored"]:
    """What another node stores, whose clock is an hour behind."""
    from pipeline.conftest import Stored

    another = Stored(tmp_path / "late")
    yield another
    another.close()


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the clock of what stores next, in hours."""

    def set_to(hours: int) -> None:
        shifted = SimpleNamespace(time_ns=lambda: time.time_ns() + hours * 3_600 * 10**9)
        monkeypatch.setattr("heliograph.storage.columnar.generations.time", shifted)

    return set_to


def test_what_a_late_clock_stores_after_the_border_is_the_querys(
    spark: SparkSession, run: Run, stored: "Stored", late: "Stored", clocks: Callable[[int], None]
) -> None:
    run.write_rules(_RULE)
    run.endpoint = f"{stored.endpoint},{late.endpoint}"
    run.source = {"maxMessagesPerTrigger": "2"}
    stored.put("a/1", [b'{"n": 0}', b'{"n": 1}'])
    clocks(-1)
    late.put("a/1", [b'{"n": 2}'])

    def publish_more() -> None:
        for number in (10, 11, 12):  # all before the border by their time, and behind it
            late.put("a/1", [b'{"n": %d}' % number])
        clocks(1)
        stored.put("a/2", [b'{"n": 13}'])

    assert _backfill(spark, run, "earliest", meanwhile=publish_more) == 3
    assert run.numbers() == [0, 1, 2]
    clocks(-1)
    late.put("a/3", [b'{"n": 14}'])
    run.once(spark)
    assert run.numbers() == [0, 1, 2, 10, 11, 12, 13, 14]
    assert _backfill(spark, run, "earliest") == 0
    assert run.numbers() == [0, 1, 2, 10, 11, 12, 13, 14]


def test_what_a_late_clock_stores_before_a_border_of_time_comes_with_the_same_backfill(
    spark: SparkSession, run: Run, stored: "Stored", late: "Stored", clocks: Callable[[int], None]
) -> None:
    run.write_rules(_RULE)
    run.endpoint = f"{stored.endpoint},{late.endpoint}"
    stored.put("a/1", [b'{"n": 0}'])
    middle = datetime.now(UTC).isoformat()
    stored.put("a/1", [b'{"n": 1}'])
    assert _backfill(spark, run, "earliest", middle) == 1
    clocks(-1)
    late.put("a/1", [b'{"n": 2}'])
    run.once(spark)
    assert run.numbers() == [0, 1]
    assert _backfill(spark, run, "earliest", middle) == 1
    assert run.numbers() == [0, 1, 2]


def test_latest_is_what_is_stored_next_whatever_its_time(
    spark: SparkSession, run: Run, stored: "Stored", late: "Stored", clocks: Callable[[int], None]
) -> None:
    run.write_rules(_RULE)
    run.endpoint = f"{stored.endpoint},{late.endpoint}"
    run.source = {"start": "latest"}
    stored.put("a/1", [b'{"n": 0}'])
    assert run.once(spark)["obs"].lag == 0
    clocks(-1)
    late.put("a/1", [b'{"n": 1}'])
    run.once(spark)
    assert run.numbers() == [1]
    assert run.once(spark)["obs"].lag == 0


def test_a_backfill_into_the_future_is_refused_before_anything_is_fixed(run: Run, stored: "Stored") -> None:
    run.write_rules(_RULE)
    stored.put("a/1", [b'{"n": 0}'])
    pipeline = load_pipeline(run.file)
    for since, until, told in (
        ("earliest", "2100-01-01", r"--to is 2100-01-01.* what comes until then would wait"),
        ("2020-01-01", "2020-01-01", "would be empty"),
    ):
        with pytest.raises(BackfillError, match=told):
            plan_backfill(pipeline, ["obs"], run.settings(), since, until)
    assert not (run.checkpoint / "obs").exists()


def test_what_a_backfill_left_out_is_the_next_ones(spark: SparkSession, run: Run, stored: "Stored") -> None:
    run.write_rules(_RULE)
    stored.put("a/1", [b'{"n": 0}'])
    middle = datetime.now(UTC).isoformat()
    stored.put("a/1", [b'{"n": 1}'])
    run.source = {"start": "latest"}
    run.once(spark)
    assert _backfill(spark, run, "earliest", middle) == 1
    with pytest.raises(BackfillError, match=r"was backfilled .* already.* For what is left, give --from") as told:
        _backfill(spark, run, "earliest")
    rest = re.search(r"give --from (\S+);", str(told.value))
    assert rest is not None
    assert _backfill(spark, run, rest[1]) == 1
    assert run.numbers() == [0, 1]
    assert _backfill(spark, run, "earliest", middle) == 0
    assert run.numbers() == [0, 1]


def test_nothing_is_fixed_for_one_rule_where_another_is_refused(run: Run, stored: "Stored") -> None:
    run.write_rules(_RULE + _RULE.replace("rules.obs", "rules.other").replace("path = obs", "path = other"))
    stored.put("a/1", [b'{"n": 0}'])
    (run.directory / "checkpoint" / BACKFILLS / "other" / "5-10").mkdir(parents=True)
    with pytest.raises(BackfillError, match="other was backfilled"):
        plan_backfill(load_pipeline(run.file), ["obs", "other"], run.settings(), "earliest", None)
    assert not (run.checkpoint / "obs").exists()


def test_a_query_that_began_at_an_offset_is_backfilled_up_to_it(
    spark: SparkSession, run: Run, stored: "Stored"
) -> None:
    run.write_rules(_RULE)
    stored.put_commits("a/1", 2, 2)
    with StorageClient(stored.endpoint) as client:
        plan = client.plan(MessageSelection(), messages_max=2)
    run.source = {"start": json.dumps({"streams": plan.positions()})}
    run.once(spark)
    assert run.numbers() == [2, 3]
    assert _backfill(spark, run, "earliest") == 2
    assert run.numbers() == [0, 1, 2, 3]


@pytest.mark.timeout(300)
def test_a_changed_file_restarts_the_query_that_changed_and_no_other(
    spark: SparkSession, run: Run, stored: "Stored", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    other = _RULE.replace("rules.obs", "rules.other").replace("path = obs", "path = other")
    run.write_rules(_RULE + other)
    run.watch = FileWatch(run.file)
    stored.put("a/1", [b'{"n": 1}'])
    driver = run.driver(spark, trigger_s=0.1)
    thread = threading.Thread(target=driver.run)
    thread.start()
    try:
        wait_until(lambda: all(figures.rows_written == 1 for figures in driver.figures))
        run.write_rules(_RULE.replace("payload.n AS n", "payload.n + 10 AS n") + other)
        driver.reload()
        wait_until(lambda: "obs was changed and starts again" in caplog.messages)
        stored.put("a/1", [b'{"n": 2}'])
        wait_until(lambda: all(figures.rows_written == 2 for figures in driver.figures))
        assert not any("other was" in message for message in caplog.messages)
        run.write_rules(_RULE.replace("a/#", "b/#") + other)
        driver.reload()
        wait_until(lambda: "its sources changed" in (run.checkpoint / "status.json").read_text())
        stored.put("a/1", [b'{"n": 3}'])
        wait_until(lambda: all(figures.rows_written == 3 for figures in driver.figures))
        run.write_rules(_RULE.replace("payload.n AS n", "payload.n + 10 AS n"))
        driver.reload()
        wait_until(lambda: len(driver.figures) == 1)
    finally:
        driver.stop()
        thread.join(60)
    assert run.numbers() == [1, 12, 13]
    assert sorted(run.table("other").column("n").to_pylist()) == [1, 2, 3]

"""The queries of the pipeline as alarms and numbers, over all starts of its driver."""

from collections.abc import Mapping
from typing import Any

import pytest

from heliograph.actions.figures import PipelineFigures
from heliograph.actions.queries import QUERIES, PipelineQueries
from heliograph.observe.alarms import Alarms
from heliograph.observe.metric import Catalogue
from heliograph.observe.outgoing import SystemMessageQueue
from support.alarms import Unheard


@pytest.fixture
def alarms() -> Alarms:
    return Alarms("node", SystemMessageQueue(Unheard()), lambda: 0)


@pytest.fixture
def queries(alarms: Alarms) -> PipelineQueries:
    return PipelineQueries(alarms, lambda query: {"action_1": "pgsql:rows"}.get(query, query))


def row(name: str = "action_1", **figures: Any) -> Mapping[str, Any]:
    return {"name": name, "state": "running", "lag": 0, "behind_s": 0.0, "failures_in_row": 0, **figures}


def numbers(queries: PipelineQueries) -> dict[str, float]:
    samples = queries.samples()
    catalogue = Catalogue(QUERIES)
    assert all(catalogue.declares(sample) for sample in samples)
    return {sample.name.removeprefix("pipeline.query."): sample.value for sample in samples}


def test_a_query_that_fails_is_an_alarm_until_it_has_worked_again(queries: PipelineQueries, alarms: Alarms) -> None:
    queries.take([row(), row("other")])
    assert alarms.active() == []
    queries.take([row(state="waiting to restart", failures_in_row=1, last_error="no such table"), row("other")])
    (alarm,) = alarms.active()
    assert (alarm.name, alarm.severity) == ("pipeline_query_failing/pgsql:rows", "warning")
    assert alarm.message == "pgsql:rows fails, and its rows wait: no such table"
    assert numbers(queries)["running"] == 1  # of the other, the last one

    # It was started again, which proves nothing; then it fails for another reason.
    queries.take([row(failures_in_row=1, last_error="no such table")])
    assert numbers(queries)["running"] == 0
    queries.take([row(state="waiting to restart", failures_in_row=2, last_error="no answer")])
    (alarm,) = alarms.active()
    assert "no answer" in alarm.message

    queries.take([row(last_error="no answer")])
    assert alarms.active() == []
    assert numbers(queries)["running"] == 1


def test_a_query_that_there_is_no_more_has_no_alarm(queries: PipelineQueries, alarms: Alarms) -> None:
    queries.take([row(state="failed")])
    queries.take([])
    assert (alarms.active(), queries.samples()) == ([], [])
    queries.take([row(state="failed")])
    assert len(alarms.active()) == 1
    queries.end()
    assert (alarms.active(), queries.samples()) == ([], [])


def test_lost_rows_are_an_alarm_until_a_person_ends_it(queries: PipelineQueries, alarms: Alarms) -> None:
    queries.take([row(rows_lost=3)])
    (alarm,) = alarms.active()
    assert (alarm.name, alarm.severity, alarm.details["rows"]) == ("action_rows_lost/pgsql:rows", "warning", 3)
    assert "heliograph ctl alarms deactivate action_rows_lost/pgsql:rows" in alarm.message
    queries.take([row(rows_lost=5)])
    assert alarms.active()[0].details["rows"] == 5
    queries.take([row(rows_lost=0)])  # another runner
    queries.end()
    assert len(alarms.active()) == 1
    queries.take([row()])
    assert alarms.deactivate("action_rows_lost/pgsql:rows")
    queries.take([row()])
    assert alarms.active() == []
    queries.take([row(rows_lost=1)])
    assert alarms.active()[0].details["rows"] == 1


def test_totals_outlive_a_driver_and_its_lag_does_not(queries: PipelineQueries) -> None:
    queries.take([row(rows_read=30, rows_written=28, dead_letters=2, lag=7, behind_s=1.5)])
    assert (numbers(queries)["lag"], numbers(queries)["behind"]) == (7, 1.5)
    queries.lose_sight()
    assert "lag" not in numbers(queries)
    assert (numbers(queries)["rows_read"], numbers(queries)["running"]) == (30, 0)
    queries.take([row(rows_read=5, rows_written=5, lag=0)])
    found = numbers(queries)
    assert (found["rows_read"], found["rows_written"], found["dead_letters"], found["lag"]) == (35, 33, 2, 0)


def test_an_action_counts_under_the_names_of_emqx() -> None:
    figures = PipelineFigures()
    figures.keep({"action_1"})
    document = row(rows_written=5, rows_refused=1, restarts=1, sink_figures={"retries": 2}, rows_lost=1, rows_expired=3)
    document = {**document, "rows_crowded_out": 4, "rows_under_way": 7, "rows_answered_late": 2, "lag": 9}
    figures.take({"queries": [document]})
    counts = figures.find("action_1").numbers()
    assert (counts["matched"], counts["success"], counts["failed"], counts["retried"]) == (6, 5, 1, 3)
    assert (counts["dropped"], counts["dropped.expired"], counts["dropped.queue_full"]) == (8, 4, 4)
    assert (counts["inflight"], counts["late_reply"], counts["queuing"]) == (7, 2, 9)
    figures.end()
    assert (figures.find("action_1").numbers()["inflight"], counts["received"]) == (0, 0)

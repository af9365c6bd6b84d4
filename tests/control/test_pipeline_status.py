"""What a node says of the pipeline that it runs: by what the driver writes beside its checkpoint."""

import json
from pathlib import Path
from typing import cast

from heliograph.control import pipeline
from heliograph.control.proto_v1.pipeline import PipelineStatus
from support.asking import Asker
from support.cases import cases

QUERY = {"name": "q", "state": "running", "lag": 7, "last_error": None, "batches": 3, "rows_read": 20}


class Driver:
    """A pipeline process as the node has it."""

    file = "rules.conf"

    def __init__(self, directory: Path, pid: int | None) -> None:
        self.log_file = directory / "pipeline.log"
        self.status_file = directory / "status.json"
        self.pid = pid

    def statistics(self) -> dict[str, int]:
        return {"pipeline.restarts": 2, "pipeline.failures": 3}


def no_tools() -> pipeline.AskedPipelineTools:
    """The status needs no command."""
    return cast("pipeline.AskedPipelineTools", None)


def status(driver: Driver | None) -> PipelineStatus:
    answer = Asker(pipeline.methods(lambda: driver, no_tools())).ask("pipeline.status")
    assert isinstance(answer, PipelineStatus)
    return answer


def test_queries_are_told_with_their_lag(tmp_path: Path) -> None:
    driver = Driver(tmp_path, 4711)
    assert "has not reported" in status(driver).note
    driver.status_file.write_text(json.dumps({"pid": 4711, "queries": [QUERY], "reload_error": None}))
    found = status(driver)
    assert (found.is_enabled, found.pid, found.restarts, found.failures, found.note) == (True, 4711, 2, 3, "")
    (query,) = found.queries
    assert (query.name, query.state, query.lag, query.last_error) == ("q", "running", 7, "")
    assert query.figures["rows_read"] == 20


def test_figures_of_an_earlier_driver_are_said_to_be_that(tmp_path: Path) -> None:
    driver = Driver(tmp_path, 5)
    driver.status_file.write_text(json.dumps({"pid": 4, "queries": [QUERY]}))
    assert "an earlier driver" in status(driver).note


@cases("text", ["", "[]", '{"queries": 1}', '{"queries": [{"name": "q"}]}'])
def test_a_file_that_is_none_is_named(text: str, tmp_path: Path) -> None:
    driver = Driver(tmp_path, None)
    driver.status_file.write_text(text)
    found = status(driver)
    assert (found.pid, found.queries) == (None, [])
    assert "status.json cannot be read" in found.note


def test_a_node_without_one_says_so() -> None:
    assert not status(None).is_enabled

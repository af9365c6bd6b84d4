"""One action of the action runner, over a real storage reader."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from heliograph.pipeline.runner.letters import DeadLetters
from heliograph.pipeline.runner.worker import ActionWorker
from heliograph.pipeline.running.figures import RUNNING
from heliograph.pipeline.side_outputs.refused_rows import RefusedRow
from heliograph.processes.backoff import Backoff
from heliograph.storage.message_columns import COLUMNS
from pipeline.runner_settings import web_settings
from support.waiting import wait_until
from support.webhook import Answer, Webhook, webhook

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service]

AT_ONCE = Backoff(first_s=0.01, longest_s=0.05)
ROWS = "$pipeline/http:web/one"


@contextmanager
def running(stored: "Stored", directory: Path, web: Webhook) -> Iterator[ActionWorker]:
    made = web_settings(directory, web.url, stored.endpoint)
    worker = ActionWorker(made.actions[0], made, backoff=AT_ONCE)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()
        assert worker.join(30.0)


def bodies(web: Webhook) -> list[bytes]:
    return [request.body for request in web.requests]


def test_rows_that_retention_removed_hold_up_no_others(
    stored: "Stored", tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with webhook() as web:
        web.answer = lambda request: Answer(503)
        stored.put(ROWS, [b"removed"])
        with running(stored, tmp_path, web) as worker:
            wait_until(lambda: worker.figures.failures, "a batch was begun, and its target is away")
        stored.add_generation()
        stored.put(ROWS, [b"kept"])
        stored.drop_generation(1)
        web.requests.clear()
        web.answer = lambda request: Answer()
        with running(stored, tmp_path, web) as worker:
            wait_until(lambda: b"kept" in bodies(web), lambda: f"{worker.figures}")
            wait_until(lambda: worker.figures.state == RUNNING, lambda: f"{worker.figures}")
    assert bodies(web) == [b"kept"]
    assert worker.figures.rows_lost == 1
    assert "rows are left out: generation 1 was dropped" in caplog.text


def test_a_checkpoint_that_cannot_be_made_is_tried_again(stored: "Stored", tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("a file where the directory belongs")
    with webhook() as web:
        stored.put(ROWS, [b"late"])
        with running(stored, tmp_path, web) as worker:
            wait_until(lambda: worker.figures.failures > 1, lambda: f"{worker.figures}")
            assert "checkpoint" in (worker.figures.last_error or "")
            (tmp_path / "checkpoint").unlink()
            wait_until(lambda: bodies(web) == [b"late"], lambda: f"{worker.figures}")


@pytest.mark.parametrize("is_text", [False, True])
def test_letters_of_rows_that_are_not_utf8_or_gone(tmp_path: Path, is_text: bool) -> None:
    payload = b"\xff"
    refused = [RefusedRow({"payload": payload.decode("utf-8", "replace") if is_text else payload}, "no")]
    columns = {column.name: pa.array([None]) for column in COLUMNS} | {"payload": pa.array([payload])}
    letters = DeadLetters(tmp_path, "web", "owner")
    assert letters.keep(0, refused, [], 0.0) == 0  # retention was faster
    assert letters.keep(0, refused, [pa.RecordBatch.from_pydict(columns)], 0.0) == 1

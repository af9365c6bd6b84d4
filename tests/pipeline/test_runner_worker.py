"""One action of the action runner, over a real storage reader."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from heliograph.pipeline.runner.worker import ActionWorker
from heliograph.pipeline.running.figures import RUNNING
from heliograph.processes.backoff import Backoff
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

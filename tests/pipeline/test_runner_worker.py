"""One action of the action runner, over a real storage reader."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from heliograph.actions.fallback_calls import FallbackRow
from heliograph.actions.handover import HandedRows, HandedStream
from heliograph.pipeline.datasource.client import StorageClient
from heliograph.pipeline.runner.backlog import RunnerBacklog
from heliograph.pipeline.runner.batch_memory import BatchMemory, BatchShare
from heliograph.pipeline.runner.inbox import RowInbox
from heliograph.pipeline.runner.letters import DeadLetters
from heliograph.pipeline.runner.worker import ActionWorker
from heliograph.pipeline.running.figures import RUNNING, WAITING
from heliograph.pipeline.side_outputs.fallbacks import NodeFallbacks
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
OTHER = "$pipeline/http:web/other"  # of another stream


@contextmanager
def running(
    stored: "Stored",
    directory: Path,
    web: Webhook,
    clock_s: Callable[[], float] = time.time,
    memory: BatchMemory | None = None,
    **more: Any,
) -> Iterator[ActionWorker]:
    made = web_settings(directory, web.url, stored.endpoint)
    worker = ActionWorker(replace(made.actions[0], **more), made, backoff=AT_ONCE, memory=memory, clock_s=clock_s)
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


def test_what_waits_is_counted_while_the_target_is_away(stored: "Stored", tmp_path: Path) -> None:
    with webhook() as web, StorageClient(stored.endpoint) as client:
        web.answer = lambda request: Answer(503)
        stored.put(ROWS, [b"1", b"2", b"3"])
        with running(stored, tmp_path, web) as worker:
            backlog = RunnerBacklog(lambda: [worker])

            def waiting() -> int | None:
                backlog.look(client)
                return worker.figures.lag

            wait_until(lambda: worker.figures.failures and waiting() == 3, lambda: f"{worker.figures}")
            stored.put("$pipeline/http:other/one", [b"no row of it"] * 10)
            stored.put(ROWS, [b"4", b"5"])
            assert (waiting(), waiting()) == (5, 5)
            web.answer = lambda request: Answer()
            wait_until(lambda: waiting() == 0, lambda: f"{worker.figures}")


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


def test_of_equal_rows_only_the_refused_one_is_a_letter_or_falls_back(stored: "Stored", tmp_path: Path) -> None:
    """A target may take a row and refuse its double, as a unique index does."""

    class Fallbacks(NodeFallbacks):
        def give(self, rows: Sequence[FallbackRow]) -> dict[int, str]:
            given.append(len(rows))
            return {}

    given: list[int] = []
    for fallbacks in (None, Fallbacks("http:web", "socket")):
        stored.put(ROWS, [b"same"] * 3)
        with webhook() as web:
            web.answer = lambda request: Answer(422 if len(web.requests) == 2 else 200)
            with running(stored, tmp_path, web, fallbacks=fallbacks) as worker:
                wait_until(lambda: worker.figures.rows_read == 3, lambda: f"{worker.figures}")
        figures = worker.figures
        assert (figures.rows_refused, figures.dead_letters + figures.rows_fallen_back) == (1, 1)
    assert given == [1]


def test_a_row_that_alone_is_refused_waits_for_rows_behind_it_and_is_a_letter(stored: "Stored", tmp_path: Path) -> None:
    """A wrong password refuses each row; only rows that pass tell that it is right."""
    stored.put(ROWS, [b"bad"])
    with webhook() as web:
        web.answer = lambda request: Answer(403 if b"bad" in request.body else 200)
        with running(stored, tmp_path, web) as worker:
            wait_until(lambda: worker.figures.failures > 2, lambda: f"{worker.figures}")
            assert (worker.figures.dead_letters, worker.figures.state) == (0, WAITING)
            stored.put(ROWS, [b"ok"])
            wait_until(lambda: worker.figures.rows_read, lambda: f"{worker.figures}")
    figures = worker.figures
    assert (figures.dead_letters, figures.rows_written) == (1, 1)


def test_the_batches_of_all_actions_share_a_bound(stored: "Stored", tmp_path: Path) -> None:
    """One that is slow makes those of others smaller, and holds none of them up."""
    memory = BatchMemory(8000, 1000)
    slow = BatchShare(memory)
    assert [slow.take(9000), BatchShare(memory).take(9000), BatchShare(memory).take(1)] == [4000, 2000, 1000]
    slow.keep(6000)
    rows = [b"%02d" % number + b"x" * 300 for number in range(12)]
    for row in rows:
        stored.put(ROWS, [row])
    with webhook() as web, running(stored, tmp_path, web, memory=memory) as worker:
        wait_until(lambda: worker.figures.rows_written == len(rows), lambda: f"{worker.figures}")
    assert bodies(web) == rows
    assert worker.figures.batches > 2
    assert "9000 of 8000 bytes" in repr(memory)


def test_rows_are_gathered_until_a_batch_is_full(stored: "Stored", tmp_path: Path) -> None:
    stored.put(ROWS, [b"1"])
    with webhook() as web, running(stored, tmp_path, web, batch_rows=2, batch_time_s=16.0) as worker:
        wait_until((tmp_path / "checkpoint" / "web").exists, "it has begun")
        stored.put(ROWS, [b"2"])
        wait_until(lambda: len(bodies(web)) == 2, lambda: f"{worker.figures}")
        wait_until(lambda: worker.figures.batches, lambda: f"{worker.figures}")
        assert worker.figures.batches == 1
    assert bodies(web) == [b"1", b"2"]


def test_rows_that_waited_too_long_are_dropped_and_counted(stored: "Stored", tmp_path: Path) -> None:
    stored.put(ROWS, [b"old"])
    stored.put(ROWS, [b"young"])
    times = stored.times()
    now_us = times[-1] + 60_000_000

    def slow(request: object) -> Answer:
        nonlocal now_us
        now_us += 1_000_000
        return Answer()

    with webhook() as web:
        web.answer = slow
        with running(stored, tmp_path, web, lambda: now_us / 1e6, row_age_max_s=60.0) as worker:
            wait_until(lambda: worker.figures.batches, lambda: f"{worker.figures}")
        figures = worker.figures
    assert bodies(web) == [b"young"]
    assert (figures.rows_expired, figures.rows_answered_late, figures.rows_written) == (1, 1, 1)


def test_the_oldest_rows_are_dropped_where_too_many_bytes_wait(
    stored: "Stored", tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [b"%02d" % number + b"x" * 1000 for number in range(50)]
    for row in rows:
        stored.put(ROWS, [row])
    with webhook() as web, running(stored, tmp_path, web, waiting_bytes_max=20_000) as worker:
        wait_until(lambda: worker.figures.batches, lambda: f"{worker.figures}")
    figures = worker.figures
    assert 0 < figures.rows_written < 40
    assert figures.rows_crowded_out + figures.rows_written == len(rows)
    assert bodies(web) == rows[-figures.rows_written :]
    assert "are dropped: more than 20000 bytes waited" in caplog.text


def test_rows_that_the_node_hands_over_are_not_read_from_the_log(stored: "Stored", tmp_path: Path) -> None:
    with webhook() as web, running(stored, tmp_path, web) as worker:
        for rows in stored.put_to_hand("web", [(ROWS, b"first")]):  # what was before it is not known
            worker.hand(rows)
        wait_until(lambda: worker.figures.batches == 1, lambda: f"{worker.figures}")
        handed = [stored.put_to_hand("web", [(ROWS, b"%d" % number), (OTHER, b"x%d" % number)])[0] for number in (1, 2)]
        stored.stop_reader()
        for rows in handed:
            worker.hand(rows)
        wait_until(lambda: worker.figures.rows_written == 5, lambda: f"{worker.figures}")
        assert sorted(bodies(web)) == [b"1", b"2", b"first", b"x1", b"x2"]
        stored.start_reader(stored.endpoint)
    with webhook() as again, running(stored, tmp_path, again) as worker:  # the place is one that the log knows
        stored.put(ROWS, [b"3"])
        worker.wake()
        wait_until(lambda: worker.figures.rows_written, lambda: f"{worker.figures}")
    assert bodies(again) == [b"3"]


def test_a_commit_that_is_not_handed_over_is_read_from_the_log(stored: "Stored", tmp_path: Path) -> None:
    with webhook() as web, running(stored, tmp_path, web) as worker:
        (first,) = stored.put_to_hand("web", [(ROWS, b"1")])
        worker.hand(first)
        wait_until(lambda: worker.figures.batches == 1, lambda: f"{worker.figures}")
        stored.put_to_hand("web", [(ROWS, b"2")], sends=False)
        stored.put(OTHER, [b"3"])
        (last,) = stored.put_to_hand("web", [(ROWS, b"4"), (ROWS, b"5")])
        worker.hand(last)
        wait_until(lambda: worker.figures.rows_written == 5, lambda: f"{worker.figures}")
        worker.hand(last)  # which was read already
        (more,) = stored.put_to_hand("web", [(ROWS, b"6")])
        worker.hand(more)
        wait_until(lambda: worker.figures.rows_written == 6, lambda: f"{worker.figures}")
    assert sorted(bodies(web)) == [b"1", b"2", b"3", b"4", b"5", b"6"]


def test_a_batch_of_handed_rows_that_fails_is_read_from_the_log(stored: "Stored", tmp_path: Path) -> None:
    with webhook() as web, running(stored, tmp_path, web) as worker:
        (first,) = stored.put_to_hand("web", [(ROWS, b"1")])
        worker.hand(first)
        wait_until(lambda: worker.figures.batches == 1, lambda: f"{worker.figures}")
        web.answer = lambda request: Answer(503)
        (rows,) = stored.put_to_hand("web", [(ROWS, b"2"), (OTHER, b"3"), (ROWS, b"4")])
        worker.hand(rows)
        wait_until(lambda: worker.figures.failures, lambda: f"{worker.figures}")
        web.requests.clear()
        web.answer = lambda request: Answer()
        wait_until(lambda: worker.figures.rows_written == 4, lambda: f"{worker.figures}")
    delivered = bodies(web)[-3:]
    assert delivered == [payload for stream in rows.streams for payload in stream.payloads], "the order of the log"
    assert sorted(delivered) == [b"2", b"3", b"4"]


def test_rows_without_room_are_left_to_the_log(stored: "Stored") -> None:
    (rows,) = stored.put_to_hand("web", [(ROWS, b"x" * 1000)] * 40)
    inbox = RowInbox(BatchMemory(200_000, 1000))
    assert inbox.put(rows)
    assert "1 commits" in repr(inbox)
    (more,) = stored.put_to_hand("web", [(ROWS, b"x" * 1000)] * 60)
    assert not inbox.put(more), "they are read at once"
    assert "0 commits, 0 bytes" in repr(inbox)
    inbox.put(rows)
    inbox.put(stored.put_to_hand("web", [(ROWS, b"y")])[0])
    assert inbox.take(rows.after - 1, 100, 1 << 20) is None, "something is missing before it"
    batch = inbox.take(rows.after, 100, 1 << 20)
    assert batch is not None
    assert batch.time == rows.time, "what follows is missing too"
    assert (inbox.take(rows.time, 100, 1 << 20), inbox.is_empty) == (None, False)


def test_handed_commits_are_one_batch_up_to_its_size(stored: "Stored") -> None:
    inbox = RowInbox(BatchMemory())
    commits = [stored.put_to_hand("web", [(ROWS, b"%d" % number)] * 2)[0] for number in range(4)]
    for rows in commits:
        inbox.put(rows)
    reached, found = commits[0].after, []
    while (batch := inbox.take(reached, 5, 1 << 20)) is not None:
        found.append([payload for stream in batch.streams for payload in stream.payloads])
        reached = batch.time
    assert found == [[b"0", b"0", b"1", b"1"], [b"2", b"2", b"3", b"3"]]
    inbox.put(commits[0])
    assert inbox.take(commits[0].after, 1, 1) is not None, "one commit at least"


def test_commits_of_two_generations_are_two_batches() -> None:
    inbox = RowInbox(BatchMemory())
    for time_us, generation in ((1, 9), (2, 10), (3, 10)):
        row = HandedStream(f"messages/0/{generation}/1", [b"%d" % time_us], [b"%016d" % time_us], [time_us])
        inbox.put(HandedRows("web", time_us - 1, time_us, [row]))
    reached, found = 0, []
    while (batch := inbox.take(reached, 100, 1 << 20)) is not None:
        found.append([payload for stream in batch.streams for payload in stream.payloads])
        reached = batch.time
    assert found == [[b"1"], [b"2", b"3"]], "as text, generation 10 is before 9"

"""Runs one action in a thread of its own: reads what is stored for it, writes it by its sink, notes how far it is."""

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Final

import pyarrow as pa

from heliograph.actions.handover import HandedRows
from heliograph.pipeline.datasource.client import MessageSelection, ReadPlan, StorageClient
from heliograph.pipeline.datasource.offsets import Offset, make_offset, more_lost, offset_time
from heliograph.pipeline.datasource.read_bounds import LATEST, parse_bound
from heliograph.pipeline.errors import DatabaseAbsentError, DataLossError, PipelineError, sentence_of
from heliograph.pipeline.runner.batch_memory import ROW_BYTES, BatchMemory, BatchShare
from heliograph.pipeline.runner.connections import KeptConnection
from heliograph.pipeline.runner.inbox import HandedBatch, RowInbox, handed_memory
from heliograph.pipeline.runner.letters import FALLBACK_COLUMNS, DeadLetters, given_to_fallbacks
from heliograph.pipeline.runner.local_rows import MESSAGE_ID, LocalRows
from heliograph.pipeline.runner.place import DATABASE, ActionPlace
from heliograph.pipeline.runner.settings import RunnerAction, RunnerSettings
from heliograph.pipeline.running.checkpoint_lock import QueryLock
from heliograph.pipeline.running.figures import FINISHED, RETRYING, RUNNING, WAITING, QueryFigures
from heliograph.pipeline.side_outputs.refused_rows import RefusedRow, RefusedRows
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch
from heliograph.pipeline.sinks.retry import SuspectRowsError
from heliograph.processes.backoff import Backoff

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 1.0
# A batch that is gathered is looked at so often, to see whether it is full.
_LOOKS_OF_GATHERING: Final = 8
_LEAST_PAUSE_S: Final = 0.02
# Commits wake it; this is for what was stored while its node could not say so.
_LOOK_AGAIN_S: Final = 5.0
# And so often while rows are handed over: positions in generations that are gone are left out then.
_LOOK_BESIDE_S: Final = 60.0
_LOCK_AGAIN_S: Final = 0.25
_LETTERS_MAX: Final = 10_000
# How far a batch is extended whose rows are all refused for what may be their own fault.
_SUSPECT_BATCHES: Final = 4
_PAYLOAD: Final = "payload"
_EXPIRED: Final = "it waited for longer than resource_opts.request_ttl"
_RECEIVED_AT: Final = "received_at"
_GUID: Final = "guid"


@dataclass(frozen=True, slots=True)
class _StoredRows:
    """Rows of a batch, with the ids of their messages, and their times where these are needed."""

    payloads: list[bytes]
    ids: list[bytes]
    times: list[int]

    def chosen(self, places: Sequence[int]) -> "_StoredRows":
        return _StoredRows(
            [self.payloads[place] for place in places],
            [self.ids[place] for place in places],
            [self.times[place] for place in places],
        )


class ActionWorker:
    """One action from its start to its end. Owned by the runner, which calls `wake`, `try_again` and `stop`.

    Args:
        before: Workers of the same query, for whose end it waits.
        memory: Shared by all actions of the runner, for their batches.
        handed: The same for rows that the node has handed over.

    Attributes:
        figures: What it has done since the start of the runner; what waits is `backlog`'s.
        reached: The offset behind the last batch that is done; None until it has begun.
    """

    def __init__(
        self,
        action: RunnerAction,
        settings: RunnerSettings,
        before: "Sequence[ActionWorker]" = (),
        backoff: Backoff | None = None,
        memory: BatchMemory | None = None,
        handed: BatchMemory | None = None,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self.action = action
        self.figures = QueryFigures(
            action.query, target=action.sink.target, guarantee=str(action.sink.guarantee), lag=None
        )
        self._settings = settings
        self._before = before
        self._backoff = backoff or Backoff(min(_FIRST_PAUSE_S, action.longest_pause_s), action.longest_pause_s)
        self._clock_s = clock_s
        self._selection = MessageSelection(DATABASE, (action.topic,))
        self._connection = KeptConnection()
        self._lock = QueryLock(settings.checkpoint / action.query)
        self._place: ActionPlace | None = None
        self.reached: Offset | None = None
        self._woken = Event()
        self._hurried = Event()
        self._has_rows = False
        self._rows_begun = 0
        self._share = BatchShare(memory or BatchMemory())
        self._inbox = RowInbox(handed or handed_memory())
        # Others look at all that waits in the log; the node hands them nothing, but for what is under way at a change.
        self._takes_handed = not action.batch_time_s and action.waiting_bytes_max is None
        self._must_look = True  # the log may have rows that are not handed over
        self._look_at_s = 0.0
        self._reached_time: int | None = None  # a commit up to which all rows were reached; None where that is unknown
        self._stopping = False
        self._thread = Thread(target=self._run, name=action.query, daemon=True)

    def __repr__(self) -> str:
        return f"ActionWorker({self.action.query!r}, {self.figures.state})"

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Rows were stored, and are read from the log."""
        self._has_rows = self._must_look = True
        self._woken.set()

    def hand(self, rows: HandedRows) -> None:
        """Rows were stored, and these are they."""
        self._has_rows = True
        if not self._takes_handed or not self._inbox.put(rows):
            self._must_look = True
        self._woken.set()

    def try_again(self) -> None:
        """Try again at once what waits after a failure."""
        self._hurried.set()

    def stop(self) -> None:
        """End it behind the batch that is being written; `join` waits for that."""
        self._stopping = True
        self._woken.set()
        self._hurried.set()

    def join(self, timeout_s: float | None) -> bool:
        """Whether it has ended within a time; None waits for the end."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        for worker in self._before:
            worker.join(None)
        try:
            while not self._stopping:
                try:
                    self._take_lock()
                    with self._connect() as client:
                        self._go_on(client)
                except Exception as error:  # noqa: BLE001 (whatever it is, the action tries again)
                    self._failed(error)
        finally:
            self._connection.close()
            self._inbox.clear()
            self._lock.release()
            self.figures.state = FINISHED

    def _go_on(self, client: StorageClient) -> None:
        while not self._stopping:
            self._woken.clear()
            has_moved = self._step(client)
            self._worked()
            if not has_moved and not self._stopping and not self._woken.wait(_LOOK_AGAIN_S):
                self._must_look = True

    def _take_lock(self) -> None:
        """Wait until no other engine has the checkpoint: Spark may have yet to end its query."""
        is_logged = False
        while not self._stopping and not self._lock.try_take():
            if not is_logged:
                _log.info("%s waits for another engine, which has its checkpoint", self.action.query)
            is_logged = True
            self._hurried.wait(_LOCK_AGAIN_S)  # a wait for the lock itself could not end with the runner

    def _connect(self) -> StorageClient:
        settings = self._settings
        return StorageClient(settings.endpoint, token=settings.token, tls_ca=settings.tls_ca)

    def _step(self, client: StorageClient) -> bool:
        """Bring one batch to the target; False where nothing is stored behind the last one."""
        try:
            return self._bring_batch(client)
        finally:
            self._share.keep(0)

    def _bring_batch(self, client: StorageClient) -> bool:
        action = self.action
        if self._place is None:
            is_sure = action.sink.guarantee is Guarantee.EXACTLY_ONCE
            self._place = ActionPlace(self._directory, action.topic, partial(self._start, client), is_sure=is_sure)
        place = self._place
        self.reached = place.reached
        handed: HandedBatch | None = None
        if place.begun is None and (handed := self._handed()) is not None:
            place.begin(handed.end(place.reached))
        elif place.begun is None:
            if not self._must_look and self._inbox.is_empty:
                return False
            self._must_look, self._look_at_s = False, time.monotonic() + _LOOK_BESIDE_S
            if (crowded_out := self._crowded_out(client, place.reached)) is not None:
                self._drop(place, *crowded_out)
            end = self._next_end(client, place.reached)
            if end is None:
                return False
            place.begin(end)
        try:
            self._write(client, place, handed)
        except SuspectRowsError:
            self._take_more(client, place)
            raise
        place.finish()
        self.reached = place.reached
        if handed is not None:
            self._reached_time = handed.time
        return True

    def _handed(self) -> HandedBatch | None:
        """The next batch of what the node has handed over; None where the log has to be read."""
        action = self.action
        if self._reached_time is None:
            return None
        if time.monotonic() >= self._look_at_s:
            self._must_look = True
            return None
        bytes_max = self._share.take(action.batch_bytes)
        return self._inbox.take(self._reached_time, min(action.batch_rows, bytes_max // ROW_BYTES), bytes_max)

    def _take_more(self, client: StorageClient, place: ActionPlace) -> None:
        """Add rows to a batch that is refused as a whole: if the target takes these, it refuses rows and not us."""
        assert place.begun is not None
        rows = self._rows_begun
        if self.action.sink.guarantee is Guarantee.EXACTLY_ONCE or rows > _SUSPECT_BATCHES * self.action.batch_rows:
            return
        if (end := self._next_end(client, place.begun)) is not None:
            place.extend(end)

    def _drop(self, place: ActionPlace, end: Offset, rows: int) -> None:
        """Leave the oldest rows out, as a batch without any."""
        place.begin(end)
        place.finish()
        self.figures.rows_crowded_out += rows
        bytes_max = self.action.waiting_bytes_max
        _log.warning(
            "%s: the oldest %d rows are dropped: more than %d bytes waited", self.action.query, rows, bytes_max
        )

    def _start(self, client: StorageClient) -> str:
        """Where it begins without a checkpoint, as that keeps it."""
        start = parse_bound("pipeline.start", self._settings.start, UTC)
        if start == LATEST:
            start = make_offset(client.plan(self._selection).positions(), None)
        return json.dumps(start) if isinstance(start, dict) else str(start)

    @property
    def _directory(self) -> Path:
        return self._settings.checkpoint / self.action.query

    def _next_end(self, client: StorageClient, reached: Offset) -> Offset | None:
        positions = reached["streams"]
        try:
            plan = self._gathered(client, reached)
        except DatabaseAbsentError:
            if self._has_rows:
                raise
            return None  # the database appears with its first message
        lost = {stream: messages for stream, messages in plan.dropped.items() if messages != 0}
        if lost:
            self._tell_loss(lost)
        self._note_reached(plan)
        kept = {stream: position for stream, position in positions.items() if stream not in plan.dropped}
        end = make_offset({**kept, **plan.positions()}, reached.get("start"), more_lost(reached, lost))
        return end if plan.messages or lost else None

    def _note_reached(self, plan: ReadPlan) -> None:
        """Note up to which commit everything is reached behind the batch of a plan."""
        if plan.messages_remaining:
            self._must_look, self._reached_time = True, None
        elif plan.messages:
            reached = {stream: step.position for stream, step in plan.streams.items() if step.messages}
            self._reached_time = offset_time(make_offset(reached, None))

    def _gathered(self, client: StorageClient, reached: Offset) -> ReadPlan:
        """The next batch; one that is not full is waited for."""
        action = self.action
        until_s = time.monotonic() + action.batch_time_s
        while True:
            selection, positions = self.selected(reached), reached["streams"]
            bytes_max = self._share.take(action.batch_bytes)
            rows_max = min(action.batch_rows, bytes_max // ROW_BYTES)
            plan = client.plan(selection, positions, messages_max=rows_max, bytes_max=bytes_max)
            self._share.keep(plan.messages * ROW_BYTES + sum(step.bytes for step in plan.streams.values()))
            left_s = until_s - time.monotonic()
            is_full = plan.messages >= rows_max or plan.messages_remaining > 0
            if not plan.messages or is_full or left_s <= 0 or self._stopping:
                return plan
            step_s = max(action.batch_time_s / _LOOKS_OF_GATHERING, _LEAST_PAUSE_S)
            if self._hurried.wait(min(left_s, step_s)) and not self._stopping:
                self._hurried.clear()
                return plan

    def _crowded_out(self, client: StorageClient, reached: Offset) -> tuple[Offset, int] | None:
        """Behind which of the oldest rows few enough bytes wait, and how many rows those are."""
        bytes_max = self.action.waiting_bytes_max
        if bytes_max is None:
            return None
        selection, positions = self.selected(reached), reached["streams"]
        with suppress(DatabaseAbsentError):
            waiting = sum(step.bytes for step in client.plan(selection, positions).streams.values())
            if waiting > bytes_max:
                plan = client.plan(selection, positions, bytes_max=waiting - bytes_max)
                end = make_offset({**positions, **plan.positions()}, reached.get("start"), more_lost(reached, {}))
                return end, plan.messages
        return None

    def _write(self, client: StorageClient, place: ActionPlace, handed: HandedBatch | None) -> None:
        action, figures = self.action, self.figures
        assert place.begun is not None
        begin = time.monotonic()
        found = self._stored(client, place.reached, place.begun) if handed is None else _handed_rows(handed)
        waiting, expired = self._without_old(found)
        self._rows_begun = len(waiting.payloads)
        rows_max = _LETTERS_MAX if action.fallbacks is None else max(_LETTERS_MAX, action.batch_rows)
        refusals = RefusedRows(action.query, self._directory, place.batch, rows_max)
        batch = MicroBatch(
            action.query,
            place.owner,
            place.batch,
            self._settings.output,
            self._settings.mqtt,
            refusals.refuse,
            tell_retry=self._tell_retry,
            connections=self._connection,
        )
        if waiting.payloads:
            rows = LocalRows(waiting.payloads, action.sink, is_text=action.has_text_rows, ids=waiting.ids)
            figures.rows_under_way, figures.batch_bytes = len(waiting.payloads), sum(map(len, waiting.payloads))
            self._share.keep(figures.batch_bytes + ROW_BYTES * figures.rows_under_way)
            try:
                figures.sink_figures.update(action.sink.write(rows, batch).figures)
            finally:
                figures.rows_under_way = figures.batch_bytes = 0
            if (oldest_us := self._oldest_us()) is not None:
                figures.rows_answered_late += sum(time_us < oldest_us for time_us in waiting.times)
        refused: Sequence[RefusedRow] = refusals.kept
        if action.fallbacks is not None and (refused or expired.ids):
            rows_expired = zip(expired.payloads, expired.ids, strict=True)
            refused = [*refused, *(RefusedRow({_PAYLOAD: row, MESSAGE_ID: one}, _EXPIRED) for row, one in rows_expired)]
            messages = self._messages(client, place.reached, place.begun, list(FALLBACK_COLUMNS))
            refused, fallen_back = given_to_fallbacks(action.fallbacks, refused, messages)
            figures.rows_fallen_back += fallen_back
        if refused:
            letters = DeadLetters(self._settings.output, action.query, place.owner)
            messages = self._messages(client, place.reached, place.begun, None)
            figures.dead_letters += letters.keep(place.batch, refused, messages, self._clock_s())
        refusals.forget()
        figures.batches += 1
        figures.batch_ms = round((time.monotonic() - begin) * 1000)
        count = len(waiting.payloads)
        figures.rows_read += count
        figures.rows_refused += refusals.count
        figures.rows_written += count - refusals.count

    def _stored(self, client: StorageClient, start: Offset, end: Offset) -> "_StoredRows":
        """The rows between two offsets."""
        has_times = self.action.row_age_max_s is not None
        columns = [_PAYLOAD, _GUID, _RECEIVED_AT] if has_times else [_PAYLOAD, _GUID]
        found = _StoredRows([], [], [])
        for chunk in self._messages(client, start, end, columns):
            found.payloads.extend(chunk.column(_PAYLOAD).to_pylist())
            found.ids.extend(chunk.column(_GUID).to_pylist())
            if has_times:
                found.times.extend(chunk.column(_RECEIVED_AT).cast(pa.int64()).to_pylist())
        return found

    def _without_old(self, found: "_StoredRows") -> "tuple[_StoredRows, _StoredRows]":
        """Rows, and apart from them those that are too old."""
        oldest_us = self._oldest_us()
        if oldest_us is None:
            return found, _StoredRows([], [], [])
        old = found.chosen([index for index, time_us in enumerate(found.times) if time_us < oldest_us])
        self.figures.rows_expired += len(old.ids)
        return found.chosen([index for index, time_us in enumerate(found.times) if time_us >= oldest_us]), old

    def _oldest_us(self) -> int | None:
        """The earliest time that a row may have now, in microseconds since the epoch; None for any."""
        age_max_s = self.action.row_age_max_s
        return None if age_max_s is None else round((self._clock_s() - age_max_s) * 1_000_000)

    def _messages(
        self, client: StorageClient, start: Offset, end: Offset, columns: "list[str] | None"
    ) -> "Iterator[pa.RecordBatch]":
        """The messages between two offsets, in the same order each time."""
        before = start["streams"]
        for stream, position in sorted(end["streams"].items()):
            if before.get(stream, "") == position:
                continue
            try:
                yield from client.read(self.selected(end), stream, before.get(stream, ""), position, columns)
            except DataLossError as error:  # to fail would hold up what is there, and bring nothing back
                self.figures.rows_lost += 1
                _log.error("%s: rows are left out: %s", self.action.query, error)

    def selected(self, offset: Offset) -> MessageSelection:
        """The rows of the action, from where it began."""
        selection = self._selection
        return MessageSelection(selection.database, selection.topics, offset.get("start"))

    # --- how it does

    def _worked(self) -> None:
        figures = self.figures
        figures.state = RUNNING
        figures.failures_in_row = 0

    def _tell_retry(self, error: str | None) -> None:
        figures = self.figures
        figures.state = RUNNING if error is None else RETRYING
        figures.last_error = error or figures.last_error

    def _failed(self, error: Exception) -> None:
        figures = self.figures
        figures.failures += 1
        figures.failures_in_row += 1
        figures.last_error = sentence_of(error)
        figures.state = WAITING
        pause_s = self._backoff.pause_s(figures.failures_in_row)
        if isinstance(error, PipelineError):
            _log.warning("%s failed and is tried again in %.0f s: %s", self.action.query, pause_s, figures.last_error)
        else:
            _log.error("%s failed and is tried again in %.0f s", self.action.query, pause_s, exc_info=error)
        self._place = self._reached_time = None  # what is on the disk says where it goes on
        self._must_look = True
        if not self._stopping:
            self._hurried.wait(pause_s)
            self._hurried.clear()
        figures.restarts += 1

    def _tell_loss(self, lost: "dict[str, int | None]") -> None:
        messages = sum(count or 1 for count in lost.values())
        self.figures.rows_lost += messages
        _log.error(
            "%s: at least %d rows were removed by the retention of stored messages before they were at %s",
            *(self.action.query, messages, self.action.sink.target),
        )


def _handed_rows(batch: HandedBatch) -> _StoredRows:
    found = _StoredRows([], [], [])
    for stream in batch.streams:
        found.payloads.extend(stream.payloads)
        found.ids.extend(stream.ids)
        found.times.extend(stream.times)
    return found

"""The ways of messages of a node: recorded while that is wanted, kept in a database, and found again."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from heliograph.broker import hooks
from heliograph.broker.hook_order import TRACES, TRANSFORMATION, VALIDATION
from heliograph.broker.message import Message
from heliograph.channel.context import ChannelContext
from heliograph.config.monitoring import MessageWaysConfig
from heliograph.observe.alarms import Alarms
from heliograph.rules.engine.columns import LiveColumns
from heliograph.rules.values import Value
from heliograph.storage.errors import StorageError
from heliograph.tracing import verdicts
from heliograph.tracing.reasons import why_dropped, why_queued
from heliograph.tracing.ways.chunks import WayRecord, encoded, record_of, records_of
from heliograph.tracing.ways.query import WayQuery
from heliograph.tracing.ways.recorder import BOUNDARY, WayRecorder
from heliograph.tracing.ways.scope import WayScope
from heliograph.tracing.ways.store import WayStore
from heliograph.tracing.ways.under_way import WaysUnderWay
from heliograph.tracing.ways.way import VERDICT, Way

_log = logging.getLogger(__name__)

_MISSING_ALARM: Final = "message_ways_missing"
_FLUSH_US: Final = 5_000_000  # finished ways wait so long for others
_POINTS: Final = (hooks.MESSAGE_PUBLISH,)
_WAYS_AT_ONCE: Final = 500  # of memory, that are looked through at once


class MessageWays:
    """Records ways and finds them; owned by the part `message_ways`."""

    def __init__(
        self,
        store: WayStore,
        context: ChannelContext,
        alarms: Alarms,
        watch_rules: Callable[[None, "MessageWays | None"], object],
    ) -> None:
        self.store = store
        self._context = context
        self._broker = context.broker
        self._alarms = alarms
        self._watch_rules = watch_rules
        self._settings = MessageWaysConfig()
        self._recorder: WayRecorder | None = None
        self._under_way: WaysUnderWay | None = None
        self._scope = WayScope((), (), 0, 0, 0)
        self._executor = ThreadPoolExecutor(1, "message-ways")
        self._writing: dict[asyncio.Future[tuple[bytes, bytes]], list[Way]] = {}
        self._loading: asyncio.Task[None] | None = None
        self._ticked_us = 0
        self._flushed_us = 0
        self._counts = {"recorded": 0, "missed": 0, "unheld": 0}
        self._logged_missing = 0

    @property
    def is_recording(self) -> bool:
        return self._recorder is not None

    def open(self) -> None:
        self.store.open()
        self._loading = asyncio.get_running_loop().create_task(self._load(), name="message-ways-load")

    async def _load(self) -> None:
        try:
            for _ in self.store.load():
                await asyncio.sleep(0)
        except StorageError as error:
            self.store.health.tell(error)

    # --- what is recorded

    def use(self, settings: MessageWaysConfig) -> None:
        self._end_recording()
        self._settings = settings
        if not settings.enable:
            self._alarms.deactivate(_MISSING_ALARM)
            return
        rate = 0.0 if settings.rate is None else settings.rate.per_second
        burst = 0 if settings.rate is None else settings.rate.amount
        held = self._scope.held_bytes
        self._scope = WayScope(settings.topics, settings.clients, rate, burst, settings.max_memory)
        self._scope.held_bytes = held
        self._under_way = WaysUnderWay(self._broker, self._context.commits, self._scope, self._hand_over)
        self._recorder = WayRecorder(self._broker, self._scope, self._under_way, self._why)
        self._broker.join_tracer(self._recorder, True, _POINTS)
        self._broker.hooks.schema_validation_failed.add(self.on_validation_failed, TRACES)
        self._broker.hooks.message_transformation_failed.add(self.on_transformation_failed, TRACES)
        self._watch_rules(None, self)

    def _end_recording(self) -> None:
        recorder, under_way = self._recorder, self._under_way
        self._recorder = self._under_way = None
        if recorder is None or under_way is None:
            return
        self._broker.join_tracer(recorder, False, _POINTS)
        self._broker.hooks.schema_validation_failed.remove(self.on_validation_failed)
        self._broker.hooks.message_transformation_failed.remove(self.on_transformation_failed)
        self._watch_rules(None, None)
        under_way.close()
        self._hand_over(under_way.take_finished())
        self._note(self._scope)

    def _note(self, scope: WayScope) -> None:
        self._counts["missed"] += int(scope.missed_count)
        self._counts["unheld"] += int(scope.unheld_count)
        scope.missed_count = scope.unheld_count = 0

    def _why(self, clientid: str, reason: str) -> str:
        session = self._context.sessions.held(clientid)
        if reason:
            return why_dropped(reason, session)
        return "" if session is None else why_queued(session)

    # --- from validations and transformations, before the chain of which they are says what becomes of the message

    def on_validation_failed(self, message: Message, name: str, _accumulator: object) -> None:
        self._on_policy_failed(message, verdicts.name_of(self.on_validation_failed, VALIDATION), name)

    def on_transformation_failed(self, message: Message, name: str, _accumulator: object) -> None:
        self._on_policy_failed(message, verdicts.name_of(self.on_transformation_failed, TRANSFORMATION), name)

    def _on_policy_failed(self, message: Message, chain: str, name: str) -> None:
        way = None if self._under_way is None else self._under_way.find(message)
        if way is not None:
            way.add(self._broker.now_us, VERDICT, chain, name, verdicts.POLICY_FAILED)

    # --- from rules

    def on_rule(self, rule_id: str, columns: LiveColumns, rows: Sequence[Mapping[str, Value]] | Exception) -> None:
        outcome = f"failed: {_said_by(rows)}" if isinstance(rows, Exception) else _rows(len(rows))
        self._on_rule(columns, rule_id, "", outcome)

    def on_rule_action(self, rule_id: str, columns: LiveColumns, action: str, error: Exception | None) -> None:
        self._on_rule(columns, rule_id, action, "done" if error is None else f"failed: {_said_by(error)}")

    def _on_rule(self, columns: LiveColumns, rule_id: str, action: str, outcome: str) -> None:
        message = getattr(columns, "message", None)  # an event has none
        if self._recorder is not None and isinstance(message, Message):
            self._recorder.on_rule(message, rule_id, action, outcome)

    # --- what is written

    def tick(self, uptime_us: int) -> None:
        passed_us, self._ticked_us = uptime_us - (self._ticked_us or uptime_us), uptime_us
        recorder, under_way, now_us = self._recorder, self._under_way, int(self._broker.now_us)
        tracers = self._broker.tracer
        if recorder is not None and under_way is not None and tracers is not None:
            tracers.sync()
            recorder.resume()
            tracers.renew()
            self._scope.refill(passed_us)
            under_way.tick(int(self._settings.settle_time * 1e6))
            if uptime_us - self._flushed_us >= _FLUSH_US:
                self._flushed_us = uptime_us
                self._hand_over(under_way.take_finished())
                self._tell_missing()
        self._note(self._scope)
        retention_us = int(self._settings.retention * 1e6)
        if self._loading is not None and self._loading.done():
            self.store.drop(now_us - retention_us, self._settings.max_bytes)

    def _tell_missing(self) -> None:
        """Raise an alarm while messages are not recorded, with the first line in the log; end it when all are."""
        missing = self._counts["missed"] + self._counts["unheld"]
        more, self._logged_missing = missing - self._logged_missing, missing
        if more:
            text = f"{more} messages were not recorded in the last seconds: see diagnose.messages.rate and max_memory"
            self._alarms.activate(_MISSING_ALARM, text, {"missed": more})
        else:
            self._alarms.deactivate(_MISSING_ALARM)

    def _hand_over(self, ways: list[Way]) -> None:
        """Encode ways in a thread, and write them then."""
        if not ways:
            return
        self._counts["recorded"] += len(ways)
        loop = asyncio.get_running_loop()
        encoding = loop.run_in_executor(self._executor, encoded, ways)
        self._writing[encoding] = ways
        encoding.add_done_callback(partial(self._written, ways))

    def _written(self, ways: list[Way], encoding: asyncio.Future[tuple[bytes, bytes]]) -> None:
        self._writing.pop(encoding, None)
        self._scope.held_bytes -= sum(way.held_bytes for way in ways)
        if encoding.cancelled():
            return
        error = encoding.exception()
        if isinstance(error, Exception):
            self._broker.faults.contain(BOUNDARY, error)
        elif error is None:
            self.store.add(*encoding.result(), int(self._broker.now_us))

    # --- what is found

    async def search(self, query: WayQuery) -> AsyncIterator[tuple[int, list[WayRecord]]]:
        """The records that meet a query, chunk by chunk, the newest first.

        Yields:
            A time than which no further record's message is younger, and records.
        """
        added_count = self.store.added_count  # what is written from now on is among those that wait
        waiting = [way for ways in self._writing.values() for way in ways]
        if self._under_way is not None:
            waiting += self._under_way.waiting()
        for at in range(0, len(waiting), _WAYS_AT_ONCE):
            part = waiting[at : at + _WAYS_AT_ONCE]
            yield int(self._broker.now_us), await asyncio.to_thread(_wanted, part, query)
        for headers in self.store.headers(added_count):
            await asyncio.sleep(0)
            for chunk, header in headers:
                if chunk.written_us < query.since_us or (query.only and chunk.written_us < query.only[0]):
                    return
                if query.may_be_in(header) and (data := self.store.data(chunk)) is not None:
                    yield chunk.written_us, await asyncio.to_thread(records_of, header, data, query.is_met_by)
            if headers:
                yield headers[-1][0].written_us, []

    async def close(self) -> None:
        self._end_recording()
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        if self._writing:
            await asyncio.wait(self._writing)
            await asyncio.sleep(0)  # what they made is taken by callbacks
        self._executor.shutdown()
        await self.store.close()

    def statistics(self) -> dict[str, int]:
        return {
            "message_ways.recorded": self._counts["recorded"],
            "message_ways.missed": self._counts["missed"] + int(self._scope.missed_count),
            "message_ways.unheld": self._counts["unheld"] + int(self._scope.unheld_count),
            "message_ways.under_way": 0 if self._under_way is None else len(self._under_way),
            "message_ways.held_bytes": int(self._scope.held_bytes),
            "message_ways.stored_bytes": self.store.size_bytes,
            "message_ways.chunks": len(self.store),
        }


def _wanted(ways: Sequence[Way], query: WayQuery) -> list[WayRecord]:
    return [record for record in map(record_of, ways) if query.is_met_by(record)]


def _said_by(error: Exception) -> str:
    return " ".join((str(error) or repr(error)).split())[:300]


def _rows(count: int) -> str:
    return "no rows" if not count else "1 row" if count == 1 else f"{count} rows"

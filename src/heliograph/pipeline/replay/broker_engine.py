"""A replay in the broker's engine, with the bounds of rules there; messages come from the storage reader only."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from heliograph.pipeline.datasource.client import SKIP, MessageSelection, StorageClient
from heliograph.pipeline.replay.findings import Example, ReplayFindings, RuleOutcome
from heliograph.pipeline.replay.request import ReplayRequest
from heliograph.pipeline.replay.resolving import ReplayedRule
from heliograph.rules.columns import STORED_BY_COLUMN, STORED_NAMES, MessageColumns
from heliograph.rules.environment import Environment
from heliograph.rules.evaluator import LIVE, CompiledRule
from heliograph.rules.output import columns_read
from heliograph.rules.schemas.registry import SchemaRegistry, build
from heliograph.rules.spark.row_evaluator import reason_of
from heliograph.rules.spark.rows import messages

_PLACE: Final = ("topic", "clientid", "stored_at", "position")
_TOPICS_KNOWN_MAX: Final = 100_000
Tell = Callable[[float, ReplayFindings], None]
"""Takes progress: the share of the stretch, and what was found."""
_SLICE_MESSAGES: Final = 16_384
_SLICE_BYTES: Final = 8 << 20


class StretchSlice(NamedTuple):
    """Some messages of one stream; `share` of the stretch is read with it, 0 to 1."""

    stream: str
    batch: pa.RecordBatch
    share: float


class BrokerReplay:
    """One replay in the broker's engine; kept values begin with none, and go with the replay."""

    def __init__(
        self,
        request: ReplayRequest,
        rule: ReplayedRule,
        other: ReplayedRule | None,
        environments: Callable[[ReplayedRule], Environment],
    ) -> None:
        self._request = request
        self._names = _columns_of(rule, other)
        self._topics = tuple(dict.fromkeys([*rule.topics, *(() if other is None else other.topics)]))
        self._database = rule.database
        self._rule = _compiled(rule, environments(rule))
        self._other = None if other is None else _compiled(other, environments(other))
        self._wanted: dict[str, tuple[bool, bool]] = {}
        self.findings = ReplayFindings(request.rows_max)

    def run(self, tell: Tell) -> bool:
        """Evaluate all messages, or as many as there is time for; returns whether it was all."""
        request = self._request
        end = time.monotonic() + request.seconds_max
        selection = selection_of(self._database, self._topics, request.since, request.until)
        with StorageClient(request.endpoint, token=request.token or None) as client:
            for piece in Stretch(client, selection).slices([*{*self._names, *_PLACE}]):
                if not self._take(piece, end):
                    return False
                tell(piece.share, self.findings)
        return True

    def _take(self, piece: StretchSlice, end: float) -> bool:
        """Evaluate the messages of a slice; false when the time is over."""
        columns = [_plain(piece.batch.column(name)) for name in self._names]
        other = self._other
        for number, message in enumerate(messages(self._names, columns)):
            if time.monotonic() > end:
                return False
            is_wanted, is_wanted_there = self._interests(message.message[0])
            outcome = _evaluated(self._rule, message) if is_wanted else None
            beside = _evaluated(other, message) if other is not None and is_wanted_there else None

            def place(number: int = number) -> Example:
                return _place(piece, number)

            self.findings.add(place, outcome, beside, other is not None)
        return True

    def _interests(self, topic: str) -> tuple[bool, bool]:
        found = self._wanted.get(topic)
        if found is None:
            if len(self._wanted) >= _TOPICS_KNOWN_MAX:
                self._wanted.clear()
            found = self._rule.matches(topic), self._other is not None and self._other.matches(topic)
            self._wanted[topic] = found
        return found


@contextmanager
def environments_of(request: ReplayRequest) -> Iterator[Callable[[ReplayedRule], Environment]]:
    """Environments for rules, which are closed behind the block."""
    made: list[Environment] = []

    def environment(rule: ReplayedRule) -> Environment:
        made.append(
            Environment(
                SchemaRegistry(build(rule.schemas)),
                jq_timeout_s=request.jq_timeout_s,
                sparkplug_aliases_max=request.sparkplug_aliases_max,
            )
        )
        return made[-1]

    try:
        yield environment
    finally:
        for one in made:
            one.close()


def _compiled(rule: ReplayedRule, environment: Environment) -> CompiledRule:
    compiled = CompiledRule(rule.tree, None if rule.rule_id is None else {"rule_id": rule.rule_id}, environment)
    compiled.bounds = LIVE
    return compiled


def _columns_of(rule: ReplayedRule, other: ReplayedRule | None) -> tuple[str, ...]:
    """The columns of stored messages that are evaluated, with the topic."""
    read = {STORED_BY_COLUMN[name] for one in (rule, other) if one is not None for name in columns_read(one.tree)}
    return tuple(name for name in STORED_NAMES if name in read or name == "topic")


def _plain(column: pa.Array) -> pa.Array:
    return pc.cast(column, "int64") if pa.types.is_timestamp(column.type) else column


def _evaluated(rule: CompiledRule, message: MessageColumns) -> RuleOutcome:
    try:
        return RuleOutcome(rule.apply(message))
    except Exception as error:  # noqa: BLE001 - whatever a rule does, the other messages are evaluated
        return RuleOutcome((), reason_of(error))


def _place(piece: StretchSlice, number: int) -> Example:
    values: dict[str, Any] = {name: _plain(piece.batch.column(name))[number].as_py() for name in _PLACE}
    return {"id": f"{piece.stream}@{values.pop('position')}", **values}


class Stretch:
    """Messages of some topics that were stored within a span of time."""

    def __init__(self, client: StorageClient, selection: MessageSelection) -> None:
        self._client = client
        self._selection = selection

    def slices(self, columns: Sequence[str]) -> Iterator[StretchSlice]:
        """All messages; those of a stream in order, and of all streams about in the order of their times."""
        positions: dict[str, str] = {}
        done = 0
        while True:
            plan = self._client.plan(self._selection, positions, messages_max=_SLICE_MESSAGES, bytes_max=_SLICE_BYTES)
            total = done + plan.messages + plan.messages_remaining
            for stream, step in plan.streams.items():
                if not step.messages:
                    continue
                done += step.messages
                begin = positions.get(stream, "")
                for batch in self._client.read(self._selection, stream, begin, step.position, columns):
                    yield StretchSlice(stream, batch, done / total)
            if not plan.messages_remaining or not plan.messages:
                return
            positions = plan.positions()


def selection_of(database: str, topics: Sequence[str], since: int, until: int) -> MessageSelection:
    """Messages of a stretch; what is damaged on disk is left out, and logged."""
    return MessageSelection(database, tuple(topics), since or None, until, SKIP)

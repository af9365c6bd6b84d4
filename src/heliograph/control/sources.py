"""Takes messages of sources: rules read them, and they are published by the one path of all messages.

A batch is answered when all that is kept of it is durable, so that its origin may forget it then.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from heliograph.actions.loops import VIA, has_gone_round, nodes_in
from heliograph.broker.durable_sink import NOT_STORED
from heliograph.broker.guid import IdSource
from heliograph.broker.message import Message, make_message
from heliograph.broker.publishing import publish
from heliograph.channel.context import ChannelContext
from heliograph.config.settings import Config
from heliograph.config.sources.interface import LocalMessage, MessageSourceConfig
from heliograph.control.messages import Committed, code_of, settled
from heliograph.control.proto_v1 import sources as proto
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties, encode_properties, properties_from_wire
from heliograph.mqtt.topic import topic_name_fault
from heliograph.rpc.methods import Call, Method, RpcError
from heliograph.rules.engine.columns import SourceColumns, shown_properties
from heliograph.rules.engine.engine import RuleEngine
from heliograph.rules.engine.template import Render, compile_template
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.events import Event, source_event
from heliograph.rules.values import Value, string_of

_WORK_AT_ONCE: Final = 256  # deliveries, after which others have a turn
_OF_HTTP: Final = "http_in:"
_OF_KAFKA: Final = "kafka_consumer:"
_SAME: Final = "${payload}"
_SAME_TOPIC: Final = "${topic}"

LOOP: Final = "loop"
TOPIC_INVALID: Final = "topic_invalid"
TOO_LARGE: Final = "packet_too_large"
MALFORMED: Final = "malformed"


class AskedSources(Protocol):
    """The sources of a node; `node.sources` implements it. Ids are as `mqtt:my_source`."""

    @property
    def config(self) -> Config:
        """The configuration that holds."""

    @property
    def site(self) -> str:
        """What tells this node from others."""

    def state(self, source_id: str) -> tuple[str, str]:
        """The status of a source, and the reason."""

    def rules_of(self, source_id: str) -> list[str]:
        """The rules that read a source."""

    def counts(self, source_id: str) -> dict[str, int]:
        """What is counted of a source."""

    def rates(self, source_id: str) -> dict[str, float]:
        """How fast messages come from it."""

    def last_error(self, source_id: str) -> str:
        """The text of the last message that was dropped."""

    def reset(self, source_id: str) -> None:
        """Count from zero for a source."""

    async def try_again(self) -> None:
        """Connect now what waits after a failure, and give it a moment."""

    async def test(self, kind: str, source: MessageSourceConfig) -> str:
        """Why nothing can come by a source of a type with these settings; empty where something can."""

    def admits(self, source_id: str, token: str) -> proto.SourceAdmitted | None:
        """What a caller with the token of a source may send; None for other callers."""

    def is_signed(self, source_id: str, signature: str, body: bytes) -> bool:
        """Whether a body has the signature that a source asks for, if it asks for one."""

    def running(self, source_id: str) -> MessageSourceConfig | None:
        """The settings of one that takes messages."""

    def count(self, source_id: str, received: int, dropped: Mapping[str, int], error: str) -> None:
        """Count what came, and what of it was dropped by its reasons; `error` is the last text."""

    def held(self, source_id: str, why: str) -> None:
        """The node takes nothing more of it at present; empty where it does."""

    def report(self, pid: int, states: Mapping[str, tuple[str, str]]) -> int:
        """Take the status and reason of each source; how many of them there are."""


def methods(answers: "SourceAnswers") -> list[Method]:
    return [
        proto.SOURCES_ADMIT.by(answers.admit),
        proto.SOURCES_DELIVER.by(answers.deliver),
        proto.SOURCES_REPORT.by(answers.report),
    ]


class _DroppedError(Exception):
    """A message that never can be taken."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Mapped:
    """How messages of a source are published here; made once for its settings.

    Attributes:
        topic: None where it is the one that came, and so with `payload`.
    """

    local: LocalMessage
    topic: Render | None
    payload: Render | None

    @staticmethod
    def of(local: LocalMessage) -> "_Mapped":
        topic = None if local.topic == _SAME_TOPIC else compile_template(local.topic)
        payload = None if local.payload == _SAME else compile_template(local.payload)
        return _Mapped(local, topic, payload)

    @property
    def is_same(self) -> bool:
        """Whether topic and payload are those that came."""
        return self.topic is None and self.payload is None


class _Kept:
    """What has to be durable before a batch is answered."""

    def __init__(self, context: ChannelContext) -> None:
        self.commits: list[Committed] = []
        self._context = context

    def took(self, ticket: int = 0) -> None:
        """Wait for all that this turn has kept: messages, rows of rules, and what other databases have."""
        broker = self._context.broker
        rows = NOT_STORED if broker.sink is None else int(broker.sink.row_ticket)
        newest = max(ticket, int(broker.newest_ticket), int(broker.pending_ticket()), rows)
        is_known = bool(self.commits) and self.commits[-1].ticket >= newest
        if not is_known and self._context.commits.is_pending(newest):
            waiter = Committed(self._context, True, newest)
            self._context.commits.wait(newest, waiter)
            self.commits.append(waiter)

    async def refusal(self) -> str:
        """Wait; why something is not durable, empty where all is."""
        for commit in self.commits:
            code = await commit.code
            if code != rc.SUCCESS:
                return f"it is not stored: {rc.name_of(code)}"
        return ""


class SourceAnswers:
    """Takes what the process of sources brings; owned by the control socket.

    Args:
        limits: Bytes of the largest packet, and levels of the longest topic, that the node takes now.
    """

    def __init__(
        self,
        sources: AskedSources,
        context: ChannelContext,
        engine: RuleEngine,
        limits: Callable[[], tuple[int, int]],
    ) -> None:
        self._sources = sources
        self._context = context
        self._broker = context.broker
        self._engine = engine
        self._limits = limits
        self._ids = IdSource(context.node, context.next_number())
        self._mapped: dict[LocalMessage, _Mapped] = {}

    def report(self, args: proto.SourceStates, call: Call) -> proto.SourcesKnown:
        """How sources are, as their process says."""
        states = {one.source: (one.status, one.reason) for one in args.states}
        return proto.SourcesKnown(self._sources.report(args.pid, states))

    def admit(self, args: proto.SourceCaller, call: Call) -> proto.SourceAdmitted:
        """Whether a caller may send; no answer says whether there is such a source."""
        admitted = self._sources.admits(args.source, args.token)
        if admitted is None:
            raise _not_admitted()
        return admitted

    async def deliver(self, args: proto.SourceBatch, call: Call) -> proto.Delivered:
        """Take messages in their order, until one has to be brought again later."""
        settings = self._sources.running(args.source)
        if settings is None:
            raise RpcError("not_found", f"there is no source {args.source[:100]!r} that takes messages")
        if not all(self._sources.is_signed(args.source, one.signature, one.payload) for one in args.messages):
            raise _not_admitted()
        taken, refused, hold = await self._take(args, settings)
        dropped: dict[str, int] = {}
        for one in refused:
            dropped[one.reason] = dropped.get(one.reason, 0) + args.messages[one.index].count
        received = sum(one.count for one in args.messages[:taken])
        self._sources.count(args.source, received, dropped, refused[-1].text if refused else "")
        self._sources.held(args.source, hold)
        return proto.Delivered(taken, refused, hold)

    async def _take(
        self, args: proto.SourceBatch, settings: MessageSourceConfig
    ) -> tuple[int, list[proto.RefusedMessage], str]:
        refused: list[proto.RefusedMessage] = []
        kept = _Kept(self._context)
        taken, hold, event = 0, "", source_event(args.source)
        self._context.begin_turn()
        end = self._broker.work + _WORK_AT_ONCE
        for index, one in enumerate(args.messages):
            try:
                hold = await self._take_one(args, event, settings, one, kept)
            except _DroppedError as error:
                refused.append(proto.RefusedMessage(index, error.reason, str(error)))
            if hold:
                break
            taken += 1
            if self._broker.work > end:
                kept.took()
                await asyncio.sleep(0)  # others have a turn
                self._context.begin_turn()
                end = self._broker.work + _WORK_AT_ONCE
        kept.took()
        problem = await kept.refusal()
        return (0, [], problem) if problem else (taken, refused, hold)

    async def _take_one(
        self,
        args: proto.SourceBatch,
        event: Event,
        settings: MessageSourceConfig,
        one: proto.SourceMessage,
        kept: _Kept,
    ) -> str:
        """Why a message is to be brought again later; empty where it is taken."""
        if one.fault:
            reason, _, text = one.fault.partition(": ")
            raise _DroppedError(reason, text or reason)
        properties = _properties_of(one)
        self._mark(one, properties)
        rules = self._engine.rules_of_source(event.topics)
        if rules and self._broker.is_refusing:
            return "the storage takes nothing at present"
        mapped = None if settings.local is None else self._mapped_of(settings.local)
        # What has neither rules nor templates is looked at by nothing.
        has_readers = bool(rules) or (mapped is not None and not mapped.is_same)
        values = self._values(args, event.name, one, properties) if has_readers else {}
        dropped: _DroppedError | None = None
        if mapped is not None:
            try:
                hold = await self._publish(mapped, values, args.source, one, properties, kept)
            except _DroppedError as error:
                dropped = error
            else:
                if hold:
                    return hold
        if rules:
            origin = f"message to {one.topic[:200]!r} of source {args.source}"
            columns = SourceColumns(values, self._engine, origin, len(one.payload))
            self._engine.take_source_message(rules, columns)
        if dropped is not None:
            raise dropped
        return ""

    def _mark(self, one: proto.SourceMessage, properties: Properties) -> None:
        """Mark a message as one that came in here, so that it goes round once at the most."""
        site = self._sources.site
        if not properties.user and not one.headers:
            properties.user = [(VIA, site)]
            return
        # One property for all nodes: rules see the last one of a name.
        came = [text for name, text in properties.user if name == VIA]
        nodes = nodes_in([*came, one.headers.get(VIA, "")])
        if has_gone_round(nodes, site):
            raise _DroppedError(LOOP, "it has been at this node before, and went round")
        others = [(name, text) for name, text in properties.user if name != VIA]
        properties.user = [*others, (VIA, ",".join([*nodes, site]))]

    def _values(
        self, args: proto.SourceBatch, event: str, one: proto.SourceMessage, properties: Properties
    ) -> dict[str, Value]:
        broker = self._broker
        high, low = int(broker.now_us), int(self._ids.next_low())
        own: dict[str, Value] = {name: _value_of(value) for name, value in one.columns.items()}
        payload = string_of(one.payload)
        if args.source.startswith(_OF_KAFKA):
            own["value"] = payload
        if args.source.startswith(_OF_HTTP):
            own = {"headers": {**one.headers}, "query": {**one.query}}
        return {
            **own,
            "id": f"{high:016X}{low:016X}",
            "server": args.server,
            "payload": payload,
            "topic": one.topic,
            "qos": one.qos,
            "dup": one.dup,
            "retain": one.retain,
            "pub_props": shown_properties(properties),
            "message_received_at": one.received_at_ms,
            "event": event,
            "timestamp": high // 1000,
            "node": self._engine.node_name,
        }

    async def _publish(
        self,
        mapped: _Mapped,
        values: Mapping[str, Value],
        source_id: str,
        one: proto.SourceMessage,
        properties: Properties,
        kept: _Kept,
    ) -> str:
        message = self._made(mapped, values, source_id, one, properties)
        try:
            outcome = publish(self._broker, message, may_refuse=True)
        except ProtocolError as error:
            raise _DroppedError(rc.name_of(error.reason_code), error.detail) from None
        if outcome.pending is not None:
            kept.took()
            outcome = await settled(outcome)
            self._context.begin_turn()
            kept.took(int(outcome.ticket))
        if outcome.may_repeat:
            return rc.name_of(code_of(outcome))
        code = code_of(outcome)
        if code != rc.SUCCESS:
            raise _DroppedError(rc.name_of(code), f"{rc.name_of(code)}: {message.topic[:200]!r}")
        return ""

    def _mapped_of(self, local: LocalMessage) -> _Mapped:
        mapped = self._mapped.get(local)
        if mapped is None:
            if len(self._mapped) > 1000:  # of settings that were changed
                self._mapped.clear()
            mapped = self._mapped[local] = _Mapped.of(local)
        return mapped

    def _made(
        self,
        mapped: _Mapped,
        values: Mapping[str, Value],
        source_id: str,
        one: proto.SourceMessage,
        properties: Properties,
    ) -> Message:
        local = mapped.local
        bytes_max, levels_max = self._limits()
        try:
            topic = one.topic if mapped.topic is None else mapped.topic(values).decode()
            payload = one.payload if mapped.payload is None else mapped.payload(values)
        except (EvaluationFault, UnicodeDecodeError) as error:
            raise _DroppedError(TOPIC_INVALID, f"its topic or payload cannot be made: {error}") from None
        fault = topic_name_fault(topic, levels_max)
        if fault is not None:
            raise _DroppedError(TOPIC_INVALID, f"nothing can be published to {topic[:200]!r}: {fault}")
        wire = encode_properties(properties)
        size = len(payload) + len(topic.encode()) + len(wire) + 10
        if size > bytes_max:
            text = f"it makes a packet of {size} bytes; {bytes_max} at most are taken (mqtt.max_packet_size)"
            raise _DroppedError(TOO_LARGE, text)
        qos = one.qos if local.qos is None else local.qos
        retain = one.retain if local.retain is None else local.retain
        now = self._broker.now_us
        try:
            return make_message(now, self._ids.next_low(), topic, payload, qos, retain, wire, source_id, None)
        except (ProtocolError, ValueError) as error:
            raise _DroppedError(MALFORMED, str(error)) from None


def _not_admitted() -> RpcError:
    """One text for all that may be wrong, so that nothing can be found out by it."""
    return RpcError("source_not_admitted", "there is no such place, or the token or the signature is another one")


def _value_of(value: Any) -> Value:
    """What rules see of a value that the process of sources has sent."""
    if isinstance(value, bytes):
        return string_of(value)
    if isinstance(value, dict):
        return {str(name): _value_of(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_value_of(inner) for inner in value]
    return value if isinstance(value, str | int | float | None) else str(value)


def _properties_of(one: proto.SourceMessage) -> Properties:
    if not one.properties:
        return Properties()
    try:
        return properties_from_wire(one.properties, props.ALLOWED_PUBLISH)
    except ProtocolError as error:
        raise _DroppedError(MALFORMED, f"its properties cannot be read: {error}") from None

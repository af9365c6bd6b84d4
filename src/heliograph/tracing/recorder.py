"""Records what the kernel reports about messages and clients into the traces that are about them."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.actions import Action
from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_order import TRACES
from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.shared import SharedGroup
from heliograph.broker.subscription import FilterEntry, Subscription
from heliograph.broker.tracer import DROPPED, PUBLISHED, QUEUED, Tracer
from heliograph.channel.context import ChannelContext
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.topic import bare_filter
from heliograph.rules.engine.columns import LiveColumns
from heliograph.rules.engine.template import row_text
from heliograph.rules.values import Value
from heliograph.tracing import verdicts
from heliograph.tracing.commit_watch import CommitWatch, MessageId
from heliograph.tracing.contained import contained
from heliograph.tracing.packet_fields import short
from heliograph.tracing.reasons import why_dropped, why_queued
from heliograph.tracing.trace import Trace

Fields = dict[str, object]

BOUNDARY: Final = "tracing"  # of its faults
_FOLLOWED_MAX: Final = 10_000  # messages whose traces are remembered
_RECEIVERS_MAX: Final = 50  # that one record names
_DELIVERIES_MAX: Final = 500  # of one message that its traces have


class Followed:
    """A message that traces are about; `deliveries_count` of its deliveries were reported."""

    __slots__ = ("deliveries_count", "traces")

    def __init__(self, traces: tuple[Trace, ...], deliveries_count: int = 0) -> None:
        self.traces = traces
        self.deliveries_count = deliveries_count


_NOT_FOLLOWED: Final = Followed(())


class TraceRecorder(Tracer):
    """The tracer of a node; owned by `Traces`, which says which traces are on.

    A message stays with its traces whatever becomes of it: rewritten, delayed, stored and replayed, as long as it has
    its id and is among the last ten thousand.
    """

    def __init__(self, context: ChannelContext) -> None:
        super().__init__()
        self.wants_stored = True
        self.traces: list[Trace] = []
        self._context = context
        self._broker: Broker = context.broker
        self._followed: OrderedDict[MessageId, Followed] = OrderedDict()
        self._commits = CommitWatch(context.commits, self._on_committed)

    def contain(self, error: Exception) -> None:
        self._broker.faults.contain(BOUNDARY, error)

    # --- which traces

    def traces_of(self, clientid: str | None, host: str = "") -> list[Trace]:
        """The traces that are about a client, or about the address that it connects from."""
        return [
            trace
            for trace in self.traces
            if (clientid is not None and (trace.subject.is_client(clientid) or clientid in trace.clientids))
            or (host != "" and trace.subject.is_host(host))
        ]

    def wants_topic(self, topic: str) -> bool:
        return any(trace.subject.is_topic(topic) for trace in self.traces)

    def ended(self, trace: Trace) -> None:
        self.traces.remove(trace)
        if not self.traces:
            self._followed.clear()

    def is_about_client(self, clientid: str) -> bool:
        return bool(self.traces_of(clientid))

    # --- records

    @contained
    def record_of_client(
        self, clientid: str | None, host: str, event: str, fields: Mapping[str, object], payload: bytes | None = None
    ) -> None:
        """Record something that a client or its connection did or got."""
        traces = self.traces_of(clientid, host)
        if traces:
            self._put(traces, event, {"client": short(clientid or ""), **fields}, payload)

    def _put(self, traces: Sequence[Trace], event: str, fields: Fields, payload: bytes | None = None) -> None:
        now_us = int(self._broker.now_us)
        for trace in traces:
            trace.put(now_us, event, fields, payload)

    def _traces_of_message(self, message: Message, clientid: str | None = None) -> list[Trace]:
        """The traces that a message belongs to, and those of one of its receivers."""
        followed = self._followed.get(_key(message), _NOT_FOLLOWED)
        traces = [trace for trace in self.traces if trace in followed.traces]
        if clientid is not None:
            traces += [trace for trace in self.traces_of(clientid) if trace not in traces]
        return traces

    def _follow(self, message: Message) -> list[Trace]:
        """Know the traces of a message by its topic and publisher; those that it was not in before."""
        key = _key(message)
        followed = self._followed.get(key, _NOT_FOLLOWED)
        before = followed.traces
        found = [trace for trace in self.traces if trace.subject.is_topic(message.topic) and trace not in before]
        if message.clientid:
            found += [one for one in self.traces_of(message.clientid) if one not in found and one not in before]
        if found:
            self._followed[key] = Followed((*before, *found), followed.deliveries_count)
            if len(self._followed) > _FOLLOWED_MAX:
                del self._followed[next(iter(self._followed))]
        if found or before:
            message.is_traced = True
        return found

    # --- from the kernel

    @contained
    def follow(self, message: Message, origin: str) -> None:
        found = self._follow(message)
        if found and origin == PUBLISHED:
            self._put(found, "message", {**_message(message), **_properties_of(message)}, message.payload)

    def is_about(self, point: str, arguments: tuple[object, ...]) -> bool:
        try:
            return bool(self._traces_at(point, arguments))
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)
            return False

    @contained
    def on_verdict(
        self, point: str, callback: Callable[..., object], arguments: tuple[object, ...], verdict: object
    ) -> None:
        priority = self._broker.hooks.point(point).priority_of(callback)
        if priority == TRACES:
            return
        fields: Fields = {"hook": point, "callback": verdicts.name_of(callback, priority)}
        accumulator = arguments[-1]
        if isinstance(accumulator, Message):
            fields["message"] = _id(accumulator)
        elif isinstance(arguments[0], ClientInfo):
            fields["client"] = short(arguments[0].clientid)
        if point == hooks.CLIENT_AUTHORIZE:
            action = arguments[1]
            kind = action.kind if isinstance(action, Action) else ""
            fields |= {"action": kind, "topic": short(str(arguments[2]))}
        of_verdict = verdicts.verdict_fields(verdict, accumulator, shows_errors=not point.startswith("client.auth"))
        self._put(self._traces_at(point, arguments), "verdict", {**fields, **of_verdict})

    @contained
    def on_changed(self, before: Message, after: Message) -> None:
        if before.is_traced:
            followed = self._followed.get(_key(before))
            if followed is not None:
                self._followed[_key(after)] = followed
                after.is_traced = True
        self._follow(after)
        if after.is_traced:
            changed = {**_message(after), "was": _message(before)}
            self._put(self._traces_of_message(after), "changed", changed, after.payload)

    @contained
    def on_routed(self, message: Message, entries: Sequence[FilterEntry], is_wide: bool, ticket: i64) -> None:
        traces = self._traces_of_message(message)
        if not traces:
            return
        fields = _message(message) | _routes(entries)
        if is_wide:
            fields["more_filters"] = True
        if ticket:
            fields["ticket"] = int(ticket)
            self._commits.wait(int(ticket), _key(message))
        self._put(traces, "routed", fields)

    @contained
    def on_dropped(self, message: Message, reason: str) -> None:
        self.follow(message, PUBLISHED)
        traces = self._traces_of_message(message)
        if traces:
            self._put(traces, "message_dropped", {**_message(message), "reason": reason, "why": why_dropped(reason)})

    @contained
    def on_delivery(
        self, clientid: str, message: Message, subscription: Subscription, outcome: str, reason: str
    ) -> None:
        traces = self._traces_of_message(message, clientid) if self._has_room(message) else self.traces_of(clientid)
        if not traces:
            return
        fields: Fields = {**_message(message), "to": short(clientid), "outcome": outcome}
        fields |= {"filter": short(subscription.topic_filter), "qos": int(min(message.qos, subscription.qos))}
        if subscription.group:
            fields["group"] = short(subscription.group)
        session = self._context.sessions.held(clientid)
        if outcome == QUEUED and session is not None:
            fields["why"] = why_queued(session)
        elif outcome == DROPPED:
            fields |= {"reason": reason, "why": why_dropped(reason, session)}
        self._put(traces, "delivery", fields)

    def _has_room(self, message: Message) -> bool:
        """Whether one more delivery of a message is recorded in its own traces: it may have a million receivers."""
        followed = self._followed.get(_key(message))
        if followed is None:
            return True
        followed.deliveries_count += 1
        if followed.deliveries_count == _DELIVERIES_MAX + 1:
            self._put(self._traces_of_message(message), "deliveries_left_out", _message(message))
        return followed.deliveries_count <= _DELIVERIES_MAX

    @contained
    def on_completed(self, clientid: str, message: Message) -> None:
        followed = self._followed.get(_key(message), _NOT_FOLLOWED)
        has_all = followed.deliveries_count <= _DELIVERIES_MAX
        traces = self._traces_of_message(message, clientid) if has_all else self.traces_of(clientid)
        if traces:
            self._put(traces, "acknowledged", {**_message(message), "by": short(clientid)})

    @contained
    def on_will(self, clientid: str, message: Message, step: str) -> None:
        self._follow(message)
        traces = self._traces_of_message(message, clientid)
        if traces:
            self._put(traces, "will", {"client": short(clientid), "step": step, **_message(message)})

    @contained
    def on_rule(self, rule_id: str, columns: LiveColumns, rows: Sequence[Mapping[str, Value]] | Exception) -> None:
        fields: Fields = {"rule": rule_id, "of": short(columns.origin)}
        if isinstance(rows, Exception):
            fields |= {"outcome": "failed", "why": _said_by(rows)}
            self._put(self._traces_of_rule(rule_id), "rule", fields)
        else:
            fields |= {"outcome": "matched" if rows else "no rows", "rows": len(rows)}
            self._put(self._traces_of_rule(rule_id), "rule", fields, row_text(rows[0]) if rows else None)

    @contained
    def on_rule_action(self, rule_id: str, columns: LiveColumns, action: str, error: Exception | None) -> None:
        fields: Fields = {"rule": rule_id, "action": action, "of": short(columns.origin)}
        fields |= {"outcome": "done"} if error is None else {"outcome": "failed", "why": _said_by(error)}
        self._put(self._traces_of_rule(rule_id), "rule_action", fields)

    def _traces_of_rule(self, rule_id: str) -> list[Trace]:
        return [trace for trace in self.traces if trace.subject.is_rule(rule_id)]

    def _on_committed(self, ticket: int, code: int, messages: Sequence[MessageId]) -> None:
        for key in messages:
            traces = [trace for trace in self._followed.get(key, _NOT_FOLLOWED).traces if trace in self.traces]
            fields: Fields = {"message": _hex(key), "ticket": ticket}
            if code:
                fields["refused"] = rc.name_of(code)
            if traces:
                self._put(traces, "committed", fields)

    def _traces_at(self, point: str, arguments: tuple[object, ...]) -> list[Trace]:
        """The traces that a run of a chain belongs to."""
        accumulator, client = arguments[-1], arguments[0]
        if point == hooks.MESSAGE_PUBLISH:
            is_traced = isinstance(accumulator, Message) and accumulator.is_traced
            return self._traces_of_message(accumulator) if is_traced and isinstance(accumulator, Message) else []
        if not isinstance(client, ClientInfo):
            return []
        traces = self.traces_of(client.clientid, client.peerhost)
        if point == hooks.CLIENT_AUTHORIZE and isinstance(arguments[2], str):
            topic = bare_filter(arguments[2])
            traces += [one for one in self.traces if one.subject.is_topic(topic) and one not in traces]
        return traces


def _said_by(error: Exception) -> str:
    return short(" ".join((str(error) or repr(error)).split()))


def _key(message: Message) -> MessageId:
    return int(message.id_high), int(message.id_low)


def _hex(key: MessageId) -> str:
    return f"{key[0]:016x}{key[1]:016x}"


def _id(message: Message) -> str:
    return _hex(_key(message))


def _message(message: Message) -> Fields:
    return {"message": _id(message), "topic": short(message.topic)}


def _properties_of(message: Message) -> Fields:
    fields: Fields = {"from": short(message.clientid), "qos": int(message.qos)}
    if message.retain:
        fields["retain"] = True
    if message.expiry_s >= 0:
        fields["expires_after_s"] = int(message.expiry_s)
    if message.made_by:
        fields["made_by_rules"] = list(message.made_by)
    return fields


def _routes(entries: Sequence[FilterEntry]) -> Fields:
    filters: list[Fields] = []
    left = _RECEIVERS_MAX
    for entry in entries[:_RECEIVERS_MAX]:
        subscriptions = entry.subscriptions
        found = [_receiver(one) for one in subscriptions[: max(0, left)]]
        left -= len(found)
        shown: Fields = {"filter": short(entry.topic_filter), "receivers": found}
        if len(subscriptions) > len(found):
            shown["more"] = len(subscriptions) - len(found)
        filters.append(shown)
    routes: Fields = {"filters": filters}
    if len(entries) > len(filters):
        routes["more_filters"] = True
    return routes


def _receiver(subscription: Subscription) -> str:
    subscriber = subscription.subscriber
    if isinstance(subscriber, SharedGroup):
        return f"group {short(subscriber.clientid)} ({len(subscriber.members)} members)"
    return short(subscriber.clientid)

"""Records the ways of messages: what the kernel reports about each, from its PUBLISH to the last acknowledgement."""

from collections.abc import Callable, Sequence
from typing import Final

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_order import REWRITE, RULES, TOPIC_METRICS, TRACES
from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.subscription import FilterEntry, Subscription
from heliograph.broker.tracer import DROPPED, PUBLISHED, QUEUED, SENT, Tracer
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.tracing import verdicts
from heliograph.tracing.ways import way as steps
from heliograph.tracing.ways.scope import WayScope
from heliograph.tracing.ways.under_way import WaysUnderWay
from heliograph.tracing.ways.way import Way

BOUNDARY: Final = "message_ways"  # of its faults
_SKIPS: Final = 1 << 40  # PUBLISH packets that pass while nothing is recorded
_UNSAID: Final = (TRACES, TOPIC_METRICS, RULES)  # callbacks that only look; rules tell more by themselves
_GETS: Final = 0  # a receiver that has yet to get the message
_ACKNOWLEDGES: Final = 1


class WayRecorder(Tracer):
    """The tracer that records ways; owned by `MessageWays`, and joined to the broker while they are recorded.

    Args:
        why: Why a message waits at a client, or was dropped there, in words: gets its id, and the reason of a drop.
    """

    def __init__(self, broker: Broker, scope: WayScope, ways: WaysUnderWay, why: Callable[[str, str], str]) -> None:
        super().__init__()
        self.countdown = 0
        self.wants_stored = True
        self._broker = broker
        self._scope = scope
        self._ways = ways
        self._why = why
        self._current: Way | None = None
        self._ended: Way | None = None  # of the PUBLISH that was handled last

    def contain(self, error: Exception) -> None:
        self._broker.faults.contain(BOUNDARY, error)

    def resume(self) -> None:
        """More are recorded again: count those that passed, as `Tracers.sync` has counted them down."""
        if self.countdown != 0:
            self._scope.missed_count += _SKIPS - self.countdown
            self.countdown = 0

    # --- the PUBLISH that is handled now

    def begin(self, client: ClientInfo, publish: p.Publish, topic: str) -> p.Publish:
        scope = self._scope
        self._ended = None
        if self.countdown >= 0:  # another tracer wanted it
            return publish
        self.countdown = 0
        if scope.takes(topic, client.clientid):
            self._current = self._begun(client, publish, topic)
            self.is_current = True
        elif scope.left <= 0 and scope.takes_all:
            self.countdown = _SKIPS
        return publish

    def _begun(self, client: ClientInfo, publish: p.Publish, topic: str) -> Way:
        size: i64 = len(publish.data) - publish.payload_at
        now_us = self._broker.now_us
        clientid, username = client.clientid, client.username
        way = Way(now_us, 0, now_us, topic, clientid, username, publish.qos, publish.retain, size, -1, True)
        self._scope.held_bytes += way.held_bytes
        return way

    def end(self) -> None:
        way = self._current
        self._current, self.is_current = None, False
        if way is not None:
            self._ended = way
            if not way.has_id:
                self._ways.name(way)
            self._ways.end(way)

    def leave(self) -> object:
        way, self._current, self.is_current = self._current, None, False
        return way

    def enter(self, state: object) -> None:
        if isinstance(state, Way):
            self._current, self.is_current = state, True

    def on_refused(self, client: ClientInfo, publish: p.Publish, detail: str, is_begun: bool) -> None:
        way = self._ended if is_begun else None
        try:
            if way is None:
                topic = publish.topic.decode("utf-8", "replace")
                if is_begun or not self._scope.takes_drop(topic, client.clientid):
                    return
                way = self._begun(client, publish, topic)
                self._ways.name(way)
                self._ways.loosen(way)
            way.add(self._broker.now_us, steps.REFUSED, "", detail)
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)

    def on_answer(self, ack: bytes, ticket: i64) -> None:
        way = self._current
        if way is None:
            return
        code: i64 = ack[4] if len(ack) > 4 else rc.SUCCESS
        if way.has_id and self._ways.await_commit(way, ticket):
            way.answer = code
        else:
            way.add(self._broker.now_us, steps.ANSWERED, "", "", code)

    # --- its way through the broker

    def follow(self, message: Message, origin: str) -> None:
        """The PUBLISH is a message now, or another message comes."""
        current = self._current
        try:
            if origin == PUBLISHED and current is not None and not current.has_id:
                self._ways.identify(current, message)
                is_checked = self._broker.rights.is_checked
                current.add(self._broker.now_us, steps.AUTHORIZED, "", "", 1 if is_checked else 0)
                return
            way = self._ways.find(message)
            if way is None:
                if not self._scope.takes(message.topic, message.clientid):
                    return
                way = self._ways.begin(message, origin == PUBLISHED)
            message.is_traced = True
            if origin != PUBLISHED:
                way.add(self._broker.now_us, steps.CAME_AGAIN, "", origin)
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)

    def is_about(self, point: str, arguments: tuple[object, ...]) -> bool:
        message = arguments[-1]
        return point == hooks.MESSAGE_PUBLISH and isinstance(message, Message) and message.is_traced

    def on_verdict(
        self, point: str, callback: Callable[..., object], arguments: tuple[object, ...], verdict: object
    ) -> None:
        message = arguments[-1]
        if point != hooks.MESSAGE_PUBLISH or not isinstance(message, Message):
            return
        way = self._ways.find(message)
        if way is None:
            return
        try:
            hook = self._broker.hooks.message_publish
            priority, words = hook.priority_of(callback), verdicts.in_words(verdict, message)
            looks_only = words == "" and (priority == REWRITE or not hook.is_for(callback, message.topic))
            if priority not in _UNSAID and not looks_only:
                way.add(self._broker.now_us, steps.VERDICT, verdicts.name_of(callback, priority), words)
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)

    def on_changed(self, before: Message, after: Message) -> None:
        way = self._ways.find(before) if before.is_traced else None
        if way is not None:
            after.is_traced = True
            self._ways.rename(way, after)
            way.add(self._broker.now_us, steps.CHANGED, "", after.topic if after.topic != before.topic else "")

    def on_routed(self, message: Message, entries: Sequence[FilterEntry], is_wide: bool, ticket: i64) -> None:
        way = self._ways.find(message)
        if way is None:
            return
        now_us = self._broker.now_us
        retained = self._broker.retained
        if message.retain and retained is not None:
            way.add(now_us, steps.RETAINED, "", retained.why_unkept())
        if message.ticket != 0:
            way.add(now_us, steps.STORED)
        self._ways.await_commit(way, ticket)
        way.add(now_us, steps.ROUTED, "", "", -1 if is_wide else len(entries))

    def on_dropped(self, message: Message, reason: str) -> None:
        try:
            current = self._current
            if current is not None and not current.has_id:
                self._ways.identify(current, message)
            way = self._ways.find(message)
            if way is None:
                if not self._scope.takes_drop(message.topic, message.clientid):
                    return
                way = self._ways.begin(message, True)
            way.add(self._broker.now_us, steps.GONE, "", reason)
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)

    def on_will(self, clientid: str, message: Message, step: str) -> None:
        way = self._ways.find(message)
        if way is None and self._scope.takes(message.topic, clientid):
            way = self._ways.begin(message, True)
        if way is not None:
            message.is_traced = True
            way.add(self._broker.now_us, steps.WILL, "", step)

    def on_delayed(self, message: Message, due_at_us: int) -> None:
        way = self._ways.find(message)
        if way is not None:
            way.add(self._broker.now_us, steps.DELAYED, "", "", due_at_us)

    def on_later(self, message: Message, what: str) -> None:
        way = self._ways.find(message)
        if way is None and self._scope.takes(message.topic, message.clientid):
            way = self._ways.begin(message, False)
        if way is not None:
            way.add(self._broker.now_us, steps.LATER, "", what)

    def on_rule(self, message: Message, rule_id: str, action: str, outcome: str) -> None:
        way = self._ways.find(message)
        if way is not None:
            text = f"{action}: {outcome}" if action else outcome
            way.add(self._broker.now_us, steps.ACTION if action else steps.RULE, rule_id, text)

    # --- its receivers

    def on_delivery(
        self, clientid: str, message: Message, subscription: Subscription, outcome: str, reason: str
    ) -> None:
        try:
            way = self._resumed(message)
            if way is not None:
                self._deliver(way, clientid, message, subscription, outcome, reason)
                self._ways.count(way)
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)

    def _resumed(self, message: Message) -> Way | None:
        """The way of a message; one that goes on with what was finished is begun if it is to be recorded."""
        way = self._ways.find(message)
        if way is None and message.is_traced and self._scope.takes(message.topic, message.clientid):
            way = self._ways.begin(message, False)
        return way

    def _deliver(
        self, way: Way, clientid: str, message: Message, subscription: Subscription, outcome: str, reason: str
    ) -> None:
        now_us, waits = self._broker.now_us, way.waits
        topic_filter = subscription.topic_filter
        if subscription.group:
            topic_filter = f"$share/{subscription.group}/{topic_filter}"
        qos: i64 = message.qos if message.qos < subscription.qos else subscription.qos
        if outcome == DROPPED:
            way.add(now_us, steps.DROPPED, clientid, reason, qos)
            self._say_why(way, clientid, reason)
            self._ways.done_with(way, clientid)
            return
        state = _GETS
        if outcome == SENT:
            is_again = waits is not None and waits.get(clientid, _GETS) == _ACKNOWLEDGES
            way.add(now_us, steps.SENT_AGAIN if is_again else steps.SENT, clientid, topic_filter, qos)
            if qos == 0:
                self._ways.done_with(way, clientid)
                return
            state = _ACKNOWLEDGES
        elif outcome == QUEUED:
            way.add(now_us, steps.WAITS, clientid, topic_filter, qos)
            self._say_why(way, clientid, "")
        else:
            way.add(now_us, steps.LEFT, clientid, topic_filter, qos)
        if way.left_out_count > 0:  # it has very many receivers, and is finished after its time
            return
        if waits is None:
            way.waits = {clientid: state}
        else:
            waits[clientid] = state

    def _say_why(self, way: Way, clientid: str, reason: str) -> None:
        why = self._why(clientid, reason)
        if why:
            way.add(self._broker.now_us, steps.WHY, clientid, why)

    def on_received(self, clientid: str, message: Message) -> None:
        way = self._ways.find(message)
        if way is not None:
            way.add(self._broker.now_us, steps.RECEIVED, clientid)

    def on_completed(self, clientid: str, message: Message) -> None:
        try:
            way = self._resumed(message)
            if way is not None:
                way.add(self._broker.now_us, steps.ACKNOWLEDGED, clientid)
                self._ways.done_with(way, clientid)
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)

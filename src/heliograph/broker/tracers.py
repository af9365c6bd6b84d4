"""The tracers that are on, as the one that the kernel calls."""

from collections.abc import Callable, Sequence

from mypy_extensions import i64

from heliograph.broker.client import ClientInfo
from heliograph.broker.message import Message
from heliograph.broker.subscription import FilterEntry, Subscription
from heliograph.broker.tracer import NO_COUNTDOWN, Tracer
from heliograph.mqtt import packets as p


class Tracers(Tracer):
    """Tells several tracers the same; owned by the broker, and in use while there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.members: list[Tracer] = []
        self._counted_from: i64 = NO_COUNTDOWN
        self._begun: p.Publish | None = None  # the PUBLISH that was begun last, as it came

    def sync(self) -> None:
        """Count down for each of its members what has passed."""
        passed = self._counted_from - self.countdown
        for member in self.members:
            if member.countdown != NO_COUNTDOWN:
                member.countdown -= passed
        self._counted_from = self.countdown

    def renew(self) -> None:
        """What its members want may have changed; `sync` comes first."""
        members = self.members
        self.countdown = self._counted_from = _least(self.members)
        self.wants_contexts = any(member.wants_contexts for member in members)
        self.watches_topics = any(member.watches_topics for member in members)
        self.wants_stored = any(member.wants_stored for member in members)
        self.is_current = _is_one_current(self.members)

    def wants(self, publish: p.Publish, is_hooked: bool, is_traced: bool) -> bool:
        """Whether `begin` reports a PUBLISH; asked where it was counted down to, or one of these may be so.

        Args:
            is_hooked: Whether a callback of `message.publish` wants its topic.
            is_traced: Whether its client is marked.
        """
        return (
            self.countdown < 0
            or is_traced
            or (is_hooked and self.watches_topics)
            or (self.wants_contexts and publish.properties_at != publish.payload_at)
        )

    def is_about_client(self, clientid: str) -> bool:
        return any(member.is_about_client(clientid) for member in self.members)

    def begin(self, client: ClientInfo, publish: p.Publish, topic: str) -> p.Publish:
        self.sync()
        self._begun = publish
        for member in self.members:
            publish = member.begin(client, publish, topic)
        self.countdown = self._counted_from = _least(self.members)
        self.is_current = _is_one_current(self.members)
        return publish

    def on_refused(self, client: ClientInfo, publish: p.Publish, detail: str, is_begun: bool) -> None:
        is_begun = publish is self._begun
        for member in self.members:
            member.on_refused(client, publish, detail, is_begun)

    def end(self) -> None:
        self.is_current = False
        for member in self.members:
            if member.is_current:
                member.end()

    def leave(self) -> object:
        self.is_current = False
        states: list[tuple[Tracer, object]] = []
        for member in self.members:
            if member.is_current:
                states.append((member, member.leave()))
        return states

    def enter(self, state: object) -> None:
        if isinstance(state, list):
            for one in state:
                if isinstance(one, tuple) and isinstance(one[0], Tracer) and one[0] in self.members:
                    one[0].enter(one[1])
        self.is_current = _is_one_current(self.members)

    def without_context(self, message: Message) -> Message:
        for member in self.members:
            message = member.without_context(message)
        return message

    def on_answer(self, ack: bytes, ticket: i64) -> None:
        for member in self.members:
            if member.is_current:
                member.on_answer(ack, ticket)

    def on_released(self, clientid: str, packet_id: int) -> None:
        for member in self.members:
            member.on_released(clientid, packet_id)

    def on_received(self, clientid: str, message: Message) -> None:
        for member in self.members:
            member.on_received(clientid, message)

    def on_filters(self, client: ClientInfo, packet: p.Packet) -> None:
        for member in self.members:
            member.on_filters(client, packet)

    def on_filters_done(self, client: ClientInfo, packet: p.Packet, codes: list[int]) -> None:
        for member in self.members:
            member.on_filters_done(client, packet, codes)

    def follow(self, message: Message, origin: str) -> None:
        for member in self.members:
            member.follow(message, origin)

    def is_about(self, point: str, arguments: tuple[object, ...]) -> bool:
        return any(member.is_about(point, arguments) for member in self.members)

    def on_verdict(
        self, point: str, callback: Callable[..., object], arguments: tuple[object, ...], verdict: object
    ) -> None:
        for member in self.members:
            member.on_verdict(point, callback, arguments, verdict)

    def on_changed(self, before: Message, after: Message) -> None:
        for member in self.members:
            member.on_changed(before, after)

    def on_routed(self, message: Message, entries: Sequence[FilterEntry], is_wide: bool, ticket: i64) -> None:
        for member in self.members:
            member.on_routed(message, entries, is_wide, ticket)

    def on_dropped(self, message: Message, reason: str) -> None:
        for member in self.members:
            member.on_dropped(message, reason)

    def on_delayed(self, message: Message, due_at_us: int) -> None:
        for member in self.members:
            member.on_delayed(message, due_at_us)

    def on_later(self, message: Message, what: str) -> None:
        for member in self.members:
            member.on_later(message, what)

    def on_delivery(
        self, clientid: str, message: Message, subscription: Subscription, outcome: str, reason: str
    ) -> None:
        for member in self.members:
            member.on_delivery(clientid, message, subscription, outcome, reason)

    def on_completed(self, clientid: str, message: Message) -> None:
        for member in self.members:
            member.on_completed(clientid, message)

    def on_will(self, clientid: str, message: Message, step: str) -> None:
        for member in self.members:
            member.on_will(clientid, message, step)


def _least(members: list[Tracer]) -> i64:
    countdown: i64 = NO_COUNTDOWN
    for member in members:
        if member.countdown < countdown:
            countdown = member.countdown
    return countdown


def _is_one_current(members: list[Tracer]) -> bool:
    return any(member.is_current for member in members)

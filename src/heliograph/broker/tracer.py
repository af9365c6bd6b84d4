"""The interface of traces to the kernel: what becomes of the messages and clients that a trace is about.

While no trace is on, there is no tracer, and nothing is marked. While one is, it marks what it is about: sessions and
messages (`is_traced`), so that all others pay a truth test. The package `tracing` implements it; `tracers` joins the
tracers that are on to one.
"""

from collections.abc import Callable, Sequence
from typing import Final

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.client import ClientInfo
from heliograph.broker.message import Message
from heliograph.broker.subscription import FilterEntry, Subscription
from heliograph.mqtt import packets as p

# Where a message comes from.
PUBLISHED: Final = "published"
REPLAYED: Final = "replayed"  # from storage, to one durable session
RETAINED: Final = "retained"  # to a subscription that was just made

# What becomes of a message at one receiver.
SENT: Final = "sent"  # written for its client
QUEUED: Final = "queued"  # waits in its message queue
DROPPED: Final = "dropped"
LEFT_TO_REPLAY: Final = "left_to_replay"  # a durable session gets it from storage, later

NO_COUNTDOWN: Final = 0x7FFFFFFFFFFFFFFF  # of a tracer that picks no messages by chance


@mypyc_attr(allow_interpreted_subclasses=True)
class Tracer:
    """Records what the kernel reports; owned by the node, and joined to the broker while a trace is on.

    All methods are called in the middle of a packet or turn, must not block, and must not raise. Those that a tracer
    leaves out do nothing.

    Attributes:
        countdown: How many PUBLISH packets of clients pass until one is reported whatever it is about, by `begin`.
        wants_contexts: Whether `begin` reports all that have properties: a trace context may be among them.
        watches_topics: Whether it gets all messages to topics that a callback of `message.publish` wants.
        wants_stored: Whether it gets messages that come from storage or the retained store.
        is_current: Whether the PUBLISH that is handled now is in a trace that it began.
    """

    def __init__(self) -> None:
        self.countdown: i64 = NO_COUNTDOWN
        self.wants_contexts = False
        self.watches_topics = False
        self.wants_stored = False
        self.is_current = False

    def is_about_client(self, clientid: str) -> bool:
        """Whether a client's session is to stay marked."""
        return False

    def begin(self, client: ClientInfo, publish: p.Publish, topic: str) -> p.Publish:
        """A PUBLISH of a client is handled next, up to `end` or `leave`: what goes on in its place."""
        return publish

    def end(self) -> None:
        """It has been handled."""

    def leave(self) -> object:
        """It waits for an answer: what `enter` gets when that is there."""
        return None

    def enter(self, state: object) -> None:
        """A PUBLISH goes on that waited."""

    def on_refused(self, client: ClientInfo, publish: p.Publish, detail: str, is_begun: bool) -> None:
        """A PUBLISH broke a rule of the protocol, or a limit, and its client's connection ends.

        Args:
            is_begun: Whether `begin` reported it.
        """

    def without_context(self, message: Message) -> Message:
        """A marked message without what `begin` has added to it; itself where that was nothing."""
        return message

    def on_answer(self, ack: bytes, ticket: i64) -> None:
        """The PUBLISH that is handled now is answered, after the commit with this ticket (0: at once)."""

    def on_released(self, clientid: str, packet_id: int) -> None:
        """A client has sent PUBREL, and gets PUBCOMP."""

    def on_received(self, clientid: str, message: Message) -> None:
        """A receiver has sent PUBREC for a marked message, and gets PUBREL."""

    def on_filters(self, client: ClientInfo, packet: p.Packet) -> None:
        """A SUBSCRIBE or UNSUBSCRIBE comes; one with the identifier 0 is on the client's behalf."""

    def on_filters_done(self, client: ClientInfo, packet: p.Packet, codes: list[int]) -> None:
        """It is answered with these reason codes."""

    def follow(self, message: Message, origin: str) -> None:
        """A message comes: mark it if a trace is about it.

        Args:
            origin: `PUBLISHED`, `REPLAYED` or `RETAINED`.
        """

    def is_about(self, point: str, arguments: tuple[object, ...]) -> bool:
        """Whether verdicts of callbacks are recorded. Asked once for each run of a chain.

        Args:
            point: The name of the hook point.
            arguments: What its callbacks get; the accumulator is the last one.
        """
        return False

    def on_verdict(
        self, point: str, callback: Callable[..., object], arguments: tuple[object, ...], verdict: object
    ) -> None:
        """A callback answered, with what it returned or the exception that it raised."""

    def on_changed(self, before: Message, after: Message) -> None:
        """Callbacks of `message.publish` made another message of one."""

    def on_routed(self, message: Message, entries: Sequence[FilterEntry], is_wide: bool, ticket: i64) -> None:
        """A marked message is handed to its receivers now.

        Args:
            entries: The filters that match its topic.
            is_wide: They are too many to be known now, and `entries` is empty.
            ticket: That of the commit that holds it, 0 if nothing stores it.
        """

    def on_dropped(self, message: Message, reason: str) -> None:
        """A message, marked or not, goes no further."""

    def on_delayed(self, message: Message, due_at_us: int) -> None:
        """A message, marked or not, is held to be published at a time of the node's clock."""

    def on_later(self, message: Message, what: str) -> None:
        """A message that was held is published now.

        Args:
            message: As it was held, with its id of then.
            what: The id that it has from now on in hexadecimal digits; or why it is not published.
        """

    def on_delivery(
        self, clientid: str, message: Message, subscription: Subscription, outcome: str, reason: str
    ) -> None:
        """What becomes of a message at one receiver, where message or receiver is marked.

        Args:
            outcome: `SENT`, `QUEUED`, `DROPPED` or `LEFT_TO_REPLAY`.
            reason: Why it is dropped.
        """

    def on_completed(self, clientid: str, message: Message) -> None:
        """A receiver has acknowledged a message, where message or receiver is marked."""

    def on_will(self, clientid: str, message: Message, step: str) -> None:
        """A client's will waits for its delay, is published or refused, or the client came back in time."""

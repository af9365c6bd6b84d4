"""The interface of traces to the kernel: told what becomes of the messages and clients that a trace is about.

While no trace is on, there is no tracer, and nothing is marked. While one is, it marks what it is about: sessions and
messages (`is_traced`), so that all others pay a truth test. The package `tracing` implements it.
"""

from collections.abc import Callable, Sequence
from typing import Final

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.message import Message
from heliograph.broker.subscription import FilterEntry, Subscription

# Where a message comes from.
PUBLISHED: Final = "published"
REPLAYED: Final = "replayed"  # from storage, to one durable session
RETAINED: Final = "retained"  # to a subscription that was just made

# What becomes of a message at one receiver.
SENT: Final = "sent"  # written for its client
QUEUED: Final = "queued"  # waits in its message queue
DROPPED: Final = "dropped"
LEFT_TO_REPLAY: Final = "left_to_replay"  # a durable session gets it from storage, later


@mypyc_attr(allow_interpreted_subclasses=True)
class Tracer:
    """Records what it is told; owned by the node, and joined to the broker while a trace is on.

    All methods are called in the middle of a packet or turn, must not block, and must not raise.
    """

    def follow(self, message: Message, origin: str) -> None:
        """A message comes: mark it if a trace is about it.

        Args:
            origin: `PUBLISHED`, `REPLAYED` or `RETAINED`.
        """
        raise NotImplementedError(type(self).__name__)

    def is_about(self, point: str, arguments: tuple[object, ...]) -> bool:
        """Whether verdicts of callbacks are recorded. Asked once for each run of a chain.

        Args:
            point: The name of the hook point.
            arguments: What its callbacks get; the accumulator is the last one.
        """
        raise NotImplementedError(type(self).__name__)

    def on_verdict(
        self, point: str, callback: Callable[..., object], arguments: tuple[object, ...], verdict: object
    ) -> None:
        """A callback answered, with what it returned or the exception that it raised."""
        raise NotImplementedError(type(self).__name__)

    def on_changed(self, before: Message, after: Message) -> None:
        """Callbacks of `message.publish` made another message of one."""
        raise NotImplementedError(type(self).__name__)

    def on_routed(self, message: Message, entries: Sequence[FilterEntry], is_wide: bool, ticket: i64) -> None:
        """A marked message is handed to its receivers now.

        Args:
            entries: The filters that match its topic.
            is_wide: They are too many to be known now, and `entries` is empty.
            ticket: That of the commit that holds it, 0 if nothing stores it.
        """
        raise NotImplementedError(type(self).__name__)

    def on_dropped(self, message: Message, reason: str) -> None:
        """A message, marked or not, goes no further."""
        raise NotImplementedError(type(self).__name__)

    def on_delivery(
        self, clientid: str, message: Message, subscription: Subscription, outcome: str, reason: str
    ) -> None:
        """What becomes of a message at one receiver, where message or receiver is marked.

        Args:
            outcome: `SENT`, `QUEUED`, `DROPPED` or `LEFT_TO_REPLAY`.
            reason: Why it is dropped.
        """
        raise NotImplementedError(type(self).__name__)

    def on_completed(self, clientid: str, message: Message) -> None:
        """A receiver has acknowledged a message, where message or receiver is marked."""
        raise NotImplementedError(type(self).__name__)

    def on_will(self, clientid: str, message: Message, step: str) -> None:
        """A client's will waits for its delay, is published or refused, or the client came back in time."""
        raise NotImplementedError(type(self).__name__)

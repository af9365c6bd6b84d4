"""The interface of the retainer to the broker and its channels."""

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class RetainedMatches:
    """The retained messages that one filter matches, read one at a time.

    They are those that were there when it was made. One that is replaced, cleared or expires before it is read is left
    out: what replaced it went to the subscribers as it came. Making it costs little; the first read looks for matches.
    """

    def next(self) -> Message | None:
        """The next match; None at the end (`is_done`) or when the scan budget is used up: call again."""
        raise NotImplementedError(type(self).__name__)

    def is_done(self) -> bool:
        """Whether a read found the end; if not, None from `next` means to call again."""
        raise NotImplementedError(type(self).__name__)


@mypyc_attr(allow_interpreted_subclasses=True)
class RetainedStore:
    """Takes every message that carries the retain flag; joined to the broker by the node.

    What it does it adds to `Broker.work`.

    Args:
        batch_deliver_number: How many messages one client gets in one turn; 0 for what the turn's work allows.
        delivery_rate: How many messages one client gets in a while, and how many microseconds that is; None for no
            limit.
    """

    def __init__(self, batch_deliver_number: i64 = 0, delivery_rate: tuple[int, int] | None = None) -> None:
        self.batch_deliver_number = batch_deliver_number
        self.delivery_rate = delivery_rate
        self.refusal: i64 = 0  # the reason code with which messages are refused now; kept up to date by the node

    def retain(self, message: Message) -> bool:
        """Keep `message` for its topic, or forget the topic's message if its payload is empty. Must not block.

        Returns:
            Whether the message goes on to storage and subscribers.
        """
        raise NotImplementedError(type(self).__name__)

    def refusal_code(self) -> int:
        """The reason code with which messages are refused now; 0 while they are taken."""
        return self.refusal

    def why_unkept(self) -> str:
        """Why the message that was given to `retain` last is not kept: `cleared`, `payload_size`, `rate`, `full` or
        `memory`; empty where it is.
        """
        return ""

    def may_match(self, topic_filter: str) -> bool:
        """Whether a filter can match a retained message; False only where that is certain and cheap to know."""
        return True

    def match(self, topic_filter: str) -> RetainedMatches:
        """The retained messages whose topics a filter matches."""
        raise NotImplementedError(type(self).__name__)

"""The interface of storage to the broker."""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.message import Message

NOT_STORED: Final = 0  # the ticket of what nothing keeps


@mypyc_attr(allow_interpreted_subclasses=True)
class DurableSink:
    """Keeps messages on disk; joined to the broker by the node.

    Attributes:
        is_joined: Whether the message appended last went to further databases too, whose refusals it shares.
        rows_taken: How many messages were stored without being published, as rows of rules are,
        row_ticket: and the ticket of the last of them.
    """

    def __init__(self) -> None:
        self.is_joined = False
        self.rows_taken: i64 = 0
        self.row_ticket: i64 = NOT_STORED

    def refusal(self, topic: str) -> int:
        """The reason code with which messages of a topic are refused now, 0 where they are taken."""
        return 0

    def wants(self, topic: str) -> bool:
        """Whether messages of this topic are stored. Asked once for each route; must not block."""
        raise NotImplementedError(type(self).__name__)

    def append(self, message: Message) -> int:
        """Take a message and return the ticket of the commit that will hold it. Tickets never fall; must not block.

        Where sessions can replay it from, it is noted on the message too (`Message.ticket`).
        """
        raise NotImplementedError(type(self).__name__)

    def append_row(self, message: Message) -> int:
        """Take a message that is not published, whatever topics are stored, and note it; the ticket of its commit."""
        raise NotImplementedError(type(self).__name__)

    def pending_ticket(self) -> int:
        """The ticket of the commit after which whatever became of the message handled now is durable; 0 for nothing.

        Asked for a message that is retained and not stored. Must not block.
        """
        raise NotImplementedError(type(self).__name__)

    def is_full(self) -> bool:
        """Whether publishers must wait until what was taken is committed."""
        raise NotImplementedError(type(self).__name__)

    def is_filling(self) -> bool:
        """Whether publishers with much to say must wait already, so that the others find room."""
        return self.is_full()

"""Acknowledgements that wait: for the commit of their messages, and behind each other.

They leave in the order of the messages they answer, so one that waits for nothing itself still waits behind those that
do. A refused commit turns its acknowledgements into refusals.
"""

from mypy_extensions import i64

from heliograph.broker.counters import Counters
from heliograph.channel import answers
from heliograph.channel.context import ChannelContext
from heliograph.channel.handles import CommitWaiter
from heliograph.channel.reader import CONNECTED, Reader
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session


class AckBatch:
    """Acknowledgements that the same commit releases."""

    def __init__(self, ticket: i64, stored: bool, joined: bool) -> None:
        self.ticket: i64 = ticket
        self.stored = stored  # False: they only wait behind that commit
        self.joined = joined  # other databases keep these messages too
        self.code = 0  # what became of the commit
        self.acks: list[bytes] = []


class PendingAcks(CommitWaiter):
    """The acknowledgements of one client that are not sent yet, oldest first; made when the first one must wait.

    It outlives its connection while it waits for commits: what the session knows of a refused message is put right.

    Args:
        version: The client's protocol version.
        reason_bytes_max: How large an acknowledgement with a reason may be; 0 for any size, -1 for no reasons.

    Attributes:
        count: How many there are.
    """

    def __init__(
        self,
        context: ChannelContext,
        reader: Reader,
        session: Session,
        outbox: Outbox,
        version: i64,
        reason_bytes_max: i64,
    ) -> None:
        self._context = context
        self._reader = reader
        self._session = session
        self._outbox = outbox
        self._version: i64 = version
        self._reason_bytes_max: i64 = reason_bytes_max
        self._batches: list[AckBatch] = []
        self.count: i64 = 0

    def __bool__(self) -> bool:
        return len(self._batches) > 0

    def add(self, ticket: i64, ack: bytes, joined: bool) -> None:
        """Hold back an acknowledgement for a commit (0: for none of its own).

        Args:
            joined: Whether the message goes to other databases too, whose refusals are its own.
        """
        self.count += 1
        batches = self._batches
        last = batches[-1] if batches else None
        is_same = last is not None and (last.ticket == ticket or ticket == 0) and last.stored == (ticket != 0)
        if last is not None and is_same and last.joined == joined:
            last.acks.append(ack)  # 3.1.1 [MQTT-4.6.0-2] 3.1.1 [MQTT-4.6.0-3]
            return
        batch = AckBatch(ticket if ticket != 0 or last is None else last.ticket, ticket != 0, joined)
        batch.acks.append(ack)
        batches.append(batch)
        if ticket != 0:
            self._context.commits.wait(ticket, self)

    def on_committed(self, ticket: i64, code: int) -> None:
        """Send what waited for this commit, as refusals if it was refused with `code`.

        MQTT 3 has no refusal, and an acknowledgement would be a lie: its conversation ends.
        """
        joined_code = self._context.commits.joined_code
        for batch in self._batches:
            if batch.ticket == ticket:
                # One that a repetition waits for may stand behind later ones, and leaves with them.
                batch.code = joined_code if batch.joined else code
        self._release()

    def abort(self) -> None:
        """Close the connection at once."""
        self._reader.abort()

    def _release(self) -> None:
        """Send what waits for nothing any more."""
        refused: int = rc.SUCCESS
        is_connected = self._reader.state == CONNECTED  # if not, only what the session knows is put right
        for batch in self._take_released():
            if batch.code != rc.SUCCESS and batch.stored:
                refused = batch.code
                self._refuse(batch, is_connected and self._version == p.V5)
            elif is_connected and (refused == rc.SUCCESS or self._version == p.V5):
                for ack in batch.acks:
                    put_ack(self._outbox, self._session.broker.counters, ack)
        conversation = self._reader.conversation
        if refused != rc.SUCCESS and self._version != p.V5 and conversation is not None:
            conversation.end(refused, "storage refused a message")  # 3.1.1 [MQTT-4.8.0-2]

    def _take_released(self) -> list[AckBatch]:
        batches = self._batches
        commits = self._context.commits
        count = 0
        while count < len(batches) and not commits.is_pending(batches[count].ticket):
            self.count -= len(batches[count].acks)
            count += 1
        self._batches = batches[count:]
        return batches[:count]

    def _refuse(self, batch: AckBatch, is_told: bool) -> None:
        broker = self._session.broker
        broker.counters.messages_refused += len(batch.acks)
        for ack in batch.acks:
            if ack[0] >> 4 == p.PUBREC:
                # It was not taken: a repetition is a new message.
                self._session.awaiting_rel.release((ack[2] << 8) | ack[3])  # [MQTT-4.3.3-9]
            if is_told:
                reason = self._context.commits.reason if self._reason_bytes_max >= 0 else ""
                refusal = answers.refused(ack, batch.code, reason, max(0, self._reason_bytes_max))
                put_ack(self._outbox, broker.counters, refusal)


def put_ack(outbox: Outbox, counters: Counters, ack: bytes) -> None:
    """Send a PUBACK or a PUBREC, and count it."""
    if ack[0] >> 4 == p.PUBACK:
        counters.puback_sent += 1
    else:
        counters.pubrec_sent += 1
    outbox.put(ack)

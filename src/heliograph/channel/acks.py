"""Acknowledgements that wait: for the commit of their messages, for a callback that took one, and behind each other.

They leave in the order of the messages they answer, so one that waits for nothing itself still waits behind those that
do. A refused commit turns its acknowledgements into refusals.
"""

from mypy_extensions import i64

from heliograph.broker.counters import Counters
from heliograph.broker.faults import CONNECTIONS
from heliograph.broker.pending import Pending
from heliograph.channel import answers
from heliograph.channel.context import ChannelContext
from heliograph.channel.conversation import ConnectedClient
from heliograph.channel.handles import CommitWaiter
from heliograph.channel.reader import CONNECTED, Reader
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.session.outbox import Outbox


class AckBatch:
    """Acknowledgements that are released together: by the same commit, or by a callback that took a message."""

    def __init__(self, ticket: i64, stored: bool, joined: bool) -> None:
        self.ticket: i64 = ticket
        self.stored = stored  # False: they only wait behind that commit
        self.joined = joined  # other databases keep these messages too
        self.code = 0  # what became of the commit, or of the message,
        self.reason = ""  # and why it was refused
        self.acks: list[bytes] = []
        self.done: Pending[int] | None = None  # what the callback says, until it does


class PendingAcks(CommitWaiter):
    """The acknowledgements of one client that are not sent yet, oldest first; made when the first one must wait.

    It outlives its connection while it waits for commits: what the session knows of a refused message is put right.
    """

    def __init__(self, context: ChannelContext, reader: Reader, outbox: Outbox, connected: ConnectedClient) -> None:
        self._context = context
        self._reader = reader
        self._outbox = outbox
        self._connected = connected
        self._session = connected.session
        self._version: i64 = connected.client.version
        self._batches: list[AckBatch] = []
        self._last_ticket: i64 = 0  # whose commit is waited for; once for all that share it
        self.count: i64 = 0
        self.deferred_count: i64 = 0

    def __bool__(self) -> bool:
        return len(self._batches) > 0

    def add(self, ticket: i64, ack: bytes, joined: bool) -> None:
        """Hold back an acknowledgement for a commit (0: for none of its own).

        Args:
            joined: Whether the message goes to other databases too, whose refusals are its own.
        """
        self.check_room()
        self.count += 1
        batches = self._batches
        last = batches[-1] if batches else None
        is_same = last is not None and (last.ticket == ticket or ticket == 0) and last.stored == (ticket != 0)
        is_same = is_same and last is not None and last.joined == joined
        # What a callback refused, or a commit, is not what becomes of this message.
        if last is not None and is_same and last.done is None and last.code == rc.SUCCESS:
            last.acks.append(ack)  # 3.1.1 [MQTT-4.6.0-2] 3.1.1 [MQTT-4.6.0-3]
            return
        batch = AckBatch(ticket if ticket != 0 or last is None else last.ticket, ticket != 0, joined)
        batch.acks.append(ack)
        batches.append(batch)
        self._wait_for_commit(ticket)

    def defer(self, done: Pending[int], ack: bytes, ticket: i64, joined: bool) -> None:
        """Hold back an acknowledgement until a callback says what became of its message; the rest as in `add`.

        Raises:
            RuntimeError: Another question has the same `Pending` for its answer.
        """
        batch = AckBatch(ticket, True, joined)
        batch.acks.append(ack)
        batch.done = done
        self._batches.append(batch)
        self.count += 1
        self.deferred_count += 1
        self._wait_for_commit(ticket)
        done.then(DeferredBatch(self, batch).on_done)

    def on_done(self, batch: AckBatch, code: int) -> None:
        """A callback says what became of a message; MQTT 3 has no refusal, and gets an ordinary acknowledgement."""
        if batch.done is None:
            return
        self._context.begin_turn()
        if code >= rc.UNSPECIFIED_ERROR and self._version == p.V5:
            batch.code = code if code in rc.ACK_CODES else rc.UNSPECIFIED_ERROR
        try:
            self._settle(batch)
            self._release()
        except Exception as error:  # noqa: BLE001 - the callback is to know nothing of it
            self._context.broker.faults.contain(CONNECTIONS, error, self.abort)

    def expire(self, uptime_us: i64) -> None:
        """Refuse messages whose callbacks did not answer in time, or gave up."""
        has_refused = False
        for batch in list(self._batches):
            done = batch.done
            if done is not None and done.is_over(uptime_us):
                self._context.broker.faults.run(CONNECTIONS, done.expire)
                if batch.done is not None:  # it has no answer for that
                    batch.code = rc.UNSPECIFIED_ERROR
                    self._settle(batch)
                    has_refused = True
        if has_refused:
            self._release()

    def cancel(self) -> None:
        """The client is gone: nothing waits for callbacks any more, and what it repeats is a new message."""
        for batch in list(self._batches):
            done = batch.done
            if done is not None:
                self._settle(batch)
                self._context.broker.faults.run(CONNECTIONS, done.cancel)
                acks = batch.acks
                batch.acks = []  # a refused commit finds them again, when others may have their identifiers
                self.count -= len(acks)
                for ack in acks:
                    self._forget(ack)

    def awaits(self, packet_id: int) -> bool:
        """Whether the PUBREC of a message waits for a callback, or is to refuse it."""
        for batch in self._batches:
            if batch.done is not None or batch.code != rc.SUCCESS:
                for ack in batch.acks:
                    if ack[0] >> 4 == p.PUBREC and (ack[2] << 8) | ack[3] == packet_id:
                        return True
        return False

    def on_committed(self, ticket: i64, code: int) -> None:
        """Send what waited for this commit, as refusals if it was refused with `code`.

        MQTT 3 has no refusal, and an acknowledgement would be a lie: its conversation ends.
        """
        commits = self._context.commits
        for batch in self._batches:
            if batch.ticket == ticket:
                # One that a repetition waits for may stand behind later ones, and leaves with them.
                refused = commits.joined_code if batch.joined else code
                if refused != rc.SUCCESS:
                    batch.code = refused
                    batch.reason = commits.reason
        self._release()

    def abort(self) -> None:
        self._reader.abort()

    def check_room(self) -> None:
        """Look whether one more may wait."""
        # Storage bounds what waits for it, also for a client of MQTT 3, which knows no limit; callbacks do not.
        if self._version != p.V5 and self.deferred_count == 0:
            return
        count_max: int = self._session.options.max_awaiting_rel  # the Receive Maximum of the CONNACK
        if count_max == 0 or count_max > 65_535:
            count_max = 65_535
        if self.count >= count_max:  # [MQTT-3.3.4-7]
            detail = f"more than {count_max} QoS 1 and 2 messages without acknowledgement"
            raise ProtocolError(detail, rc.RECEIVE_MAXIMUM_EXCEEDED)

    def _wait_for_commit(self, ticket: i64) -> None:
        if ticket != 0 and ticket != self._last_ticket:
            self._last_ticket = ticket
            self._context.commits.wait(ticket, self)

    def _release(self) -> None:
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
            conversation.end(refused, rc.name_of(refused))  # 3.1.1 [MQTT-4.8.0-2]

    def _take_released(self) -> list[AckBatch]:
        batches = self._batches
        commits = self._context.commits
        count = 0
        while count < len(batches) and batches[count].done is None and not commits.is_pending(batches[count].ticket):
            self.count -= len(batches[count].acks)
            count += 1
        self._batches = batches[count:]
        return batches[:count]

    def _settle(self, batch: AckBatch) -> None:
        """Nothing is waited for any more but its commit."""
        if batch.done is not None:
            batch.done = None
            self.deferred_count -= 1

    def _refuse(self, batch: AckBatch, is_answered: bool) -> None:
        broker = self._session.broker
        broker.counters.messages_refused += len(batch.acks)
        for ack in batch.acks:
            self._forget(ack)
            if is_answered:
                reason = batch.reason if self._connected.wants_reasons else ""
                refusal = answers.refused(ack, batch.code, reason, self._connected.packet_bytes_max)
                put_ack(self._outbox, broker.counters, refusal)

    def _forget(self, ack: bytes) -> None:
        """A message was not taken: a repetition is a new one."""
        if ack[0] >> 4 == p.PUBREC:
            self._session.awaiting_rel.release((ack[2] << 8) | ack[3])  # [MQTT-4.3.3-9]


class DeferredBatch:
    """Gets the answer of a callback that took a message."""

    def __init__(self, acks: PendingAcks, batch: AckBatch) -> None:
        self._acks = acks
        self._batch = batch

    def on_done(self, code: int) -> None:
        self._acks.on_done(self._batch, code)


def put_ack(outbox: Outbox, counters: Counters, ack: bytes) -> None:
    """Send a PUBACK or a PUBREC, and count it."""
    if ack[0] >> 4 == p.PUBACK:
        counters.puback_sent += 1
    else:
        counters.pubrec_sent += 1
    outbox.put(ack)

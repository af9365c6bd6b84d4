"""The QoS 2 messages of a client that were taken and not released, kept on the disk."""

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.broker.repetition import Repetition
from heliograph.session.awaiting_rel import AwaitingRel
from heliograph.session.durability import Durability
from heliograph.session.session import Session


class DurableAwaitingRel(AwaitingRel):
    """As `AwaitingRel`; PUBREC waits until an identifier is saved, PUBCOMP until its release is.

    Attributes:
        has_orphans: A crash stored messages of the client without their packet identifiers.
    """

    def __init__(self, session: Session, durability: Durability) -> None:
        super().__init__(session.options)
        self._session = session
        self._durability = durability
        self.has_orphans = False

    def add(self, packet_id: int, ticket: int, uptime_us: int, id_low: int = 0) -> None:
        super().add(packet_id, ticket, uptime_us, id_low)
        now_us = self._session.broker.now_us
        self._await_saved(self._durability.taken.take(self._session, packet_id, ticket, now_us, id_low))

    def restore(self, packet_id: int, uptime_us: int) -> None:
        self._restore(packet_id, uptime_us)

    def release(self, packet_id: int) -> bool:
        known = super().release(packet_id)
        if known:
            self._await_saved(self._durability.taken.release(self._session, packet_id))
        return known

    def forget_all(self) -> None:
        for packet_id in self._taken:
            self._durability.taken.release(self._session, packet_id)

    def may_repeat(self, packet_id: int) -> bool:
        return self._is_restored(packet_id) or (self.has_orphans and packet_id not in self._taken)

    def recall(self, packet_id: int, repetition: Repetition) -> bool:
        if self._is_restored(packet_id):
            return True
        orphan = self._durability.taken.claim_orphan(self._session, repetition)
        if orphan is None:
            return False
        self.restore(packet_id, self._session.broker.uptime_us)
        self._await_saved(self._durability.taken.take(self._session, packet_id, 0, orphan[0], orphan[1]))
        return True

    def lost_retained(self, packet_id: int, repetition: Repetition) -> Message | None:
        """What an earlier process stored, if no retained message of its topic was stored after it.

        Its commit among the retained messages ran beside that of its identifier, and a crash may have left only this.
        """
        taken = self._durability.taken.find(self._session, packet_id)
        if taken is None:
            return None
        id_high, id_low = taken
        message = repetition.stored_as(id_high, id_low)
        if message is None or not message.retain or not self._is_stored(message.topic):
            return None
        return None if self._durability.taken.is_replaced(message.topic, id_high, id_low) else message

    def _is_stored(self, topic: str) -> bool:
        return self._session.broker.route(topic.encode("utf-8")).durable

    def _await_saved(self, state: i64) -> None:
        outbox = self._session.sender.outbox
        if outbox is not None:
            self._durability.add_barrier(outbox, state, 0)

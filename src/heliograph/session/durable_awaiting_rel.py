"""The QoS 2 messages of a client that were taken and not released, kept on the disk."""

from mypy_extensions import i64

from heliograph.mqtt.packets import Publish
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
        """Remember a message; what its client is sent from now on waits until that is saved."""
        super().add(packet_id, ticket, uptime_us, id_low)
        now_us = self._session.broker.now_us
        self._hold(self._durability.take(self._session, packet_id, ticket, now_us, id_low))

    def restore(self, packet_id: int, uptime_us: int) -> None:
        """An identifier was read from the disk."""
        self._taken[packet_id] = (uptime_us, 0)

    def release(self, packet_id: int) -> bool:
        """PUBREL came, or the message was refused; whether the identifier was known."""
        known = super().release(packet_id)
        if known:
            self._hold(self._durability.release_taken(self._session, packet_id))
        return known

    def is_orphan(self, packet_id: int, publish: Publish) -> bool:
        """Whether a PUBLISH repeats a message that was stored while its identifier was not; it is then known."""
        if not self.has_orphans or not self._durability.claim_orphan(self._session, publish):
            return False
        self.add(packet_id, 0, self._session.broker.uptime_us)
        return True

    def _hold(self, state: i64) -> None:
        outbox = self._session.outbox
        if outbox is not None:
            self._durability.hold(outbox, state, 0)

"""The QoS 2 messages of a client that were taken and not yet released by its PUBREL."""

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.broker.repetition import Repetition
from heliograph.session.options import SessionOptions


class AwaitingRel:
    """Packet identifiers with the time they were taken at and their storage ticket; owned by the session."""

    def __init__(self, options: SessionOptions) -> None:
        self.options = options
        self._taken: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._taken)

    def ticket(self, packet_id: int) -> int:
        """The storage ticket of the message under that identifier, or -1 if there is none [MQTT-4.3.3-10]."""
        taken = self._taken.get(packet_id)
        return -1 if taken is None else taken[1]

    def has_room(self, uptime_us: i64) -> bool:
        """Whether one more may be taken; the oldest is given up if it has waited for too long."""
        options = self.options
        if options.max_awaiting_rel == 0 or len(self._taken) < options.max_awaiting_rel:
            return True
        oldest = next(iter(self._taken))
        if self._taken[oldest][0] + options.await_rel_timeout_us > uptime_us:
            return False
        self.release(oldest)
        return True

    def may_repeat(self, packet_id: int) -> bool:
        """Whether a PUBLISH under that identifier may repeat what an earlier process stored."""
        return False

    def recall(self, packet_id: int, repetition: Repetition) -> bool:
        """Whether an earlier process stored what a PUBLISH repeats; its identifier is then known, if it was lost."""
        return False

    def lost_retained(self, packet_id: int, repetition: Repetition) -> Message | None:
        """What an earlier process stored, if a crash may have lost that it is the retained message of its topic."""
        return None

    def add(self, packet_id: int, ticket: int, uptime_us: int, id_low: int = 0) -> None:
        """Remember a message, stored under `ticket`, until its PUBREL; `id_low` is of its id."""
        self._taken[packet_id] = (uptime_us, ticket)

    def release(self, packet_id: int) -> bool:
        """PUBREL came, or the message was refused; whether the identifier was known."""
        return self._taken.pop(packet_id, None) is not None

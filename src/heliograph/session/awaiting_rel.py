"""The QoS 2 messages of a client that were taken and not yet released by its PUBREL."""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.broker.repetition import Repetition
from heliograph.session.options import SessionOptions

# Each identifier has one number, so that it costs less than 100 bytes: from above the storage ticket, the time in units
# of 16 ms (a clock that starts again after half a year, which only keeps the identifier longer), and whether an earlier
# process took it. Those that come together share it.
_UNIT_LOG2: Final = 14
_TIME_MASK: Final = 0x3FFF_FFFF
_TICKET_AT: Final = 31
_RESTORED: Final = 1


class AwaitingRel:
    """Packet identifiers with the time they were taken at and their storage ticket; owned by the session."""

    def __init__(self, options: SessionOptions) -> None:
        self.options = options
        self._taken: dict[int, object] = {}
        self._last_number: int = -1  # that of the last one,
        self._last: object = None  # as the object that others share
        self.given_up_count: i64 = 0  # identifiers whose PUBREL did not come in time

    def __len__(self) -> int:
        return len(self._taken)

    def ticket(self, packet_id: int) -> int:
        """The storage ticket of the message under that identifier, or -1 if there is none [MQTT-4.3.3-10]."""
        taken = self._taken.get(packet_id)
        return taken >> _TICKET_AT if isinstance(taken, int) else -1

    def has_room(self, uptime_us: i64) -> bool:
        """Whether one more may be taken; the oldest is given up if it has waited for too long."""
        options = self.options
        if options.max_awaiting_rel == 0 or len(self._taken) < options.max_awaiting_rel:
            return True
        oldest = next(iter(self._taken))
        taken = self._taken[oldest]
        taken_at: int = (taken >> 1) & _TIME_MASK if isinstance(taken, int) else 0
        waited_us: i64 = (((uptime_us >> _UNIT_LOG2) - i64(taken_at)) & _TIME_MASK) << _UNIT_LOG2
        if waited_us < options.await_rel_timeout_us:
            return False
        self.release(oldest)
        self.given_up_count += 1
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
        self._put(packet_id, _packed(uptime_us, ticket))

    def _restore(self, packet_id: int, uptime_us: int) -> None:
        self._put(packet_id, _packed(uptime_us, 0) | _RESTORED)

    def _is_restored(self, packet_id: int) -> bool:
        taken = self._taken.get(packet_id)
        return isinstance(taken, int) and taken & _RESTORED != 0

    def _put(self, packet_id: int, taken: int) -> None:
        if taken != self._last_number:
            self._last_number = taken
            self._last = _as_object(taken)
        self._taken[packet_id] = self._last

    def release(self, packet_id: int) -> bool:
        """PUBREL came, or the message was refused; whether the identifier was known."""
        return self._taken.pop(packet_id, None) is not None


def _as_object(number: object) -> object:
    """The same; compiled code would otherwise make a new object wherever it knows that this is a number."""
    return number


def _packed(uptime_us: int, ticket: int) -> int:
    return (ticket << _TICKET_AT) | (((uptime_us >> _UNIT_LOG2) & _TIME_MASK) << 1)

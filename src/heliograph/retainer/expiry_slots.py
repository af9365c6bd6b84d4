"""When retained messages expire: slots by the second at which to look at them.

A message is looked at up to an eighth of its lifetime late, so that whatever their expiry intervals all messages
together lie in a few hundred entries, each a compressed set. Expired messages are not delivered: reading one checks its
time. This only says when its memory can be freed.
"""

from pyroaring import BitMap


class ExpirySlots:
    """Slots by when they are due; owned by the store. Times are seconds on the wall clock."""

    def __init__(self) -> None:
        self._due: dict[int, BitMap] = {}

    def __len__(self) -> int:
        return len(self._due)

    def add(self, slot: int, expires_s: int, now_s: int) -> int:
        """List a slot: the second that it is listed under."""
        left_s = max(1, expires_s - now_s)
        step = 1 << max(0, left_s.bit_length() - 4)
        due_s = -(-expires_s // step) * step
        slots = self._due.get(due_s)
        if slots is None:
            slots = self._due[due_s] = BitMap()
        slots.add(slot)
        return due_s

    def discard(self, slot: int, due_s: int) -> None:
        """Take a slot out of the second that it is listed under."""
        slots = self._due.get(due_s)
        if slots is not None:
            slots.discard(slot)
            if not slots:
                del self._due[due_s]

    def take_due(self, now_s: int, count_max: int) -> list[int]:
        """Take out slots that are due, at most so many."""
        taken: list[int] = []
        while self._due and len(taken) < count_max:
            due_s = min(self._due)
            if due_s > now_s:
                break
            slots = self._due[due_s]
            some = slots[: count_max - len(taken)]
            taken.extend(some)
            slots -= some
            if not slots:
                del self._due[due_s]
        return taken

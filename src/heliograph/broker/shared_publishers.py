"""What shared groups remember of publishers, where their strategy goes by publisher."""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.subscription import Subscription

# How many publishers a group remembers for certain; see `PublisherTable`.
PUBLISHERS_MAX: Final = 10_000
# All groups together remember about so many (90 bytes each), but each of them this few.
_PUBLISHERS_OF_ALL: Final = 500_000
_PUBLISHERS_AT_LEAST: Final = 16

_MASK_32: Final = 0xFFFFFFFF


class Turn:
    """What a group remembers of a publisher."""

    def __init__(self, clientid: str) -> None:
        self.clientid = clientid
        self.member: Subscription | None = None  # the member that took its last message
        self.digest: i64 = digest(clientid.encode("utf-8"))


class PublisherBounds:
    """How much all groups of a node remember of publishers; owned by their table.

    Attributes:
        remembered_each: How many publishers each group may remember for certain: the more groups, the fewer.
        forgotten_count: Publishers that groups did not remember until they published again.
    """

    def __init__(self, publishers_max: i64) -> None:
        self._publishers_max = publishers_max
        self.remembered_each = publishers_max
        self.forgotten_count: i64 = 0

    def divide(self, groups_count: i64) -> None:
        share: i64 = _PUBLISHERS_OF_ALL // max(1, groups_count)
        self.remembered_each = min(self._publishers_max, max(_PUBLISHERS_AT_LEAST, share))


class PublisherTable:
    """The turns of publishers; owned by a group whose strategy goes by publisher.

    It remembers the last `remembered_each` publishers and up to as many before them. When the young ones are that many
    they become the old ones, and the old ones are forgotten: no order of use is kept on every message.
    """

    def __init__(self, bounds: PublisherBounds) -> None:
        self._bounds = bounds
        self._young: dict[str, Turn] = {}
        self._old: dict[str, Turn] = {}
        self._last = Turn("")  # that of the last message: publishers send more than one at a time

    def turn(self, clientid: str) -> Turn:
        """The turn of a publisher; a new one if it is not remembered."""
        if self._last.clientid is clientid:
            return self._last
        turn = self._young.get(clientid)
        if turn is None:
            turn = self._renew(clientid)
        self._last = turn
        return turn

    def _renew(self, clientid: str) -> Turn:
        turn = self._old.pop(clientid, None)
        if turn is None:
            turn = Turn(clientid)
        if len(self._young) >= self._bounds.remembered_each:
            self._bounds.forgotten_count += len(self._old)
            self._old = self._young
            self._young = {}
        self._young[clientid] = turn
        return turn


def digest(name: bytes) -> i64:
    """32 bits that are the same for a name in every run and on every node.

    FNV-1a, four bytes at a time: what a group's choice costs must be less than what asking a member does. The bits are
    mixed at the end, as places go by the upper ones.
    """
    value: i64 = 0x811C9DC5
    at: i64 = 0
    whole: i64 = len(name) & ~3
    while at < whole:
        word = name[at] | name[at + 1] << 8 | name[at + 2] << 16 | name[at + 3] << 24
        value = ((value ^ word) * 0x01000193) & _MASK_32
        at += 4
    while at < len(name):
        value = ((value ^ name[at]) * 0x01000193) & _MASK_32
        at += 1
    value = ((value ^ value >> 16) * 0x045D9F3B) & _MASK_32
    return value ^ value >> 16

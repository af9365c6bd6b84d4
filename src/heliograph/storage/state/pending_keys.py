"""Keys of what waits for its commit, in order: asking costs what came since and what is found, not all that waits."""

from bisect import bisect_left, insort
from collections.abc import Container, Iterator, Sized
from itertools import islice
from typing import Final, Protocol

_NEW_PART: Final = 16  # fewer new keys than this part of all find their places one by one
_GONE_MAX: Final = 64


class _PresentKeys(Container[bytes], Sized, Protocol):
    """What has the keys now."""


class PendingKeys:
    """The keys of a dictionary in order, for a walk while keys are added; owned by the database whose dictionary it is.

    A key that is taken out of the dictionary is left out from then on, without a call.
    """

    def __init__(self, present: _PresentKeys) -> None:
        self._present = present
        self._ordered: list[bytes] = []  # with keys that are gone, as long as these are not more than half
        self._new: list[bytes] = []

    def add(self, key: bytes) -> None:
        """A key has come into the dictionary."""
        self._new.append(key)
        if self._has_too_many():
            self._put_in_order()

    def beginning_with(self, prefix: bytes, lower: bytes) -> Iterator[bytes]:
        """The keys with a prefix, from `lower` on; the dictionary is left alone until the last."""
        self._put_in_order()
        last: bytes | None = None
        for key in islice(self._ordered, bisect_left(self._ordered, lower), None):
            if not key.startswith(prefix):
                return
            if key != last and key in self._present:
                yield key
            last = key

    def _has_too_many(self) -> bool:
        return len(self._ordered) + len(self._new) > 2 * len(self._present) + _GONE_MAX

    def _put_in_order(self) -> None:
        if self._has_too_many():
            self._ordered = sorted({key for key in (*self._ordered, *self._new) if key in self._present})
        elif len(self._new) * _NEW_PART < len(self._ordered):
            for key in self._new:
                insort(self._ordered, key)
        else:
            self._ordered += self._new
            self._ordered.sort()
        self._new = []

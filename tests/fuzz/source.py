"""Decisions from bytes: what a fuzzer changes in its input changes one decision, not all that follow."""

from collections.abc import Sequence
from typing import TypeVar

ChoiceT = TypeVar("ChoiceT")


class Source:
    """The bytes of one input, taken from the front; when none are left every decision is the first one.

    Args:
        data: The input.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __len__(self) -> int:
        return max(0, len(self._data) - self._at)

    def byte(self) -> int:
        """A number from 0 to 255."""
        at = self._at
        self._at = at + 1
        return self._data[at] if at < len(self._data) else 0

    def uint16(self) -> int:
        """A number from 0 to 65,535."""
        return self.byte() << 8 | self.byte()

    def below(self, count: int) -> int:
        """A number below `count`, which is at most 256."""
        return self.byte() % count

    def flag(self) -> bool:
        """Yes or no."""
        return self.byte() & 1 == 1

    def rarely(self) -> bool:
        """Yes, once in sixteen times."""
        return self.byte() & 15 == 15

    def pick(self, choices: Sequence[ChoiceT]) -> ChoiceT:
        """One of at most 256 choices."""
        return choices[self.byte() % len(choices)]

    def take(self, count: int) -> bytes:
        """The next `count` bytes, or what is left."""
        at = self._at
        self._at = at + count
        return self._data[at : at + count]

    def short(self) -> bytes:
        """Up to 15 bytes, as many as a byte before them says."""
        return self.take(self.byte() & 15)

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self))

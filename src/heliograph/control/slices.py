"""Cuts a list, or the work on one, into slices that a turn of the event loop has time for."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from heliograph.rpc.methods import SLICE

RowT = TypeVar("RowT")

_SLICE_S: Final = 0.0001
_SLICE_CHARACTERS: Final = 256 << 10  # names of clients and topics may have 64 KiB each
_TURN_S: Final = 0.0005


def in_slices(rows: Iterable[RowT | None], length: Callable[[RowT], int] = lambda row: 0) -> Iterator[list[RowT]]:
    """Slices of rows; each ends when it is full or has taken long, and may be empty.

    Args:
        rows: Where they come from; None stands for a piece of work that gave no row. What it walks must allow changes
            between any two of them.
        length: How many characters of clients' own a row has.
    """
    taken: list[RowT] = []
    characters, end = 0, time.perf_counter() + _SLICE_S
    for row in rows:
        if row is not None:
            taken.append(row)
            characters += length(row)
        if len(taken) == SLICE or characters >= _SLICE_CHARACTERS or time.perf_counter() >= end:
            yield taken
            taken = []
            characters, end = 0, time.perf_counter() + _SLICE_S
    if taken:
        yield taken


class LoopTurn:
    """The time that work has before others are to have their turn; owned by the coroutine that does it."""

    def __init__(self) -> None:
        self._end = time.perf_counter() + _TURN_S

    async def pause(self) -> None:
        """Let others have their turn, if this one has taken long; called after each piece of the work."""
        if time.perf_counter() >= self._end:
            await asyncio.sleep(0)
            self._end = time.perf_counter() + _TURN_S

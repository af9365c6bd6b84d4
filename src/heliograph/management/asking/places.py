"""Places of which there are few: an owner of some leaves places to others."""

import asyncio
from collections import Counter, deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Places:
    """So many places; owned by what gives them.

    One owner may have as many as there are free places: however many it takes, some are left for others.

    Args:
        count: How many there are.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._taken = 0
        self._taken_by: Counter[Hashable] = Counter()

    @property
    def free(self) -> int:
        """How many nothing has."""
        return self.count - self._taken

    def taken_by(self, owner: Hashable | None) -> int:
        """How many an owner has; 0 for None, which may have all."""
        return 0 if owner is None else self._taken_by[owner]

    def may_take(self, owner: Hashable | None) -> bool:
        """Whether there is one more for an owner."""
        return self.taken_by(owner) < self.free

    @contextmanager
    def taken(self, owner: Hashable | None) -> Iterator[None]:
        """Take one within the block, where `may_take` allows it."""
        self._add(owner)
        try:
            yield
        finally:
            self._remove(owner)

    def _add(self, owner: Hashable | None) -> None:
        self._taken += 1
        if owner is not None:
            self._taken_by[owner] += 1

    def _remove(self, owner: Hashable | None) -> None:
        self._taken -= 1
        if owner is not None:
            self._taken_by[owner] -= 1
            if not self._taken_by[owner]:
                del self._taken_by[owner]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.free} of {self.count} are free)"


class AwaitedPlaces(Places):
    """The same for owners that wait for their share: they take turns, however many each of them wants."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}  # the next owner first

    async def take(self, owner: Hashable) -> None:
        """Take one, which is taken until `give_back`."""
        if owner not in self._waiting and self.may_take(owner):
            self._add(owner)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(owner)
            elif (others := self._waiting.get(owner)) is not None and turn in others:
                others.remove(turn)
                if not others:
                    del self._waiting[owner]
            raise

    def give_back(self, owner: Hashable) -> None:
        """Give one back, and places to those that wait."""
        self._remove(owner)
        while (following := next((one for one in self._waiting if self.may_take(one)), None)) is not None:
            turns = self._waiting.pop(following)
            turn = turns.popleft()
            if turns:
                self._waiting[following] = turns
            if not turn.done():
                self._add(following)
                turn.set_result(None)

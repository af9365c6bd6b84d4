"""Places for answers and requests of which there are few: who has some leaves places to others."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from fastapi import Request

from heliograph.management.web.callers import Caller
from heliograph.management.web.errors import ApiError

_AGAIN: Final = {"retry-after": "5"}


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
        self._taken += 1
        if owner is not None:
            self._taken_by[owner] += 1
        try:
            yield
        finally:
            self._taken -= 1
            if owner is not None:
                self._taken_by[owner] -= 1
                if not self._taken_by[owner]:
                    del self._taken_by[owner]

    def __repr__(self) -> str:
        return f"Places({self.free} of {self.count} are free)"


@contextmanager
def place(request: Request, what: str, count: int) -> Iterator[None]:
    """Take a place for the caller of a request within the block.

    Args:
        what: What the places are for, as `live tails`.
        count: How many there are in this process.

    Raises:
        ApiError: 503, all are taken, or the caller has its share.
    """
    caller: Caller = request.state.caller
    owner = (caller.kind, caller.name)
    places: Places = request.app.state.places.setdefault(what, Places(count))
    if not places.may_take(owner):
        text = f"all {count} {what} are on"
        if places.free:
            text = f"{caller.name} has {places.taken_by(owner)} of {count} {what}, and others need the rest"
        raise ApiError(503, "SERVICE_UNAVAILABLE", f"{text}: end one, or try again", headers=_AGAIN)
    with places.taken(owner):
        yield

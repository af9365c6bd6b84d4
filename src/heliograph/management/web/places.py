"""Places for answers and requests of which there are few: who has some leaves places to others."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fastapi import Request

from heliograph.management.asking.places import Places
from heliograph.management.web.callers import Caller
from heliograph.management.web.errors import ApiError

_AGAIN: Final = {"retry-after": "5"}


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
    owner = caller.owner
    places: Places = request.app.state.places.setdefault(what, Places(count))
    if not places.may_take(owner):
        text = f"all {count} {what} are on"
        if places.free:
            text = f"{caller.name} has {places.taken_by(owner)} of {count} {what}, and others need the rest"
        raise ApiError(503, "SERVICE_UNAVAILABLE", f"{text}: end one, or try again", headers=_AGAIN)
    with places.taken(owner):
        yield

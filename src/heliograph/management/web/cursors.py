"""Cursors of lists that go on behind a row: numbers of that row, which callers give back as they are."""

import base64
import binascii
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from heliograph.management.web.errors import ApiError
from heliograph.rpc.methods import RpcError

_NUMBERS: Final = re.compile(r"[0-9]{1,18}(:[0-9]{1,18})*")


def cursor_of(kind: str, *numbers: int) -> str:
    """The cursor of a list of one kind."""
    return base64.urlsafe_b64encode(":".join([kind, *map(str, numbers)]).encode()).decode()


def read_cursor(cursor: str, kind: str, count: int) -> list[int]:
    """The numbers of a cursor, so many; zeros where there is none.

    Raises:
        ApiError: 400, it is not one of a list of this kind.
    """
    if not cursor:
        return [0] * count
    try:
        found, _, numbers = base64.b64decode(cursor, altchars=b"-_", validate=True).decode("ascii").partition(":")
    except (binascii.Error, ValueError):
        found, numbers = "", ""
    if found != kind or not _NUMBERS.fullmatch(numbers) or numbers.count(":") + 1 != count:
        detail = "it is not one of this list; give the meta.cursor of the page before as it is"
        raise ApiError(400, "INVALID_PARAMETER", f"cursor: {detail}")
    return [int(number) for number in numbers.split(":")]


@contextmanager
def about_cursor(cursor: str) -> Iterator[None]:
    """Answers 400 where a node says that a cursor is not of its own."""
    try:
        yield
    except RpcError as error:
        if cursor and error.code == "bad_arguments":
            raise ApiError(400, "INVALID_PARAMETER", f"cursor: {error.message}") from error
        raise

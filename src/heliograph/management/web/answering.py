"""What a route answers where a node refuses, by the codes that nodes have."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from heliograph.management.web.errors import ApiError
from heliograph.rpc.methods import RpcError

_MISSING: Final = (404, "NOT_FOUND")
_EXISTS: Final = (400, "ALREADY_EXISTS")


@contextmanager
def answering(**by_code: tuple[int, str] | tuple[int, str, str]) -> Iterator[None]:
    """Answer what nodes refuse within the block; `not_found` is 404, unless it is said otherwise.

    Args:
        by_code: Status and code of the API by the code of the node, and a message in the place of that of the node.
    """
    try:
        yield
    except RpcError as error:
        answer = {"not_found": _MISSING, "already_exists": _EXISTS, **by_code}.get(error.code)
        if answer is None:
            raise
        status, code, *message = answer
        details: dict[str, Any] = dict(error.details)
        raise ApiError(status, code, *(message or [error.message]), **details) from error


@contextmanager
def refused_as(code: str, status: int = 400) -> Iterator[None]:
    """Answer all that nodes refuse within the block with one code of the API."""
    try:
        yield
    except RpcError as error:
        raise ApiError(status, code, error.message) from error

"""What a route answers where a node refuses, by the codes that nodes have."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from heliograph.management.web.errors import ApiError
from heliograph.rpc.methods import RpcError

MISSING: Final = (404, "NOT_FOUND")
EXISTS: Final = (400, "ALREADY_EXISTS")
REFUSED: Final = (400, "BAD_REQUEST")


@contextmanager
def answering(others: tuple[int, str] | None = None, **by_code: tuple[int, str]) -> Iterator[None]:
    """Answer what nodes refuse within the block; `not_found` is 404, unless it is said otherwise.

    Args:
        others: Status and code of the API for all other codes; without, they are errors of the node.
        by_code: Status and code of the API by the code of the node.
    """
    try:
        yield
    except RpcError as error:
        answer = {"not_found": MISSING, "already_exists": EXISTS, **by_code}.get(error.code, others)
        if answer is None:
            raise
        details: dict[str, Any] = dict(error.details)
        raise ApiError(*answer, error.message, **details) from error

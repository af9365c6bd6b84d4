"""What databases of a node refuse, as methods answer it: with the code of the error."""

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from heliograph.rpc.methods import RpcError
from heliograph.storage.errors import StorageError

Kept = TypeVar("Kept")


@contextmanager
def answering_storage_errors() -> Iterator[None]:
    """Answer what a database refuses within the block.

    Raises:
        RpcError: It refuses.
    """
    try:
        yield
    except StorageError as error:
        raise RpcError(error.code, str(error)) from error


async def written(change: Awaitable[Kept]) -> Kept:
    """A change, when it is on the disk.

    Raises:
        RpcError: The database does not take it.
    """
    with answering_storage_errors():
        return await change

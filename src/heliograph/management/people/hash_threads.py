"""Hashes of passwords are made in two threads: each takes 19 MiB, and long, but not the interpreter's lock."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

Result = TypeVar("Result")

THREADS: Final = 2
WAITING_MAX: Final = 100


class HashesBusyError(Exception):
    """Too many hashes wait."""


class HashThreads:
    """Makes hashes beside the event loop; owned by `Logins`.

    The pool of the broker needs parts of a node, which take memory that this process does not have.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "hashes")
        self._waiting = 0

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do it in a thread.

        Raises:
            HashesBusyError: Too many wait.
        """
        if self._waiting >= WAITING_MAX:
            raise HashesBusyError
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1

    def stop(self) -> None:
        """End; what waits is given up."""
        self._threads.shutdown(wait=False, cancel_futures=True)

"""Hashes of passwords, made in a few threads beside the event loop, with a queue that has an end."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

Result = TypeVar("Result")

THREADS: Final = 2
WAITING_MAX: Final = 100
WAITING_OF_KNOWN_MAX: Final = 120  # guesses from many addresses fill the queue, and known devices get in all the same


class HashesBusyError(Exception):
    pass


class HashThreads:
    """Makes hashes beside the event loop; owned by `Logins`.

    The pool of the broker needs parts of a node, which take memory that this process does not have.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "hashes")
        self._waiting = 0

    async def run(self, work: Callable[[], Result], is_known: bool = False) -> Result:
        """Do it in a thread.

        Args:
            is_known: Whether it is for a known device.

        Raises:
            HashesBusyError: Too many wait.
        """
        if self._waiting >= (WAITING_OF_KNOWN_MAX if is_known else WAITING_MAX):
            raise HashesBusyError
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1

    def stop(self) -> None:
        """End; what waits is given up."""
        self._threads.shutdown(wait=False, cancel_futures=True)

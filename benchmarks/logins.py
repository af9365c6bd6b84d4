"""Clients that log in with user names and passwords, one CONNECT each."""

import asyncio
import threading
from collections import Counter

from heliograph_bench import packets


class Logins:
    """Clients that log in all at once, and again after each answer, in a thread until it is left.

    Args:
        pause_s: How long each waits after an answer.
        codes: Counts the answers by their reason codes.
    """

    def __init__(self, port: int, clients: int, pause_s: float, codes: Counter[int]) -> None:
        self._port = port
        self._clients = clients
        self._pause_s = pause_s
        self._codes = codes
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._all(),))
        self._is_over = asyncio.Event()

    def __enter__(self) -> "Logins":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()
        self._loop.close()

    async def _all(self) -> None:
        clients = [asyncio.create_task(self._one(number)) for number in range(self._clients)]
        await self._is_over.wait()
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    async def _one(self, number: int) -> None:
        while True:
            self._codes[await log_in(self._port, number)] += 1
            await asyncio.sleep(self._pause_s)


async def log_in(port: int, number: int) -> int:
    """Log in as the user of that number; the reason code of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(packets.connect(f"c-{number}", packets.V5, 0, f"user-{number}", "secret", 0))
        await writer.drain()
        return (await reader.readexactly(4))[3]
    finally:
        writer.close()

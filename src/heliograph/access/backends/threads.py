"""Connections whose library blocks: each has a thread of its own, in which all of its calls are made.

The deadline of a question holds for what asks. The call itself, which nothing waits for then, ends by the timeouts of
the library's socket, or as soon as `BlockingConnector.interrupt` ends that socket. So a pool has as many threads as
connections; one that is still being opened after its time is waited for before another one is tried.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

from heliograph.access.backends.interface import Connector

Client = TypeVar("Client")
Result = TypeVar("Result")


class ConnectionThread:
    """A thread that makes one call after the other; owned by its connection. `pending` calls have not ended."""

    def __init__(self, name: str) -> None:
        self.pending = 0
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._ended = asyncio.Event()
        # A daemon: a library that does not come back must not keep the program from its end.
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def run(self, call: Callable[[], Result]) -> Result:
        """What a call returns or raises; cancelled, it goes on in the thread, and what comes of it is forgotten."""
        answer: asyncio.Future[Result] = self._loop.create_future()

        def work() -> None:
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001  # it is raised where it is waited for
                self._tell(self._on_result, answer, None, error)
            else:
                self._tell(self._on_result, answer, result, None)

        self.pending += 1
        self._calls.put(work)
        return await answer

    def end(self, last: Callable[[], object]) -> None:
        """End the thread, with a last call behind those that there are; what it raises is ignored."""

        def work() -> None:
            with suppress(Exception):
                last()

        self._calls.put(work)
        self._calls.put(None)

    async def ended(self) -> None:
        await self._ended.wait()

    def _on_result(self, answer: "asyncio.Future[object]", result: object, error: BaseException | None) -> None:
        self.pending -= 1
        if answer.done():
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
        self._tell(self._ended.set)

    def _tell(self, callback: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nothing waits
            self._loop.call_soon_threadsafe(callback, *arguments)


class Threaded(Generic[Client]):
    """A connection in its thread; what a pool of a `BlockingConnector` gives to questions."""

    def __init__(self, thread: ConnectionThread, client: Client) -> None:
        self.thread = thread
        self.client = client

    async def run(self, call: Callable[[Client], Result]) -> Result:
        """What a call with the connection returns or raises; it is made in the thread."""
        return await self.thread.run(lambda: call(self.client))


class BlockingConnector(Connector[Threaded[Client]]):
    """Opens connections whose library blocks; subclasses say how. See `Connector` for what else they have."""

    _late: ConnectionThread | None = None

    def connect(self) -> Client:
        """Open a connection, with timeouts of its socket for connecting and for each answer; called in its thread."""
        raise NotImplementedError

    def ping(self, client: Client) -> None:
        """Raise if nothing can be asked on a connection; called in its thread."""

    def disconnect(self, client: Client) -> None:
        """Close a connection; called in its thread."""
        raise NotImplementedError

    def interrupt(self, client: Client) -> None:
        """End the socket of a connection (`shutdown`), so that a call that waits for an answer ends with an error.

        Called in the event loop, while the call is made in the thread.
        """
        raise NotImplementedError

    async def open(self) -> Threaded[Client]:
        if self._late is not None:
            await self._late.ended()
        thread = self._late = ConnectionThread(self.kind)
        made: list[Client] = []
        try:
            await thread.run(lambda: made.append(self.connect()))
        except BaseException:
            thread.end(lambda: self._disconnect(made))
            raise
        self._late = None
        return Threaded(thread, made[0])

    def _disconnect(self, made: list[Client]) -> None:
        for client in made:
            self.disconnect(client)

    async def check(self, client: Threaded[Client]) -> None:
        await client.run(self.ping)

    async def settle(self, client: Threaded[Client]) -> None:
        """Wait until the call has ended that nothing waits for; a lost connection is noticed by the next one."""
        await client.thread.run(lambda: None)

    async def close(self, client: Threaded[Client]) -> None:
        """End the call that is being made, if there is one, and close."""
        if client.thread.pending:
            with suppress(Exception):
                self.interrupt(client.client)
        client.thread.end(lambda: self.disconnect(client.client))
        await client.thread.ended()

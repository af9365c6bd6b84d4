"""Listeners that have left: their clients get a DISCONNECT, some in each turn, and have a while to read it."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from heliograph.broker.faults import CONNECTIONS
from heliograph.channel.context import ChannelContext
from heliograph.mqtt import reason_codes as rc
from heliograph.transport.listener import Listener

# Ending a conversation runs hooks and may publish a will.
_ENDED_AT_ONCE: Final = 16


class LeavingListeners:
    """Ends the connections of listeners that have stopped while the node runs on; owned by the part of the listeners.

    Args:
        context: What the channels of the node share.
        goodbye_s: How long clients have to take their DISCONNECT.
    """

    def __init__(self, context: ChannelContext, goodbye_s: float) -> None:
        self._context = context
        self._goodbye_s = goodbye_s
        self._tasks: dict[asyncio.Task[None], Listener] = {}

    def add(self, listener: Listener) -> None:
        """End the connections that a listener has now; it has been released."""
        name = f"{listener.kind}:{listener.name}"
        numbers = self._context.channels.numbers()  # those that come later are another listener's of that name
        task = asyncio.create_task(self._end(listener, name, numbers), name=f"{name} leaves")
        self._tasks[task] = listener
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))

    def tick(self, uptime_us: int) -> None:
        """Time has passed."""
        for listener in list(self._tasks.values()):
            listener.tick(uptime_us)

    async def stop(self) -> None:
        """Wait until all of them have left."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _end(self, listener: Listener, name: str, numbers: Sequence[int]) -> None:
        channels, ended = self._context.channels, 0
        for number in numbers:
            channel = channels.get(number)
            client = None if channel is None else channel.client_info()
            if channel is None or client is None or client.listener != name:
                continue
            self._context.broker.faults.run(CONNECTIONS, partial(channel.shut_down, rc.ADMINISTRATIVE_ACTION))
            ended += 1
            if ended % _ENDED_AT_ONCE == 0:
                await asyncio.sleep(0)
        await listener.close(self._goodbye_s)

"""Asks the methods of a node in this process, as its control socket does, without a socket."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import msgspec

from heliograph.mqtt import packets as p
from heliograph.node.asked import methods_of
from heliograph.rpc.methods import Method
from support.asking import CALL
from support.live_node import LiveNode
from support.running import MqttClient


class AskedNode(LiveNode):
    """A node in this process that a test asks."""

    def _method(self, name: str) -> Method:
        return next(one for one in methods_of(self.node.parts, "test", 0) if one.name == name)

    async def ask(self, name: str, args: Mapping[str, object] | None = None) -> Any:
        """The answer of a method; of a list, all of its rows."""
        method = self._method(name)
        answered = method.handler(msgspec.convert(args or {}, method.args), CALL)
        if isinstance(answered, Iterator):
            return [row for rows in answered for row in rows]
        if isinstance(answered, AsyncIterator):
            return [row async for rows in answered for row in rows]
        return await answered if inspect.isawaitable(answered) else answered

    async def connect(self, clientid: str) -> MqttClient:
        """A client that is let in; the test closes it."""
        client = MqttClient(*await asyncio.open_connection("127.0.0.1", await self.port()), p.V5)
        client.send_connect(clientid)
        assert (await client.take(p.Connack)).code == 0
        return client

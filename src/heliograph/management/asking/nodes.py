"""The nodes that can be asked, and a few connections to each.

A caller of the API has a share of the requests that are in flight: however many of its own wait, those of others do
not wait behind them. What is vital (who calls, how a node is, alarms, bans) has a connection of its own.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from heliograph.management.asking.places import AwaitedPlaces
from heliograph.rpc.asks import ListQuestion, Question
from heliograph.rpc.async_client import IN_FLIGHT_MAX, AsyncRpcClient
from heliograph.rpc.socket_path import CONTROL_SOCKET

T = TypeVar("T")

ASK_S: Final = 30.0
_CONNECTIONS_MAX: Final = 6
_VITAL_CONNECTIONS_MAX: Final = 1


class _Connections:
    """Connections for one kind of request, opened when they are needed; owned by `NodeConnections`."""

    def __init__(self, path: Path, count: int) -> None:
        self._path = path
        self._open: list[AsyncRpcClient] = []
        self._reserved: dict[AsyncRpcClient, int] = {}
        self._places = AwaitedPlaces(count * IN_FLIGHT_MAX)
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def connection(self, owner: str) -> AsyncGenerator[AsyncRpcClient, None]:
        """One with room for a request, within the block.

        Args:
            owner: Whose request it is: each has its share.

        Raises:
            UnreachableError: The node does not answer.
            RpcError: It takes no further connections.
        """
        await self._places.take(owner)
        try:
            client = self._with_room()
            if client is None:
                async with self._opening:
                    client = self._with_room()
                    if client is None:
                        client = await AsyncRpcClient.connect(self._path, "management")
                        self._open.append(client)
                        self._reserved[client] = 0
            self._reserved[client] += 1
            try:
                yield client
            finally:
                if client in self._reserved:
                    self._reserved[client] -= 1
        finally:
            self._places.give_back(owner)

    def close(self) -> None:
        """Close all."""
        for client in self._open:
            client.close()
        self._open.clear()
        self._reserved.clear()

    def _with_room(self) -> AsyncRpcClient | None:
        for client in [one for one in self._open if one.is_lost]:
            self._open.remove(client)
            del self._reserved[client]
        return next((one for one in self._open if self._reserved[one] + one.given_up < IN_FLIGHT_MAX), None)


class NodeConnections:
    """The connections to one node; owned by `Nodes`."""

    def __init__(self, name: str, data_dir: Path) -> None:
        self.name = name
        self.data_dir = data_dir
        path = data_dir / CONTROL_SOCKET
        self._vital = _Connections(path, _VITAL_CONNECTIONS_MAX)
        self._others = _Connections(path, _CONNECTIONS_MAX)

    def for_(self, question: Question[Any] | ListQuestion[Any]) -> _Connections:
        """Those for a question."""
        return self._vital if question.is_vital else self._others

    def close(self) -> None:
        """Close all."""
        self._vital.close()
        self._others.close()


class Node:
    """One node, as it is asked on behalf of one caller.

    Args:
        connections: The connections to it.
        on_behalf: The caller, for the audit of the node.
        owner: Whose share of the requests in flight it takes; empty for that of this process.
    """

    def __init__(self, connections: NodeConnections, on_behalf: str = "", owner: str = "") -> None:
        self.name = connections.name
        self.data_dir = connections.data_dir
        self._connections = connections
        self._on_behalf = on_behalf
        self._owner = owner

    async def ask(self, question: Question[T], timeout_s: float | None = ASK_S) -> T:
        """Ask for one struct.

        Raises:
            RpcError: It was refused, or failed.
            UnreachableError: The node does not answer.
        """
        async with self._connections.for_(question).connection(self._owner) as client:
            return await client.ask(question, timeout_s, self._on_behalf)

    async def slices(self, question: ListQuestion[T], timeout_s: float | None = ASK_S) -> AsyncGenerator[list[T], None]:
        """Ask for a list: its slices as they come. Close it (`contextlib.aclosing`) where it is left early.

        Raises:
            RpcError: It was refused, or failed.
            UnreachableError: The node does not answer.
        """
        async with (
            self._connections.for_(question).connection(self._owner) as client,
            aclosing(client.slices(question, timeout_s, self._on_behalf)) as answers,
        ):
            async for rows in answers:
                yield rows

    async def rows(self, question: ListQuestion[T], timeout_s: float | None = ASK_S) -> list[T]:
        """Ask for a list, which is known to be short: all of its rows.

        Raises:
            RpcError: It was refused, or failed.
            UnreachableError: The node does not answer.
        """
        return [row async for rows in self.slices(question, timeout_s) for row in rows]

    @contextmanager
    def alone(self) -> Iterator["Node"]:
        """The same node over connections of one's own, for what lasts long; they are closed behind the block."""
        connections = NodeConnections(self.name, self.data_dir)
        try:
            yield Node(connections, self._on_behalf, self._owner)
        finally:
            connections.close()

    def __repr__(self) -> str:
        return f"Node({self.name})"


class Nodes:
    """The nodes that can be asked: for now the one that started this process. Owned by the program."""

    def __init__(self, name: str, data_dir: Path) -> None:
        self._connections = {name: NodeConnections(name, data_dir)}
        self.own_name = name

    def names(self) -> list[str]:
        """The names of all."""
        return list(self._connections)

    def own(self, on_behalf: str = "", owner: str = "") -> Node:
        return Node(self._connections[self.own_name], on_behalf, owner)

    def named(self, name: str, on_behalf: str = "", owner: str = "") -> Node | None:
        """The node of that name; None if there is none."""
        connections = self._connections.get(name)
        return None if connections is None else Node(connections, on_behalf, owner)

    def all(self, on_behalf: str = "", owner: str = "") -> list[Node]:
        return [Node(connections, on_behalf, owner) for connections in self._connections.values()]

    def close(self) -> None:
        """Close all connections."""
        for connections in self._connections.values():
            connections.close()

"""The nodes that can be asked, and a few connections to each."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from heliograph.rpc.asks import ListQuestion, Question
from heliograph.rpc.async_client import IN_FLIGHT_MAX, AsyncRpcClient
from heliograph.rpc.socket_path import CONTROL_SOCKET

T = TypeVar("T")

ASK_S: Final = 30.0
_CONNECTIONS_MAX: Final = 6


class NodeConnections:
    """The connections to one node, opened when they are needed; owned by `Nodes`."""

    def __init__(self, name: str, data_dir: Path) -> None:
        self.name = name
        self.data_dir = data_dir
        self.path = data_dir / CONTROL_SOCKET
        self._open: list[AsyncRpcClient] = []
        self._reserved: dict[AsyncRpcClient, int] = {}
        self._room = asyncio.Semaphore(_CONNECTIONS_MAX * IN_FLIGHT_MAX)
        self._opening = asyncio.Lock()

    async def connection(self) -> AsyncRpcClient:
        """One with room for a request, which is taken until `give_back`.

        Raises:
            UnreachableError: The node does not answer.
            RpcError: It takes no further connections.
        """
        await self._room.acquire()
        try:
            client = self._with_room()
            if client is None:
                async with self._opening:
                    client = self._with_room()
                    if client is None:
                        client = await AsyncRpcClient.connect(self.path, "management")
                        self._open.append(client)
                        self._reserved[client] = 0
            self._reserved[client] += 1
        except BaseException:
            self._room.release()
            raise
        return client

    def give_back(self, client: AsyncRpcClient) -> None:
        """A request has ended."""
        self._room.release()
        if client in self._reserved:
            self._reserved[client] -= 1

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


class Node:
    """One node, as it is asked on behalf of one caller.

    Args:
        connections: The connections to it.
        on_behalf: The caller, for the audit of the node.
    """

    def __init__(self, connections: NodeConnections, on_behalf: str = "") -> None:
        self.name = connections.name
        self.data_dir = connections.data_dir
        self._connections = connections
        self._on_behalf = on_behalf

    async def ask(self, question: Question[T], timeout_s: float | None = ASK_S) -> T:
        """Ask for one struct.

        Raises:
            RpcError: It was refused, or failed.
            UnreachableError: The node does not answer.
        """
        client = await self._connections.connection()
        try:
            return await client.ask(question, timeout_s, self._on_behalf)
        finally:
            self._connections.give_back(client)

    async def slices(self, question: ListQuestion[T], timeout_s: float | None = ASK_S) -> AsyncGenerator[list[T], None]:
        """Ask for a list: its slices as they come. Close it (`contextlib.aclosing`) where it is left early.

        Raises:
            RpcError: It was refused, or failed.
            UnreachableError: The node does not answer.
        """
        client = await self._connections.connection()
        try:
            answers = client.slices(question, timeout_s, self._on_behalf)
            try:
                async for rows in answers:
                    yield rows
            finally:
                await answers.aclose()
        finally:
            self._connections.give_back(client)

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
        connections = NodeConnections(self.name, self._connections.path.parent)
        try:
            yield Node(connections, self._on_behalf)
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

    def own(self, on_behalf: str = "") -> Node:
        return Node(self._connections[self.own_name], on_behalf)

    def named(self, name: str, on_behalf: str = "") -> Node | None:
        """The node of that name; None if there is none."""
        connections = self._connections.get(name)
        return None if connections is None else Node(connections, on_behalf)

    def all(self, on_behalf: str = "") -> list[Node]:
        return [Node(connections, on_behalf) for connections in self._connections.values()]

    def close(self) -> None:
        """Close all connections."""
        for connections in self._connections.values():
            connections.close()

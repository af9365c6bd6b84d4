"""How many requests are in flight on the connections to a node."""

import asyncio
import socket
from pathlib import Path

import msgspec

from heliograph.management.asking.nodes import Nodes
from heliograph.management.asking.places import AwaitedPlaces
from heliograph.rpc.asks import ONE, Ask
from heliograph.rpc.async_client import IN_FLIGHT_MAX
from heliograph.rpc.methods import Call, NoArgs
from heliograph.rpc.server import RpcServer
from heliograph.rpc.socket_path import CONTROL_SOCKET, short_path
from support.waiting import until


class Said(msgspec.Struct):
    text: str


WAIT_LONG = Ask("wait.long", NoArgs, Said, ONE)
SAY_HELLO = Ask("say.hello", NoArgs, Said, ONE)


class SlowToEnd:
    """A method that goes on for a while where its asker gives it up."""

    def __init__(self) -> None:
        self.begun = self.ended = 0
        self.may_end = asyncio.Event()

    async def wait(self, args: NoArgs, call: Call) -> Said:
        """Wait for nothing."""
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            await self.may_end.wait()
            self.ended += 1
        return Said("nothing came")


async def test_a_request_that_was_given_up_has_its_place_until_the_node_has_ended_it(tmp_path: Path) -> None:
    slow = SlowToEnd()
    methods = [WAIT_LONG.by(slow.wait), SAY_HELLO.by(lambda args, call: Said("hello"))]
    server = RpcServer(methods, "node 1.0", "test socket")
    listening = socket.socket(socket.AF_UNIX)
    with short_path(tmp_path / CONTROL_SOCKET) as short:
        listening.bind(str(short))
    await server.start(listening)
    nodes = Nodes("n", tmp_path)
    waiting = [asyncio.create_task(nodes.own().ask(WAIT_LONG())) for _ in range(IN_FLIGHT_MAX)]
    await until(lambda: slow.begun == IN_FLIGHT_MAX)
    for one in waiting:
        one.cancel()
        await asyncio.wait([one])
        assert (await nodes.own().ask(SAY_HELLO())).text == "hello"
    slow.may_end.set()
    await until(lambda: slow.ended == IN_FLIGHT_MAX)
    again = [asyncio.create_task(nodes.own().ask(WAIT_LONG())) for _ in range(2 * IN_FLIGHT_MAX)]
    await until(lambda: slow.begun == 3 * IN_FLIGHT_MAX)
    for one in again:
        one.cancel()
    await asyncio.wait(again)
    nodes.close()
    await server.stop()


async def test_a_caller_leaves_turns_to_others() -> None:
    places = AwaitedPlaces(24)
    waiting = [asyncio.create_task(places.take("viewer")) for _ in range(100)]
    await asyncio.sleep(0)
    assert [one.done() for one in waiting].count(True) <= places.free
    await places.take("administrator")  # at once, before 88 that wait
    others = [asyncio.create_task(places.take(f"caller {number}")) for number in range(11)]
    await asyncio.gather(*others)
    assert not places.free
    last = asyncio.create_task(places.take("last"))
    await asyncio.sleep(0)
    assert not last.done()
    places.give_back("viewer")
    await last  # its turn comes before more of the viewer's
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)
    for number in range(11):
        places.give_back(f"caller {number}")
    assert places.free == places.count - 1 - 1 - places.taken_by("viewer")

"""A server of methods through a real socket: what it answers, and who it cuts off."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from heliograph.rpc import proto_v1 as proto
from heliograph.rpc.connection import Patience
from heliograph.rpc.frames import RpcFrameReader, encoded, raw, to_asker
from heliograph.rpc.methods import SLICE, Action, Args, Call, Method, NarrowingArgs, NoArgs, RpcError
from heliograph.rpc.server import CONNECTIONS_MAX, RpcServer

NOTHING = NoArgs()


class Count(Args, frozen=True):
    upto: int
    password: str = ""
    width: int = 0  # bytes of a row, where it is no number


class Clearing(NarrowingArgs, frozen=True):
    kind: str = ""


class Said(msgspec.Struct):
    text: str


class Kept:
    """An audit that keeps what it is told."""

    def __init__(self) -> None:
        self.actions: list[Action] = []

    def record(self, action: Action) -> None:
        self.actions.append(action)


class World:
    """A server with methods of all kinds, and what they have done."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "s"
        self.audit = Kept()
        self.faults: list[str] = []
        self.begun: list[str] = []
        self.closed: list[str] = []
        self.busy = ""
        self._askers: list[Asker] = []
        self.opened = asyncio.Event()  # what `wait.for` waits for
        self.server = RpcServer(
            self._methods(),
            "node 1.0",
            "test socket",
            self.audit,
            lambda name, error: self.faults.append(f"{name}: {error}"),
            lambda: self.busy,
        )

    def _methods(self) -> list[Method]:
        return [
            Method("say.hello", NoArgs, lambda args, call: Said(f"hello {call.who}"), is_vital=True),
            Method("count.up", Count, self._count),
            Method("count.slowly", Count, self._count_slowly),
            Method("wait.for", NoArgs, self._wait, is_action=True),
            Method("clear.all", Clearing, self._fail),
            Method("fail.ours", NoArgs, self._fail),
            Method("fail.named", NoArgs, self._fail_named),
            Method("act.refused", Count, self._refuse, is_action=True, secrets=frozenset({"password"})),
        ]

    def _count(self, args: Count, call: Call) -> Iterator[Sequence[object]]:
        try:
            for begin in range(0, args.upto, SLICE):
                yield [bytes(args.width)] * SLICE if args.width else list(range(begin, min(begin + SLICE, args.upto)))
        finally:
            self.closed.append("count.up")

    async def _count_slowly(self, args: Count, call: Call) -> AsyncIterator[Sequence[object]]:
        self.begun.append("count.slowly")
        try:
            for number in range(args.upto):
                yield [number]
            await self.opened.wait()
        finally:
            self.closed.append("count.slowly")

    async def _wait(self, args: NoArgs, call: Call) -> Said:
        self.begun.append("wait.for")
        try:
            await self.opened.wait()
        finally:
            self.closed.append("wait.for")
        return Said("it is open")

    def _fail(self, args: NoArgs, call: Call) -> Said:
        raise ValueError("a fault of ours")

    def _fail_named(self, args: NoArgs, call: Call) -> Said:
        raise RpcError("no_file", f"there is no {os.fsdecode(b'file-' + bytes([255]))}")

    def _refuse(self, args: Count, call: Call) -> Said:
        raise RpcError("no_way", "it is refused")

    async def start(self) -> None:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self.path))
        await self.server.start(listening)

    async def stop(self) -> None:
        await self.server.stop()
        for asker in self._askers:
            asker.writer.transport.abort()
            with suppress(OSError):
                await asker.writer.wait_closed()

    async def asker(self, is_greeted: bool = True) -> "Asker":
        asker = Asker(*await asyncio.open_unix_connection(self.path))
        self._askers.append(asker)
        if is_greeted:
            asker.send(proto.Hello([1], "test"))
            assert await asker.frame() == proto.Welcome(1, "node 1.0")
        return asker


class Asker:
    """The other side, which can break the rules."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._frames = RpcFrameReader()

    def send(self, frame: proto.FromAsker) -> None:
        self.writer.write(encoded(frame))

    def ask(self, number: int, method: str, args: object = NOTHING, deadline_ms: int = 0) -> None:
        self.send(proto.Request(number, method, raw(args), deadline_ms))

    async def frame(self) -> proto.ToAsker | None:
        """The next frame; None at the end of the connection."""
        while (data := self._frames.next()) is None:
            if not (received := await asyncio.wait_for(self._reader.read(1 << 16), 20)):
                return None
            self._frames.receive(received)
        return to_asker(data)

    async def failure(self) -> str:
        """The code of the failure that comes next."""
        frame = await self.frame()
        assert isinstance(frame, proto.Failure), frame
        return frame.code

    async def rows(self) -> list[int]:
        found: list[int] = []
        while isinstance(frame := await self.frame(), proto.Slice):
            found += msgspec.msgpack.decode(frame.rows, type=list[int])
        assert isinstance(frame, proto.End), frame
        return found

    async def text(self) -> str:
        frame = await self.frame()
        assert isinstance(frame, proto.Answer), frame
        return msgspec.msgpack.decode(frame.value, type=Said).text


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    await world.start()
    yield world
    await world.stop()


async def test_answers_and_lists_of_one_connection_come_side_by_side(world: World) -> None:
    asker = await world.asker()
    asker.ask(1, "count.up", Count(1000))
    asker.ask(2, "say.hello")
    answers: list[proto.ToAsker] = []
    while not answers or not isinstance(answers[-1], proto.End):
        frame = await asker.frame()
        assert frame is not None
        answers.append(frame)
    rows = [row for one in answers if isinstance(one, proto.Slice) for row in msgspec.msgpack.decode(one.rows)]
    assert rows == list(range(1000))
    assert any(isinstance(one, proto.Answer) for one in answers[:4])  # it has not waited for the list
    assert world.closed == ["count.up"]


async def test_an_asynchronous_list_ends_with_its_asker(world: World) -> None:
    asker = await world.asker()
    asker.ask(1, "count.slowly", Count(2))
    assert isinstance(await asker.frame(), proto.Slice)
    assert isinstance(await asker.frame(), proto.Slice)
    asker.send(proto.Cancel(1))
    assert await asker.failure() == "cancelled"
    assert world.closed == ["count.slowly"]
    world.opened.set()
    asker.ask(2, "count.slowly", Count(3))
    assert await asker.rows() == [0, 1, 2]


async def test_a_fifth_request_in_flight_is_refused_and_the_others_go_on(world: World) -> None:
    asker = await world.asker()
    for number in range(1, 6):
        asker.ask(number, "wait.for")
    refused = await asker.frame()
    assert isinstance(refused, proto.Failure)
    assert (refused.id, refused.code) == (5, "too_many_requests")
    world.opened.set()
    assert [await asker.text() for _ in range(4)] == ["it is open"] * 4
    assert [one.outcome for one in world.audit.actions] == ["too_many_requests", *["done"] * 4]


async def test_a_request_ends_at_its_deadline(world: World) -> None:
    asker = await world.asker()
    asker.ask(1, "wait.for", deadline_ms=20)
    assert await asker.failure() == "deadline_exceeded"
    asker.ask(2, "count.slowly", Count(0), deadline_ms=20)
    assert await asker.failure() == "deadline_exceeded"
    assert world.closed == world.begun  # both, unless a deadline passes before a turn of the loop
    assert [one.outcome for one in world.audit.actions] == ["deadline_exceeded"]


async def test_a_request_that_is_cancelled_at_once_ends_too(world: World) -> None:
    asker = await world.asker()
    for number, method in enumerate(("wait.for", "count.slowly", "count.up"), 1):
        asker.ask(number, method, NoArgs() if method == "wait.for" else Count(10_000_000))
        asker.send(proto.Cancel(number))
    codes = [await asker.failure() for _ in range(3)]
    assert codes == ["cancelled"] * 3


async def test_wrong_requests_are_told_what_is_valid(world: World) -> None:
    asker = await world.asker()
    asker.ask(1, "count.down")
    asker.ask(2, "nothing")
    asker.ask(3, "count.up", {"upto": "many"})
    asker.ask(4, "clear.all", {"filter": "x"})
    asker.ask(5, "act.refused", {"upto": []})
    told = [await asker.frame() for _ in range(5)]
    assert [(one.code, one.message) for one in told if isinstance(one, proto.Failure)] == [
        ("unknown_method", "there is no method 'count.down'; valid are count.up, count.slowly"),
        ("unknown_method", "there is no method 'nothing'; valid are act, clear, count, fail, say, wait"),
        ("bad_arguments", "count.up: Expected `int`, got `str` - at `upto`"),
        ("bad_arguments", "clear.all: Object contains unknown field `filter`"),
        ("bad_arguments", "act.refused: Expected `int`, got `array` - at `upto`"),
    ]
    assert [one.outcome for one in world.audit.actions] == ["bad_arguments"]


async def test_an_argument_of_a_later_release_is_ignored_where_nothing_is_changed_by_it(world: World) -> None:
    asker = await world.asker()
    asker.ask(1, "count.up", {"upto": 1, "later": "x"})
    assert isinstance(await asker.frame(), proto.Slice)
    assert isinstance(await asker.frame(), proto.End)


async def test_the_audit_is_told_of_an_action_that_is_refused_without_its_secret(world: World) -> None:
    asker = await world.asker()
    asker.ask(1, "act.refused", Count(3, "geheim"))
    assert await asker.failure() == "no_way"
    (action,) = world.audit.actions
    assert (action.method, action.outcome, action.message) == ("act.refused", "no_way", "it is refused")
    assert action.args == {"upto": 3, "password": "******"}
    assert "uid" in action.who
    assert action.origin.startswith("test socket, pid ")


async def test_a_fault_of_a_method_is_reported_and_nobody_else_notices(world: World) -> None:
    asker = await world.asker()
    asker.ask(1, "fail.ours")
    assert await asker.failure() == "internal"
    assert world.faults == ["fail.ours: a fault of ours"]
    asker.ask(2, "fail.named")  # a file whose name is no UTF-8
    assert await asker.failure() == "no_file"
    asker.ask(3, "say.hello")
    assert "hello" in await asker.text()


async def test_only_what_is_vital_is_answered_while_the_node_has_too_much_to_do(world: World) -> None:
    asker = await world.asker()
    world.busy = "the event loop is late"
    asker.ask(1, "count.up", Count(3))
    assert await asker.failure() == "overloaded"
    asker.ask(2, "say.hello")
    assert "hello" in await asker.text()


BAD = [
    b"GET / HTTP/1.1\r\n\r\n",
    (1 << 31).to_bytes(4, "big"),
    b"\0\0\0\x01\xc1",
    encoded(proto.End(1)),
    encoded(proto.Hello([1], "again")),
    encoded(proto.Request(0, "say.hello", msgspec.Raw(b"\x80"), 0)),
    encoded(proto.Request(1, "say.hello", msgspec.Raw(b"\x80"), -1)),
    encoded(proto.Request(1, "wait.for", msgspec.Raw(b"\x80"), 0)) * 2,
]


@pytest.mark.parametrize("data", BAD, ids=range(len(BAD)))
async def test_a_connection_that_breaks_the_rules_ends_and_no_other(world: World, data: bytes) -> None:
    other, asker = await world.asker(), await world.asker()
    asker.writer.write(data)
    assert await asker.failure() == "bad_frame"
    while await asker.frame() is not None:
        pass
    other.ask(1, "say.hello")
    assert "hello" in await other.text()


@pytest.mark.parametrize("greeting", [b"", b"\0\0", encoded(proto.Cancel(1)), b"\0\0\x10\x01"])
async def test_who_does_not_say_hello_is_cut(world: World, greeting: bytes) -> None:
    world.server.patience = Patience(hello_s=0.2)
    asker = await world.asker(is_greeted=False)
    asker.writer.write(greeting)
    while await asker.frame() is not None:
        pass
    assert world.server.statistics()["cut"] == 1


async def test_a_half_frame_and_silence_end_a_connection(world: World) -> None:
    world.server.patience = Patience(frame_s=0.2)
    asker = await world.asker()
    asker.writer.write(b"\0\0\1\0half")
    assert await asker.frame() is None
    assert world.server.statistics() == {"connections": 0, "accepted": 1, "cut": 1}


async def test_other_versions_are_told_which_one_is_spoken(world: World) -> None:
    asker = await world.asker(is_greeted=False)
    asker.send(proto.Hello([2, 3], "newer"))
    assert await asker.frame() == proto.Failure(0, "version_mismatch", "node 1.0 speaks version 1; you speak 2, 3")
    assert await asker.frame() is None


async def test_a_peer_that_does_not_read_is_cut_and_its_list_ends(world: World) -> None:
    world.server.patience = Patience(read_s=0.2)
    other, asker = await world.asker(), await world.asker()
    asker.ask(1, "count.up", Count(1_000_000_000, width=1000))
    while world.server.statistics()["cut"] == 0:
        other.ask(1, "say.hello")
        assert "hello" in await other.text()
    assert world.closed == ["count.up"]


async def test_a_peer_that_reads_late_gets_everything(world: World) -> None:
    asker = await world.asker()
    asker.ask(1, "count.up", Count(10_000))
    asker.ask(2, "say.hello")
    await asyncio.sleep(0)
    rows: list[int] = []
    ends = 0
    while ends < 2:
        frame = await asker.frame()
        if isinstance(frame, proto.Slice):
            rows += msgspec.msgpack.decode(frame.rows, type=list[int])
        else:
            ends += 1
    assert rows == list(range(10_000))


async def test_many_frames_at_once_are_all_answered(world: World) -> None:
    asker = await world.asker()
    asker.writer.write(encoded(proto.Cancel(9)) * 10_000)
    asker.ask(1, "say.hello")
    assert "hello" in await asker.text()


async def test_an_idle_connection_makes_room_for_a_new_one(world: World) -> None:
    askers = [await world.asker() for _ in range(CONNECTIONS_MAX)]
    for asker in askers[1:]:
        asker.ask(1, "wait.for")
        asker.ask(2, "say.hello")
        await asker.text()
    newest = await world.asker()
    assert await askers[0].failure() == "idle"
    newest.ask(1, "wait.for")
    newest.ask(2, "say.hello")
    await newest.text()
    refused = await world.asker(is_greeted=False)
    assert await refused.failure() == "too_many_connections"


async def test_the_end_of_a_server_ends_what_is_in_flight(world: World) -> None:
    asker = await world.asker()
    asker.ask(1, "wait.for")
    asker.ask(2, "count.slowly", Count(1))
    assert isinstance(await asker.frame(), proto.Slice)
    await world.server.stop()
    assert [await asker.failure() for _ in range(3)] == ["stopping"] * 3
    assert await asker.frame() is None
    assert world.closed == ["wait.for", "count.slowly"]

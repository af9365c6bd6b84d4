"""What one caller of the reader process can cost it, and what the broker is told of damage."""

import asyncio
import json
import os
import resource
import socket
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from pyarrow import flight

from heliograph.processes.programs import Programs
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.reader import connection_guard
from heliograph.storage.reader.connection_guard import ConnectionGuard
from heliograph.storage.reader.process import ReaderProcess
from heliograph.storage.reader.request import FILTERS_MAX, REQUEST_BYTES_MAX, Request
from storage.messages import MakeMessage
from storage.test_damage import damage_block
from support.databases import store_batch


@pytest.fixture
async def reader(data_dir: Path, database: LocalDatabase, copies: Programs) -> AsyncIterator[ReaderProcess]:
    """A reader process of a database."""
    process = ReaderProcess(data_dir, "127.0.0.1:0", on_damage=hear, programs=copies)
    TOLD.clear()
    HEARD.clear()
    await process.start()
    yield process
    await process.stop()


TOLD: list[dict[str, object]] = []
HEARD = asyncio.Event()


def hear(damage: dict[str, object]) -> None:
    """Take what a reader process says of damage."""
    TOLD.append(damage)
    HEARD.set()


def memory_peak(pid: int | None) -> int:
    """The most that a process has had in memory, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    raise AssertionError("no such process")


def rows(bind: str, **fields: object) -> int:
    ticket = {"database": "messages", "topics": ["#"], "stream": "messages/0/1/1", **fields}
    table = flight.FlightClient(f"grpc://{bind}").do_get(flight.Ticket(json.dumps(ticket).encode())).read_all()
    count: int = table.num_rows
    return count


@pytest.mark.service
@pytest.mark.slow
async def test_a_request_of_any_size_costs_no_memory(reader: ReaderProcess) -> None:
    before = memory_peak(reader.pid)

    def ask() -> None:
        client = flight.FlightClient(f"grpc://{reader.bind}")
        with pytest.raises(flight.FlightError):
            list(client.do_action(flight.Action("info", bytes(300 << 20)), flight.FlightCallOptions(timeout=10)))

    await asyncio.gather(*(asyncio.to_thread(ask) for _ in range(2)))
    assert memory_peak(reader.pid) - before < 400 << 20


@pytest.mark.service
async def test_shards_are_honoured_by_reads_too(
    reader: ReaderProcess, database: LocalDatabase, make_message: MakeMessage
) -> None:
    store_batch(database, [make_message() for _ in range(40)])
    assert rows(reader.bind) == 40
    assert rows(reader.bind, shards=[0, 3]) == 40
    assert rows(reader.bind, shards=[1]) == 0
    assert rows(reader.bind, shards=[2**80]) == 0


def test_requests_and_their_filters_are_bounded() -> None:
    fields = {"database": "messages", "topics": ["a"] * (FILTERS_MAX + 1)}
    with pytest.raises(ValueError, match="has 1001 topic filters; 1000 are allowed"):
        Request(json.dumps(fields).encode()).filters()
    with pytest.raises(ValueError, match="bytes; 4194304 are allowed"):
        Request(b" " * (REQUEST_BYTES_MAX + 1))


def test_a_connection_that_says_nothing_or_too_much_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        guard = ConnectionGuard(listening.getsockname()[1])
        clients = [socket.create_connection(listening.getsockname()) for _ in range(3)]
        accepted = [listening.accept()[0] for _ in clients]
        monkeypatch.setattr(connection_guard, "BURST_BYTES", 100_000)
        monkeypatch.setattr(connection_guard, "BYTES_PER_S", 0)
        clients[1].sendall(bytes(1000))
        clients[2].sendall(bytes(150_000))
        assert len(accepted[2].recv(150_000, socket.MSG_WAITALL)) == 150_000
        guard.look()
        assert guard.closed == 1
        monkeypatch.setattr(connection_guard, "REQUEST_S", 0.0)
        guard.look()
        assert clients[0].recv(1) == b""
        clients[1].setblocking(False)
        with pytest.raises(BlockingIOError):
            clients[1].recv(1)
        for one in (*clients, *accepted):
            one.close()


def test_a_connection_that_sends_little_now_and_then_is_closed_by_its_age(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        guard = ConnectionGuard(listening.getsockname()[1])
        with socket.create_connection(listening.getsockname()) as client, listening.accept()[0] as accepted:
            for _ in range(2):
                client.sendall(bytes(9))
                assert accepted.recv(9, socket.MSG_WAITALL) == bytes(9)
                guard.look()
                assert guard.closed == 0
                now += 14.0
            guard.look()
            assert client.recv(1) == b""


def test_connections_are_bounded_where_no_open_files_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_guard, "BURST_BYTES", 100_000)
    monkeypatch.setattr(connection_guard, "BYTES_PER_S", 0)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as files:
        guard = ConnectionGuard(listening.getsockname()[1])
        client = files.enter_context(socket.create_connection(listening.getsockname()))
        accepted = files.enter_context(listening.accept()[0])
        resource.setrlimit(resource.RLIMIT_NOFILE, (accepted.fileno() + 20, limits[1]))
        try:
            with suppress(OSError):
                while True:
                    files.enter_context(open(os.devnull))
            guard.look()
            for _ in range(2):
                client.sendall(bytes(75_000))
                assert len(accepted.recv(75_000, socket.MSG_WAITALL)) == 75_000
                guard.look()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert client.recv(1) == b""
        assert guard.closed == 1


@pytest.mark.service
@pytest.mark.parametrize("on_damage", ["fail", "skip"])
async def test_the_broker_is_told_of_damage_once(
    reader: ReaderProcess, database: LocalDatabase, make_message: MakeMessage, on_damage: str
) -> None:
    for number in range(3):
        store_batch(database, [make_message(payload=b"%d" % number)])
    damage_block(database, 1)
    for _ in range(3):
        if on_damage == "fail":
            with pytest.raises(flight.FlightError):
                await asyncio.to_thread(rows, reader.bind, on_damage=on_damage)
        else:
            assert await asyncio.to_thread(rows, reader.bind, on_damage=on_damage) == 2
    async with asyncio.timeout(20):
        await HEARD.wait()
    assert [(one["database"], one["stream"]) for one in TOLD] == [("messages", "messages/0/1/1")]

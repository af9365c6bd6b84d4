"""The reader process from outside, over Flight, beside a database that is being written."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyarrow import flight

from heliograph.config.storage import FlightConfig
from heliograph.processes.programs import Programs
from heliograph.storage.columnar import keys
from heliograph.storage.columnar.arrow_rows import PUBLIC_SCHEMA
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.engine import new_batch, open_primary, records
from heliograph.storage.interface import ColumnarOptions, DatabaseOptions
from heliograph.storage.reader.configured import reader_security
from heliograph.storage.reader.process import ReaderProcess, ReaderStartError
from storage.messages import MakeMessage, message_maker
from support.databases import open_database, store_batch

pytestmark = pytest.mark.service

MESSAGES = "messages"


class Client:
    """A Flight client of the reader."""

    def __init__(self, bind: str) -> None:
        self._client = flight.FlightClient(f"grpc://{bind}")

    def act(self, action: str, **fields: object) -> dict[str, Any]:
        (result,) = self._client.do_action(flight.Action(action, json.dumps(fields).encode()))
        answer: dict[str, Any] = json.loads(result.body.to_pybytes())
        return answer

    def streams(self, *topics: str, **fields: object) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.act("get_streams", database=MESSAGES, topics=topics, **fields)["streams"]
        return found

    def read(self, stream: str, *topics: str, position: str = "", **fields: object) -> pa.Table:
        ticket = {"database": MESSAGES, "topics": topics, "stream": stream, "from": position, **fields}
        return self._client.do_get(flight.Ticket(json.dumps(ticket).encode())).read_all()

    def payloads(self, *topics: str) -> list[bytes]:
        found: list[bytes] = []
        for stream in sorted(self.streams(*topics), key=lambda stream: stream["rank"]):
            found += self.read(stream["stream"], *topics).column("payload").to_pylist()
        return found


@pytest.fixture
async def reader(data_dir: Path, copies: Programs) -> AsyncIterator[ReaderProcess]:
    """A reader process of a data directory that does not exist yet."""
    reader = ReaderProcess(data_dir, "127.0.0.1:0", programs=copies)
    await reader.start()
    yield reader
    await reader.stop()


@pytest.fixture
def client(reader: ReaderProcess) -> Client:
    """A client of that process."""
    return Client(reader.bind)


async def test_sees_what_is_stored_at_once(client: Client, database: LocalDatabase, make_message: MakeMessage) -> None:
    message = make_message("weather/EWR/obs", b"one", username="u", qos=2, retain=True, property_bytes=b"\x01\x01")
    store_batch(database, [message])
    (stream,) = client.streams("weather/+/obs")
    assert stream == {
        "stream": "messages/0/1/1",
        "shard": 0,
        "generation": 1,
        "rank": [0, 1],
        "topics": "weather/EWR/obs",
        "sealed": False,
    }
    table = client.read(stream["stream"], "weather/+/obs")
    assert table.schema == PUBLIC_SCHEMA
    (row,) = table.to_pylist()
    assert (row["topic"], row["payload"], row["qos"], row["retain"]) == ("weather/EWR/obs", b"one", 2, True)
    assert (row["clientid"], row["username"], row["guid"]) == ("c1", "u", message.guid)
    assert row["properties"] == [("Payload-Format-Indicator", "1")]
    for number in range(20):
        store_batch(database, [make_message(payload=b"%d" % number)])
        assert client.read(stream["stream"], "#").num_rows == number + 2
    store_batch(database, [make_message("weather/JFK/obs", b"new")])
    assert client.payloads("weather/JFK/obs") == [b"new"]


async def test_a_database_that_does_not_exist_is_named(client: Client, data_dir: Path) -> None:
    assert client.act("info")["databases"] == []
    with pytest.raises(flight.FlightServerError, match="there is no such database; there are: none") as caught:
        client.streams("#")
    assert caught.value.extra_info == b"storage_unknown_database"
    open_database(data_dir, MESSAGES, DatabaseOptions()).close()
    assert client.act("info")["databases"] == [MESSAGES]
    assert client.streams("#") == []


async def test_reads_lie_between_positions_and_times(
    client: Client, database: LocalDatabase, make_message: MakeMessage
) -> None:
    for number in range(10):
        store_batch(database, [make_message(payload=b"%d%s" % (number, part)) for part in (b"a", b"b")])
    (stream,) = [stream["stream"] for stream in client.streams("#")]
    everything = client.read(stream, "#")
    times = everything.column("stored_at").cast(pa.int64()).to_pylist()
    assert times == sorted(times)
    plan = client.act("plan", database=MESSAGES, topics=["#"], max_messages=7)
    step = plan["streams"][stream]
    assert (step["messages"], plan["remaining"]) == (6, {"messages": 14})
    assert step["bytes"] == 6 * len("weather/EWR/obs0a")
    first = client.read(stream, "#", to=step["position"], columns=["payload", "topic"])
    rest = client.read(stream, "#", position=step["position"])
    assert first.schema.names == ["topic", "payload"]
    assert pa.concat_tables([first, rest.select(["topic", "payload"])]) == everything.select(["topic", "payload"])
    between = client.read(stream, "#", start=times[4], end=times[8])
    assert between.column("payload").to_pylist() == [b"2a", b"2b", b"3a", b"3b"]
    assert client.read(stream, "#", position=step["position"], to=step["position"]).num_rows == 0
    again = client.act("plan", database=MESSAGES, topics=["#"], positions={stream: step["position"]})
    assert again["streams"][stream]["messages"] == 14
    end = again["streams"][stream]["position"]
    nothing = client.act("plan", database=MESSAGES, topics=["#"], positions={stream: end})
    assert nothing == {"streams": {stream: {"position": end, "messages": 0, "bytes": 0}}, "remaining": {"messages": 0}}


async def test_filters_choose_rows_within_a_stream(client: Client, data_dir: Path) -> None:
    make = message_maker()
    options = DatabaseOptions(layout=ColumnarOptions(wildcard_thresholds=(100, 2)))
    database = open_database(data_dir, MESSAGES, options)
    for _ in range(3):
        store_batch(database, [make(f"fleet/{n}/pos", b"%d" % n, clientid=f"c{n}") for n in range(50)])
    assert [stream["topics"] for stream in client.streams("fleet/#")] == ["fleet/0/pos", "fleet/1/pos", "fleet/+/pos"]
    assert client.payloads("fleet/33/pos") == [b"33"] * 3
    assert (
        sorted(client.payloads("fleet/33/pos", "fleet/0/pos", "fleet/12/+")) == [b"0"] * 3 + [b"12"] * 3 + [b"33"] * 3
    )
    assert len(client.payloads("#")) == 150
    assert client.payloads("fleet/99/pos") == []
    info = client.act("info", database=MESSAGES)
    assert (info["messages"], info["streams"], info["shards"]) == (150, 3, 1)
    assert info["stored_at"] == database.statistics()["last_commit_us"]
    database.close()


async def test_a_new_generation_seals_the_old_streams(
    client: Client, database: LocalDatabase, make_message: MakeMessage
) -> None:
    store_batch(database, [make_message(payload=b"1")])
    assert [stream["sealed"] for stream in client.streams("#")] == [False]
    database.add_generation()
    store_batch(database, [make_message("new/topic", payload=b"2")])
    store_batch(database, [make_message(payload=b"3")])
    assert [(stream["rank"], stream["sealed"]) for stream in client.streams("#")] == [
        ([0, 1], True),
        ([0, 2], False),
        ([0, 2], False),
    ]
    assert client.payloads("#") == [b"1", b"2", b"3"]


WRONG_REQUESTS: Final[list[tuple[str, dict[str, object], str]]] = [
    ("plan", {"database": MESSAGES, "topics": ["a/#/b"]}, "'#' must stand alone and last"),
    ("plan", {"database": MESSAGES, "topics": []}, "a list of topic filters is expected"),
    ("plan", {"topics": ["#"]}, "the field 'database' is None; a text is expected"),
    ("plan", {"database": MESSAGES, "topics": ["#"], "max_messages": -1}, "a whole number from 0 up"),
    ("plan", {"database": MESSAGES, "topics": ["#"], "positions": {"x": ""}}, "'x' is not a stream id"),
    ("get_streams", {"database": MESSAGES, "topics": ["#"], "start": "now"}, "the field 'start' is 'now'"),
    ("drop", {}, "there is no action 'drop'; there are: get_streams, plan, plan_newest, split, offloaded, info"),
]


async def test_wrong_requests_are_answered_in_words(client: Client, database: LocalDatabase) -> None:
    for action, fields, sentence in WRONG_REQUESTS:
        with pytest.raises(flight.FlightServerError) as refused:
            client.act(action, **fields)
        assert sentence in str(refused.value), (action, fields)


async def test_wrong_reads_are_answered_in_words(
    client: Client, database: LocalDatabase, make_message: MakeMessage
) -> None:
    store_batch(database, [make_message()])
    (stream,) = [stream["stream"] for stream in client.streams("#")]
    with pytest.raises(flight.FlightServerError, match="there is no stream 'messages/0/1/9'"):
        client.read("messages/0/1/9", "#")
    with pytest.raises(flight.FlightServerError, match="'yesterday' is not a position"):
        client.read(stream, "#", position="yesterday")
    with pytest.raises(flight.FlightServerError, match="there is no column 'temp'; there are: topic, payload"):
        client.read(stream, "#", columns=["temp"])


async def test_a_damaged_block_is_named_and_others_are_served(
    client: Client, database: LocalDatabase, make_message: MakeMessage
) -> None:
    store_batch(database, [make_message("a", b"good")])
    store_batch(database, [make_message("b", b"bad")])
    database.close()
    rocks = open_primary(database.path, "zstd")
    key, value = next(records(rocks, keys.block_prefix(0, 1, 2), keys.block_prefix(0, 1, 3)))
    batch = new_batch()
    batch.put(key, value[:-4] + b"\x07" + value[-3:])
    rocks.write(batch)
    rocks.close()
    time, _ = keys.time_and_sequence(key)
    with pytest.raises(flight.FlightServerError, match=rf"(?s)checksum.*stored at {time} .*shard 0, stream") as caught:
        client.read("messages/0/1/2", "#")
    assert caught.value.extra_info == b"storage_damaged"
    assert client.read("messages/0/1/1", "#").column("payload").to_pylist() == [b"good"]


@pytest.mark.slow
async def test_reading_while_writing_sees_a_growing_prefix(
    client: Client, database: LocalDatabase, make_message: MakeMessage
) -> None:
    """Enough is written meanwhile that RocksDB begins new logs and writes tables behind the reader's back."""
    database.write([make_message("t", b"%9d" % 0)])
    (stream,) = [stream["stream"] for stream in client.streams("#")]
    position, seen, written = "", 0, 1
    for _ in range(60):
        for _ in range(4):
            database.write([make_message("t", b"%9d" % (written + n) + os.urandom(900)) for n in range(300)])
            written += 300
        plan = await asyncio.to_thread(
            client.act, "plan", database=MESSAGES, topics=["#"], positions={stream: position}
        )
        step = plan["streams"][stream]
        table = await asyncio.to_thread(client.read, stream, "#", position=position, to=step["position"])
        numbers = [int(payload[:9]) for payload in table.column("payload").to_pylist()]
        assert numbers == list(range(seen, seen + step["messages"]))
        seen += len(numbers)
        assert seen == written
        position = step["position"]


@pytest.mark.slow
async def test_is_started_again_when_it_dies(data_dir: Path, database: LocalDatabase) -> None:
    restarted = asyncio.Event()
    reader = ReaderProcess(data_dir, "127.0.0.1:0", restarted.set)
    await reader.start()
    bind, pid = reader.bind, reader.pid
    assert pid is not None
    assert os.getpgid(pid) != os.getpgid(0), "Ctrl-C goes to all processes of a group"
    os.kill(pid, signal.SIGKILL)
    await restarted.wait()
    assert reader.bind == bind
    assert reader.pid not in (None, pid)
    assert reader.statistics() == {"running": 1, "restarts": 1}
    assert Client(bind).act("info")["databases"] == [MESSAGES]
    left = [entry.name for entry in (data_dir / "storage" / ".readers").iterdir()]
    assert left == [str(reader.pid)], "what the dead one left behind is gone"
    await reader.stop()
    assert reader.pid is None


async def test_an_address_in_use_is_named(reader: ReaderProcess, data_dir: Path, copies: Programs) -> None:
    second = ReaderProcess(data_dir, reader.bind, programs=copies)
    with pytest.raises(ReaderStartError, match=rf"cannot listen on {reader.bind}: another program") as caught:
        await second.start()
    assert "durable_storage.flight.bind" in str(caught.value)
    assert "database" not in str(caught.value)
    await second.stop()


async def test_the_example_of_the_documentation(
    data_dir: Path,
    database: LocalDatabase,
    make_message: MakeMessage,
    copies: Programs,
    capsys: pytest.CaptureFixture[str],
) -> None:
    security = partial(reader_security, FlightConfig(), data_dir)
    reader = ReaderProcess(data_dir, "127.0.0.1:0", security=security, programs=copies)
    await reader.start()
    store_batch(database, [make_message("weather/EWR/obs", b"{}"), make_message("elsewhere", b"{}")])
    page = (Path(__file__).parents[2] / "docs" / "storage.md").read_text(encoding="utf-8")
    example = page.split("```python\n")[1].split("```")[0]
    assert "grpc://127.0.0.1:8815" in example
    code = example.replace("127.0.0.1:8815", reader.bind).replace("data/flight_token", f"{data_dir}/flight_token")
    await asyncio.to_thread(exec, code, {})
    await reader.stop()
    assert "weather/EWR/obs" in (printed := capsys.readouterr().out)
    assert "elsewhere" not in printed


def start_by_hand(data_dir: Path, *options: str, **others: Any) -> "subprocess.Popen[str]":
    program = [sys.executable, "-m", "heliograph.storage.reader", "--data-dir", str(data_dir), *options]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True, **others)


@pytest.mark.parametrize("stop", [subprocess.Popen.terminate, lambda process: process.stdin.close()])
def test_ends_when_it_is_told_to(data_dir: Path, stop: Callable[[Any], None]) -> None:
    with start_by_hand(data_dir, "--bind", "127.0.0.1:0", "--watch-stdin", stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready 127.0.0.1:")
        process.send_signal(signal.SIGINT)  # Ctrl-C is for the parent
        stop(process)
        assert process.wait(20) == 0


def test_says_why_it_cannot_start(data_dir: Path) -> None:
    with start_by_hand(data_dir, "--bind", "8815") as process:
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 1
    assert out == "failed cannot listen on 8815: '8815' is not HOST:PORT; for example 127.0.0.1:8815\n"


async def test_a_dropped_generation_is_told_apart_from_one_that_never_was(
    client: Client, database: LocalDatabase, make_message: MakeMessage
) -> None:
    store_batch(database, [make_message(payload=b"1"), make_message(payload=b"2")])
    (stream,) = [stream["stream"] for stream in client.streams("#")]
    database.add_generation()
    store_batch(database, [make_message(payload=b"3")])
    end = client.act("plan", database=MESSAGES, topics=["#"])["streams"][stream]["position"]
    database.drop_generation(1)
    assert [stream["stream"] for stream in client.streams("#")] == ["messages/0/2/1"]
    for position, lost in (("", 2), (end, 0)):
        plan = client.act("plan", database=MESSAGES, topics=["#"], positions={stream: position})
        assert list(plan["streams"]) == ["messages/0/2/1"]
        assert plan["dropped"] == {stream: {"messages": lost}}
    with pytest.raises(flight.FlightServerError, match="generation 1 was dropped") as caught:
        client.read(stream, "#")
    assert caught.value.extra_info == b"storage_generation_dropped"
    assert client.act("info", database=MESSAGES)["messages"] == 1

"""What storage costs on its own: ingest through group commit, bytes on disk, bulk reading over Flight.

Run with no arguments for the canonical figures. The publishers are simulated in the event loop: each keeps a window of
messages on its way and sends on when they are acknowledged, as MQTT clients at QoS 1 do; there is no network and no
MQTT in it. With `--one-core` this process and all its threads stay on one core; the reader and its client do not.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop
from pyarrow import flight

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.findings import checked

from heliograph.storage.columnar.node_databases import NodeDatabases
from heliograph.storage.errors import StorageError
from heliograph.storage.group_commit import GroupCommit
from heliograph.storage.interface import DatabaseOptions
from heliograph.storage.reader.process import ReaderProcess

PUBLISHERS = 20


class Published:
    """A message as storage sees it; a plain class, like the broker's."""

    __slots__ = ("clientid", "id_high", "id_low", "payload", "property_bytes", "qos", "retain", "topic", "username")

    def __init__(self, number: int, topic: str, payload: bytes, clientid: str) -> None:
        self.id_high = 1_700_000_000_000_000 + number * 7
        self.id_low = number
        self.topic = topic
        self.payload = payload
        self.qos = 1
        self.retain = False
        self.clientid = clientid
        self.username: str | None = None
        self.property_bytes = b""


@dataclass
class Ingest:
    """The figures of one run."""

    name: str
    messages: int
    seconds: float
    cpu_s: float
    loop_cpu_s: float
    commits: int
    commit_s: list[float]
    disk_bytes: int
    message_bytes: int

    def row(self) -> str:
        """One line of the table."""
        commit_ms = sorted(1000 * one for one in self.commit_s)
        p50, p99 = statistics.median(commit_ms), commit_ms[int(0.99 * (len(commit_ms) - 1))]
        return (
            f"{self.name:34} {self.messages / self.seconds:>9,.0f} {1e6 * self.loop_cpu_s / self.messages:>8.2f} "
            f"{1e6 * self.cpu_s / self.messages:>8.2f} {self.messages / self.commits:>8.0f} {p50:>8.2f} {p99:>8.2f} "
            f"{self.disk_bytes / self.message_bytes:>9.2f}"
        )


_STORED_PER_S_MIN: Final = 150_000  # in each of the runs

HEADER = (
    f"{'ingest':34} {'msg/s':>9} {'loop µs':>8} {'all µs':>8} {'a commit':>8} "
    f"{'p50 ms':>8} {'p99 ms':>8} {'disk B/B':>9}"
)


def random_payloads(count: int, size: int = 64) -> list[Published]:
    """Messages that nothing compresses: `PUBLISHERS` clients with a topic each."""
    return [
        Published(number, f"bench/{number % PUBLISHERS}", os.urandom(size), f"bench-{number % PUBLISHERS}")
        for number in range(count)
    ]


def telemetry(count: int, devices: int) -> list[Published]:
    """JSON telemetry of 100 to 200 bytes: slowly moving values with noise."""
    numbers = random.Random(1)
    state = [(numbers.uniform(10, 30), numbers.uniform(30, 90), numbers.uniform(980, 1030)) for _ in range(devices)]
    messages = []
    for number in range(count):
        device = number % devices if devices <= PUBLISHERS else numbers.randrange(devices)
        temperature, humidity, pressure = state[device]
        state[device] = (
            temperature + numbers.gauss(0, 0.1),
            humidity + numbers.gauss(0, 0.3),
            pressure + numbers.gauss(0, 0.05),
        )
        payload = json.dumps(
            {
                "device": f"sensor-{device:05d}",
                "ts": 1_700_000_000_000 + number * 13,
                "temperature": round(temperature, 2),
                "humidity": round(humidity, 2),
                "pressure": round(pressure, 2),
                "battery": numbers.randint(3300, 4200),
                "rssi": numbers.randint(-110, -40),
            }
        )
        topic = f"factory/hall-{device % 7}/sensor-{device:05d}/telemetry"
        messages.append(Published(number, topic, payload.encode(), f"sensor-{device:05d}"))
    return messages


async def ingest(name: str, data_dir: Path, messages: Sequence[Published], window: int, fsync: bool) -> Ingest:
    """Store messages as fast as `window` messages on their way of all publishers together allow."""
    database = NodeDatabases(data_dir).database("messages", DatabaseOptions())
    database.open()
    loop = asyncio.get_running_loop()
    finished = loop.create_future()
    on_the_way: dict[int, int] = {}
    sent = acknowledged = 0
    commit_s: list[float] = []

    def fill() -> None:
        nonlocal sent
        while sent < len(messages) and sent - acknowledged < window:
            ticket = commit.append(messages[sent])
            on_the_way[ticket] = on_the_way.get(ticket, 0) + 1
            sent += 1

    def committed(ticket: int, error: StorageError | None) -> None:
        nonlocal acknowledged
        if error is not None:
            raise error
        acknowledged += on_the_way.pop(ticket)
        commit_s.append(commit.statistics()["last_commit_s"])
        if acknowledged == len(messages):
            finished.set_result(None)
        else:
            loop.call_soon(fill)

    commit = GroupCommit(database, committed, fsync=fsync)
    began, cpu, loop_cpu = time.perf_counter(), time.process_time(), time.thread_time()
    fill()
    await finished
    seconds = time.perf_counter() - began
    cpu, loop_cpu = time.process_time() - cpu, time.thread_time() - loop_cpu
    commits = int(commit.statistics()["commits"]) + 1
    await commit.close()
    database.close()
    disk = sum(file.stat().st_blocks * 512 for file in database.path.iterdir())
    message_bytes = sum(len(message.topic) + len(message.payload) for message in messages)
    return Ingest(name, len(messages), seconds, cpu, loop_cpu, commits, commit_s, disk, message_bytes)


async def read_rates(data_dir: Path, topic_filter: str, rounds: int = 3) -> list[str]:
    """Read everything over Flight, with one client and with two side by side."""
    reader = ReaderProcess(data_dir, "127.0.0.1:0")
    await reader.start()
    lines = []
    for clients in (1, 2):
        best = 0.0
        for _ in range(rounds):
            began = time.perf_counter()
            rows, size = await asyncio.to_thread(read_everything, reader.bind, topic_filter, clients)
            best = max(best, rows / (time.perf_counter() - began))
        lines.append(
            f"{clients} client(s): {best / 1e6:.2f} million rows/s, best of {rounds} "
            f"({rows:,} rows of {size / rows:.0f} bytes)"
        )
    await reader.stop()
    return lines


def read_everything(bind: str, topic_filter: str, clients: int) -> tuple[int, int]:
    """Rows and bytes of all streams of a filter."""
    request = {"database": "messages", "topics": [topic_filter]}

    def read(stream: str) -> tuple[int, int]:
        rows = size = 0
        ticket = flight.Ticket(json.dumps({**request, "stream": stream, "from": ""}).encode())
        for chunk in flight.FlightClient(f"grpc://{bind}").do_get(ticket):
            rows += chunk.data.num_rows
            size += chunk.data.nbytes
        return rows, size

    action = flight.Action("get_streams", json.dumps(request).encode())
    (answer,) = flight.FlightClient(f"grpc://{bind}").do_action(action)
    streams = [stream["stream"] for stream in json.loads(answer.body.to_pybytes())["streams"]]
    with ThreadPoolExecutor(clients) as pool:
        parts = list(pool.map(read, reversed(streams)))
    return sum(rows for rows, _ in parts), sum(size for _, size in parts)


def main() -> int:
    """Run the canonical figures and print them; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="messages of each ingest run")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="where to store")
    parser.add_argument("--one-core", action="store_true", help="keep ingest on one core")
    parser.add_argument("--check", action="store_true", help="exit 1 if a limit is broken")
    options = parser.parse_args()
    missed: list[str] = []
    count = options.messages
    cores = os.sched_getaffinity(0)
    data_dir = Path(tempfile.mkdtemp(prefix="storage-ingest-", dir=options.dir))

    def run(name: str, messages: Sequence[Published], window: int, fsync: bool = True) -> None:
        shutil.rmtree(data_dir, ignore_errors=True)
        os.sched_setaffinity(0, {min(cores)} if options.one_core else cores)
        found = uvloop.run(ingest(name, data_dir, messages, window, fsync))
        print(found.row(), flush=True)
        if found.messages / found.seconds < _STORED_PER_S_MIN:
            missed.append(f"{name}: at least {_STORED_PER_S_MIN:,} messages/s")
        os.sched_setaffinity(0, cores)

    try:
        print(HEADER)
        run("telemetry, 100 rows per block", telemetry(count // 2, 20), 20 * 200)
        run("telemetry, 10,000 devices", telemetry(count // 2, 10_000), 20 * 200)
        run("64 B, window 256", random_payloads(count), 20 * 256)
        run("64 B, window 32, no fsync", random_payloads(count), 20 * 32, fsync=False)
        run("64 B, window 32", random_payloads(count), 20 * 32)
        print("\nreading the last run over Flight")
        for line in uvloop.run(read_rates(data_dir, "bench/+")):
            print(line)
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)
    return checked(options.check, missed)


if __name__ == "__main__":
    sys.exit(main())

"""How long storage's own work keeps the event loop: the longest turn while generations come and go and a reader reads.

One event loop stores telemetry without a pause for breath, and a probe in it notes the time from each of its turns to
the next, on the wall clock and in processor time of the loop's thread. The second is what storage itself does in a
turn; the first also has what the machine does with this thread meanwhile: on a busy machine only the second says
something about the program. Each phase is one line.

Run from the root, `python -m benchmarks.storage_turns`, for the canonical figures: 20,000 streams in a generation of
200,000 messages.
"""

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop
from benchmarks.storage_ingest import Published

from heliograph.storage.columnar.compaction import CompactionOptions, Compactor
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.node_databases import NodeDatabases
from heliograph.storage.columnar.retention import GenerationRetention, RetentionOptions
from heliograph.storage.errors import StorageError
from heliograph.storage.group_commit import GroupCommit
from heliograph.storage.interface import ColumnarOptions, DatabaseOptions

_PROBE_S = 0.001
_BACKGROUND_S = 3.0
_KEPT_US = 7 * 86_400_000_000
_NAMES_OF_A_LEVEL = 100
_SWITCH_INTERVAL_S = 0.0005
_HELIOGRAPH = "import sys; from heliograph.cli.main import main; sys.exit(main())"


class Probe:
    """Notes the longest time between two turns of the loop that it runs in, less its own pause."""

    def __init__(self) -> None:
        self.longest_wall_s = 0.0
        self.longest_cpu_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._wall = self._cpu = 0.0

    def start(self) -> None:
        """Begin."""
        self._wall, self._cpu = time.perf_counter(), time.thread_time()
        self._timer = asyncio.get_running_loop().call_later(_PROBE_S, self._turn)

    def stop(self) -> None:
        """End, with the turn that is under way."""
        self._note()
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self) -> None:
        self._note()
        self.start()

    def _note(self) -> None:
        self.longest_wall_s = max(self.longest_wall_s, time.perf_counter() - self._wall - _PROBE_S)
        self.longest_cpu_s = max(self.longest_cpu_s, time.thread_time() - self._cpu)


class Feed:
    """Stores messages of many devices, a few in each commit, until it is stopped."""

    def __init__(self, database: LocalDatabase, streams: int) -> None:
        self._commit = GroupCommit(database, self._committed)
        self._streams = streams
        self._number = 0
        self._is_on = False
        self.stored = 0

    def start(self) -> None:
        """Begin."""
        self._is_on = True
        self._send()

    async def stop(self) -> None:
        """End, with everything stored."""
        self._is_on = False
        await self._commit.close()

    def _send(self) -> None:
        for _ in range(20):
            self._number += 1
            self._commit.append(device_message(self._number, self._streams))

    def _committed(self, ticket: int, error: StorageError | None) -> None:
        if error is not None:
            raise error
        self.stored += 20
        if self._is_on:
            self._send()


def device_message(number: int, streams: int) -> Published:
    """A message on one of so many topics that each have a stream of their own."""
    device = number * 7919 % streams
    first, second = divmod(device, _NAMES_OF_A_LEVEL)
    topic = f"site-{first // _NAMES_OF_A_LEVEL}/hall-{first % _NAMES_OF_A_LEVEL}/device-{second}"
    payload = b'{"device":"%05d","n":%d,"temperature":21.5,"humidity":44.1}' % (device, number)
    return Published(number, topic, payload, f"device-{device}")


def fill(database: LocalDatabase, messages: int, streams: int, batch: int = 500) -> None:
    """Store messages without an event loop."""
    for begin in range(1, messages, batch):
        database.write([device_message(number, streams) for number in range(begin, begin + batch)])


@asynccontextmanager
async def phase(name: str) -> AsyncIterator[None]:
    """Measure what is done inside, and print it."""
    gc.collect()
    probe = Probe()
    probe.start()
    await asyncio.sleep(0.01)
    began = time.perf_counter()
    yield
    seconds = time.perf_counter() - began
    probe.stop()
    print(
        f"{name:56} {seconds:>8.2f} {1000 * probe.longest_wall_s:>10.1f} {1000 * probe.longest_cpu_s:>10.1f}",
        flush=True,
    )


async def while_reading(data_dir: Path, action: Callable[[], Awaitable[None]]) -> None:
    """Do something while another process reads everything that is stored."""
    command = ("-c", _HELIOGRAPH, "storage", "check", "messages", "--data-dir", str(data_dir))
    reader = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.DEVNULL)
    await action()
    await reader.wait()


async def until_freed(database: LocalDatabase) -> None:
    """Wait until the files of what was dropped are gone."""
    while database.usage().is_freeing:  # noqa: ASYNC110 - its thread tells nobody
        await asyncio.sleep(0.01)


async def measure(data_dir: Path, messages: int, streams: int) -> None:
    """Go through the phases."""
    options = DatabaseOptions(layout=ColumnarOptions(wildcard_thresholds=(_NAMES_OF_A_LEVEL,)))
    backend = NodeDatabases(data_dir)
    async with phase("opening, new"):
        database = backend.database("messages", options)
        database.open()
    fill(database, messages, streams)
    database.close()
    async with phase(f"opening, {streams:,} streams"):
        database = backend.database("messages", options)
        database.open()
    feed = Feed(database, streams)
    retention = GenerationRetention(database, RetentionOptions(retention_us=_KEPT_US, generation_interval_us=1))

    async def rest() -> None:
        await asyncio.sleep(_BACKGROUND_S)

    feed.start()
    async with phase("storing"):
        await rest()
    async with phase("storing, another process reads everything"):
        await while_reading(data_dir, rest)
    compactor = Compactor(database, CompactionOptions(min_age_us=0, rest_s=0.0, pause_s=0.01, min_blocks=2))
    compactor.start()
    async with phase("storing, compaction"):
        await rest()
    async with phase("storing, compaction, another process reads everything"):
        await while_reading(data_dir, rest)
    now = time.time_ns() // 1000
    async with phase("storing, compaction, a generation is begun"):
        retention.enforce(now)
        await asyncio.sleep(0)
    async with phase("storing, compaction, after that"):
        await rest()
    async with phase("storing, compaction, that generation is dropped"):
        GenerationRetention(database, RetentionOptions(retention_us=1)).enforce(now + _KEPT_US)
        await asyncio.sleep(0)
    async with phase("storing, compaction, and freed, a reader reads"):
        await while_reading(data_dir, lambda: until_freed(database))
    compactor.stop()
    await feed.stop()
    database.close()
    print(f"{feed.stored:,} messages stored meanwhile; {compactor.statistics()}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000, help="in the generation that is dropped")
    parser.add_argument("--streams", type=int, default=20_000, help="in each generation")
    arguments = parser.parse_args()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    print(f"{'':56} {'s':>8} {'wall ms':>10} {'CPU ms':>10}   longest turn of the event loop")
    with tempfile.TemporaryDirectory(dir=".") as scratch:
        uvloop.run(measure(Path(scratch), arguments.messages, arguments.streams))


if __name__ == "__main__":
    main()

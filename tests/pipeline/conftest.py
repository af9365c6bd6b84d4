"""Spark, a storage with its reader process, and mosquitto, each started for real."""

import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from heliograph.actions.handover import HandedRows, rows_of
from heliograph.node.row_handover import RowHandover
from heliograph.storage.columnar.compaction import CompactionOptions, Compactor
from heliograph.storage.engine import records
from heliograph.storage.erasure.messages import erase_messages
from heliograph.storage.erasure.subject import ErasureSubject
from storage.offloading import offload
from support.databases import open_database, store_batch
from support.mosquitto import free_port
from support.mosquitto import mosquitto as running_mosquitto
from support.python_copies import python

_BEGIN_US = 1_767_225_600_000_000
_WAIT_S = 60.0


@dataclass
class TestMessage:
    """What storage reads of a message."""

    __test__ = False

    id_high: int
    id_low: int
    topic: str
    payload: bytes
    clientid: str = "station"
    qos: int = 1
    retain: bool = False
    username: str | None = None
    property_bytes: bytes = b""

    @property
    def received_at(self) -> int:
        return self.id_high


class Stored:
    """A message database that a test stores into, and the reader process that serves it."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._count = self._tickets = 0
        self._handover: RowHandover | None = None
        self._send: Callable[[bytes], bool] = lambda data: False
        self._database = open_database(data_dir)
        self._reader: subprocess.Popen[str] | None = None
        self.endpoint = ""
        try:
            self.start_reader("127.0.0.1:0")
        except BaseException:
            self.close()
            raise

    def put(self, topic: str, payloads: Sequence[bytes], clientid: str = "station") -> None:
        """Store messages in one commit."""
        store_batch(self._database, self._made(topic, payloads, clientid))

    def _made(self, topic: str, payloads: Sequence[bytes], clientid: str) -> list[TestMessage]:
        messages = []
        for payload in payloads:
            self._count += 1
            messages.append(TestMessage(_BEGIN_US + self._count, self._count, topic, payload, clientid))
        return messages

    def put_to_hand(self, query: str, rows: Sequence[tuple[str, bytes]], sends: bool = True) -> list[HandedRows]:
        """Store rows, topic and payload each, in one commit; what a node hands to its action runner.

        Args:
            sends: Whether the runner takes it.
        """
        given: list[bytes] = []

        def send(data: bytes) -> bool:
            given.append(data)
            return sends

        if self._handover is None:
            self._handover = RowHandover(self._database, lambda topic: query, lambda data: self._send(data))
            self._handover.use([query], 0)
        self._send = send
        messages = [made for topic, payload in rows for made in self._made(topic, [payload], "station")]
        self._tickets += 1
        for message in messages:
            self._handover.took(self._tickets, message)
        self._database.write(messages)
        self._handover.written(self._tickets)
        store_batch(self._database, [])
        assert self._handover.committed(self._tickets, None) == ({query} if sends else set())
        return [rows_of(data.partition(b"\n")[2]) for data in given]

    def times(self) -> list[int]:
        """When the messages were received, in microseconds since the epoch."""
        return [_BEGIN_US + number for number in range(1, self._count + 1)]

    def put_commits(self, topic: str, commits: int, size: int, clientid: str = "station") -> None:
        """Store commits of `size` messages whose payloads count up: {"n": 0}, {"n": 1}, ..."""
        for commit in range(commits):
            numbers = range(commit * size, (commit + 1) * size)
            self.put(topic, [b'{"n": %d}' % number for number in numbers], clientid)

    def merge_blocks(self) -> None:
        """Merge what is small, as the broker does in the background."""
        compactor = Compactor(
            self._database, CompactionOptions(min_age_us=0, min_blocks=2, max_rows=20, max_shared_rows=20)
        )
        while compactor.step(time.time_ns() // 1000 + 1):
            pass

    def add_generation(self) -> None:
        """Begin a generation."""
        self._database.add_generation()

    def drop_generation(self, number: int) -> None:
        """Remove a generation, as retention does."""
        self._database.drop_generation(number)

    def offload(self, number: int) -> None:
        """Move a closed generation of messages to Parquet files."""
        offload(self._database, number, "cold")

    def erase(self, clientid: str) -> None:
        """Erase what a client has published, as `heliograph erase` does of a stopped node."""
        self.close()
        erase_messages(self.data_dir, "messages", ErasureSubject(clientid=clientid), set(), is_tried=False)
        self._database = open_database(self.data_dir)
        self.start_reader("127.0.0.1:0")

    def damage_block(self, number: int) -> None:
        """Change a byte of a stored block, as a bad disk might."""
        rocks = self._database.contents()[0]
        key, value = list(records(rocks, b"B", b"C"))[number]
        rocks.put(key, value[:-4] + b"\x07" + value[-3:])

    def start_reader(self, bind: str) -> None:
        """Start the reader process and wait until it is ready."""
        command = [python(), "-m", "heliograph.storage.reader", "--data-dir", str(self.data_dir), "--bind", bind]
        self._reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = _ready_line(self._reader).split()[-1]

    def stop_reader(self) -> None:
        """End the reader process."""
        assert self._reader is not None
        assert self._reader.stdin is not None
        assert self._reader.stdout is not None
        self._reader.terminate()
        self._reader.wait(_WAIT_S)
        self._reader.stdin.close()
        self._reader.stdout.close()

    def close(self) -> None:
        """End the reader process and close the database."""
        self.stop_reader()
        self._database.close()


def _ready_line(process: "subprocess.Popen[str]", deadline_s: float = _WAIT_S) -> str:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(deadline_s):
            raise TimeoutError(f"no ready line from {process.args!r}")
    line = process.stdout.readline()
    assert line.startswith("ready "), line
    return line


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    """An empty message database with a reader process."""
    stored = Stored(tmp_path / "data")
    yield stored
    stored.close()


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Host and port of a mosquitto broker."""
    port = free_port()
    with running_mosquitto(tmp_path_factory.mktemp("mosquitto"), f"listener {port} 127.0.0.1\n"):
        yield "127.0.0.1", port

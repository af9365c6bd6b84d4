"""State databases: all keep the rules of `heliograph.storage.state.interface`; the local one outlives its process."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heliograph.storage.engine import open_primary
from heliograph.storage.errors import PreconditionFailedError, StorageClosedError, StorageError, UnknownLayoutError
from heliograph.storage.state.interface import StateBatch, StateDatabase
from heliograph.storage.state.local import LocalState
from reference.state import MemoryState
from support.forms import examples


class Answers:
    """Waits for tickets and keeps what was said of them."""

    def __init__(self, database: StateDatabase) -> None:
        self.told: list[tuple[int, StorageError | None]] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        database.listen(self._committed)

    def _committed(self, ticket: int, error: StorageError | None) -> None:
        self.told.append((ticket, error))
        for wanted, future in self._waiting:
            if wanted <= ticket and not future.done():
                future.set_result(None)

    async def wait(self, ticket: int) -> StorageError | None:
        """What was said of a ticket, as soon as it was."""
        if ticket not in dict(self.told):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((ticket, future))
            await future
        return dict(self.told)[ticket]


def put(**values: str) -> StateBatch:
    batch = StateBatch()
    for key, value in values.items():
        batch.put(key.encode(), value.encode())
    return batch


def put_in_the_way(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text("a file where a directory should be")
    return path


@pytest.fixture(params=["memory", "local"])
async def database(request: pytest.FixtureRequest, data_dir: Path) -> AsyncIterator[StateDatabase]:
    if request.param == "memory":
        yield MemoryState("sessions")
        return
    local = LocalState(data_dir, "sessions")
    local.open()
    yield local
    await local.close()


async def test_what_was_submitted_is_seen_at_once_and_then_durable(database: StateDatabase) -> None:
    answers = Answers(database)
    ticket = database.submit(put(a="1", b="2"))
    assert (database.get(b"a"), database.get(b"c")) == (b"1", None)
    assert database.scan() == [(b"a", b"1"), (b"b", b"2")]
    assert answers.told == []
    assert await answers.wait(ticket) is None
    assert database.scan() == [(b"a", b"1"), (b"b", b"2")]


async def test_tickets_are_answered_in_order_and_once(database: StateDatabase) -> None:
    answers = Answers(database)
    tickets = []
    for number in range(2_500):
        tickets.append(database.submit(put(key=str(number))))
        if number % 700 == 0:
            await asyncio.sleep(0)
    assert tickets == sorted(tickets)
    await answers.wait(tickets[-1])
    assert [ticket for ticket, _ in answers.told] == sorted(set(tickets))
    assert database.get(b"key") == b"2499"


async def test_an_empty_batch_is_answered_behind_what_was_before(database: StateDatabase) -> None:
    answers = Answers(database)
    first = database.submit(put(a="1"))
    assert await answers.wait(database.submit(StateBatch())) is None
    assert first in dict(answers.told)


async def test_what_is_said_later_of_a_key_counts(database: StateDatabase) -> None:
    database.submit(put(a="1", ab="1", b="1"))
    batch = StateBatch()
    batch.put(b"ac", b"2")
    batch.delete_prefix(b"a")
    batch.put(b"ad", b"2")
    batch.delete(b"b")
    batch.put(b"b", b"3")
    batch.delete(b"nothing")
    database.submit(batch)
    assert database.scan() == [(b"ad", b"2"), (b"b", b"3")]


async def test_a_scan_pages_through_a_prefix(database: StateDatabase) -> None:
    keys = [b"s\xff%03d" % number for number in range(25)] + [b"s\xff\xff", b"s", b"t", b""]
    answers = Answers(database)
    for part in (keys[::2], keys[1::2]):
        batch = StateBatch()
        for key in part:
            batch.put(key, b"")
        await answers.wait(database.submit(batch))
    found: list[bytes] = []
    while page := database.scan(b"s\xff", found[-1] if found else b"", 10):
        found += [key for key, _ in page]
    assert found == sorted(key for key in keys if key.startswith(b"s\xff"))
    assert [key for key, _ in database.scan(b"", b"s\xff\xff")] == [b"t"]
    assert [key for key, _ in database.scan(b"", b"", 1)] == [b""]


class CountedKey(bytes):
    """A key that counts how often a scan looks at one like it."""

    looks = 0

    def __lt__(self, other: bytes) -> bool:
        CountedKey.looks += 1
        return bytes(self) < bytes(other)

    def startswith(self, *arguments: object) -> bool:
        CountedKey.looks += 1
        return super().startswith(*arguments)  # type: ignore[arg-type]  # they are passed on as they came


async def test_a_scan_looks_at_few_of_many_pending_keys(data_dir: Path) -> None:
    local = LocalState(data_dir, "sessions")
    local.open()
    batch = StateBatch()
    for number in range(10_000):
        batch.put(CountedKey(b"%05d" % number), b"v")
    local.submit(batch)
    local.scan(b"5", limit=1)
    CountedKey.looks = 0
    assert [key for key, _ in local.scan(b"0123")] == [b"%05d" % number for number in range(1230, 1240)]
    late = StateBatch()
    late.put(CountedKey(b"01235x"), b"v")
    local.submit(late)
    assert len(local.scan(b"0123")) == 11
    assert CountedKey.looks < 200
    await local.close()


async def test_a_scan_leaves_out_what_came_and_went_while_others_wait(data_dir: Path) -> None:
    local = LocalState(data_dir, "sessions")
    local.open()
    for turn in range(300):
        batch = StateBatch()
        batch.put(b"k%d" % (turn % 7), b"%d" % turn)
        batch.delete(b"k%d" % (turn % 5))
        local.submit(batch)
        found = dict(local.scan(b"k"))
        assert found.get(b"k%d" % (turn % 7)) == (None if turn % 7 == turn % 5 else b"%d" % turn)
        assert b"k%d" % (turn % 5) not in found
        if turn % 10 == 0:
            await asyncio.sleep(0)
    await local.close()


async def test_deleting_everything_ends_where_the_empty_key_stands(database: StateDatabase) -> None:
    answers = Answers(database)
    batch = StateBatch()
    batch.put(b"", b"1")
    await answers.wait(database.submit(batch))
    everything = StateBatch()
    everything.delete_prefix(b"")
    await answers.wait(database.submit(everything))
    assert database.scan() == []


async def test_of_two_that_expect_the_same_only_the_first_is_taken(database: StateDatabase) -> None:
    def claim(owner: bytes, expected: bytes | None) -> StateBatch:
        batch = StateBatch()
        batch.expect(b"leader", expected)
        batch.put(b"leader", owner)
        return batch

    database.submit(claim(b"n1", None))
    with pytest.raises(PreconditionFailedError, match="the key 'leader' is 'n1'; it was expected that it does not exi"):
        database.submit(claim(b"n2", None))
    database.submit(claim(b"n3", b"n1"))
    assert database.get(b"leader") == b"n3"


async def test_a_closed_database_takes_nothing(data_dir: Path) -> None:
    for database in (MemoryState("sessions"), LocalState(data_dir, "sessions")):
        if isinstance(database, LocalState):
            database.open()
        answers = Answers(database)
        ticket = database.submit(put(a="1"))
        await database.close()
        assert dict(answers.told) == {ticket: None}
        with pytest.raises(StorageClosedError):
            database.submit(put(a="2"))


async def test_state_is_there_after_a_restart(data_dir: Path) -> None:
    database = LocalState(data_dir, "sessions")
    database.open()
    database.submit(put(a="1", b="2"))
    await database.close()
    again = LocalState(data_dir, "sessions")
    again.open()
    assert again.scan() == [(b"a", b"1"), (b"b", b"2")]
    await again.close()


async def test_state_without_a_disk_is_refused_until_it_is_back(data_dir: Path) -> None:
    obstacle = put_in_the_way(data_dir / "state")
    database = LocalState(data_dir, "sessions", reopen_interval_s=0.0)
    with pytest.raises(StorageError):
        database.open()
    answers = Answers(database)
    error = await answers.wait(database.submit(put(a="1")))
    assert error is not None
    obstacle.unlink()
    assert await answers.wait(database.submit(put(a="2"))) is None
    assert database.get(b"a") == b"2"
    await database.close()


async def test_state_of_a_later_version_is_not_opened(data_dir: Path) -> None:
    database = LocalState(data_dir, "sessions")
    database.open()
    await database.close()
    rocks = open_primary(database.path, "lz4")
    rocks.put(b"\x00", b'{"format": "state-2"}')
    rocks.close()
    database = LocalState(data_dir, "sessions")
    with pytest.raises(UnknownLayoutError, match="its format is 'state-2', and this version knows 'state-1'"):
        database.open()
    await database.close()


def test_a_kill_loses_nothing_that_was_answered(data_dir: Path) -> None:
    script = """
import asyncio, os, signal, sys
from pathlib import Path
from tempfile import TemporaryDirectory
from heliograph.storage.state.local import LocalState
from heliograph.storage.state.interface import StateBatch

async def main():
    database = LocalState(Path(sys.argv[1]), "sessions")
    database.open()
    numbers = {}
    def committed(ticket, error):
        print(ticket, numbers[ticket], error, flush=True)
        if ticket == 20:
            os.kill(os.getpid(), signal.SIGKILL)
    database.listen(committed)
    for number in range(10 ** 6):
        batch = StateBatch()
        for half in (b"a", b"b"):
            batch.put(half + b"%d" % number, b"%d" % number)
        numbers[database.submit(batch)] = number
        await asyncio.sleep(0)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script, data_dir], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    last = int(done.stdout.splitlines()[-1].split()[1])

    async def check() -> None:
        database = LocalState(data_dir, "sessions")
        database.open()
        found = dict(database.scan(limit=10**6))
        for number in range(last + 1):
            assert found[b"a%d" % number] == found[b"b%d" % number] == b"%d" % number
        assert {key[1:] for key in found if key[:1] == b"a"} == {key[1:] for key in found if key[:1] == b"b"}
        await database.close()

    asyncio.run(check())


KEYS = st.text("ab\xff", max_size=3).map(lambda text: text.encode("latin-1"))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("delete_prefix"), KEYS),
        st.tuples(st.just("submit"), st.just(b"")),
        st.tuples(st.just("turn"), st.just(b"")),
        st.tuples(st.just("scan"), KEYS),
    ),
    max_size=15,
)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(lives=st.lists(STEPS, min_size=1, max_size=3))  # between two, a restart: some fsyncs, so few of them
def test_any_order_of_changes_and_restarts_reads_as_memory_does(
    lives: list[list[tuple[str, bytes]]], tmp_path: Path
) -> None:
    async def run(data_dir: Path) -> None:
        memory = MemoryState("sessions")
        for number, steps in enumerate(lives):
            local = LocalState(data_dir, "sessions")
            local.open()
            try:
                await live(steps, b"%d" % number, memory, local)
            finally:
                await local.close()

    with TemporaryDirectory(dir=tmp_path) as data_dir:
        asyncio.run(run(Path(data_dir)))


async def live(steps: list[tuple[str, bytes]], value: bytes, memory: MemoryState, local: LocalState) -> None:
    batches = [StateBatch(), StateBatch()]
    for number, (what, key) in enumerate(steps):
        if what == "submit":
            memory.submit(batches[0])
            local.submit(batches[1])
            batches = [StateBatch(), StateBatch()]
        elif what == "turn":
            await asyncio.sleep(0)
        elif what == "scan":
            assert memory.scan(key) == local.scan(key)
            assert memory.scan(b"", key, 2) == local.scan(b"", key, 2)
            assert memory.get(key) == local.get(key)
        else:
            for batch in batches:
                change: Callable[..., None] = getattr(batch, what)
                change(*((key, value + b"-%d" % number) if what == "put" else (key,)))
    assert memory.scan() == local.scan()


def test_a_batch_says_what_it_is() -> None:
    assert repr(put(a="1")) == "StateBatch(1 keys, 0 prefixes, 2 bytes)"
    assert not StateBatch()

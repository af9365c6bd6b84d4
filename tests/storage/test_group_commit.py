"""Group commit: who is answered when, what a full buffer says, and what happens when the disk refuses."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.node_databases import NodeDatabases
from heliograph.storage.errors import StorageClosedError, StorageError
from heliograph.storage.group_commit import GroupCommit
from heliograph.storage.interface import Batch, DatabaseOptions, StreamId
from storage.messages import MakeMessage
from support.databases import open_database


class Answers:
    """Remembers the answers of a group commit, and lets a test wait for one."""

    def __init__(self) -> None:
        self.errors: dict[int, StorageError | None] = {}
        self._news = asyncio.Event()

    def __call__(self, ticket: int, error: StorageError | None) -> None:
        assert ticket == max(self.errors, default=0) + 1, "tickets are answered in order"
        self.errors[ticket] = error
        self._news.set()

    async def of(self, ticket: int) -> StorageError | None:
        while ticket not in self.errors:
            await self._news.wait()
            self._news.clear()
        return self.errors[ticket]


def stored(database: LocalDatabase) -> list[bytes]:
    found: list[bytes] = []
    for stream in database.get_streams("#"):
        batch = database.next(database.make_iterator(stream.id, "#"), 100_000)
        assert isinstance(batch, Batch)
        found += [message.payload for message in batch.messages]
    return found


@pytest.mark.parametrize("fsync", [True, False])
async def test_messages_of_one_turn_are_one_batch(
    database: LocalDatabase, make_message: MakeMessage, fsync: bool
) -> None:
    answers = Answers()
    commit = GroupCommit(database, answers, fsync=fsync)
    tickets = {commit.append(make_message(payload=b"%d" % n)) for n in range(10)}
    assert tickets == {1}
    assert answers.errors == {}, "nothing is answered before it is stored"
    assert await answers.of(1) is None
    assert stored(database) == [b"%d" % n for n in range(10)]
    second = commit.append(make_message(payload=b"later"))
    assert second == 2
    assert await answers.of(second) is None
    assert stored(database)[-1] == b"later"
    assert commit.statistics()["messages"] == 11
    assert commit.buffered_bytes == 0
    await commit.close()


async def test_a_large_commit_is_answered_for_in_several_loop_turns(
    database: LocalDatabase, make_message: MakeMessage
) -> None:
    of_turn: list[int] = []  # how many answers each loop turn gave
    answers = Answers()

    def answer(ticket: int, error: StorageError | None) -> None:
        of_turn[-1] += 1
        answers(ticket, error)

    def on_turn() -> None:
        of_turn.append(0)
        if len(answers.errors) < 20:
            loop.call_soon(on_turn)

    loop = asyncio.get_running_loop()
    commit = GroupCommit(database, answer)
    on_turn()
    payload = bytes(256 << 10)  # fills a batch
    tickets = [commit.append(make_message(payload=payload)) for _ in range(20)]
    assert tickets == list(range(1, 21))
    assert await answers.of(20) is None
    assert sum(of_turn) == 20
    assert max(of_turn) <= 8
    await commit.close()
    assert commit.statistics()["messages"] == 20


async def test_messages_to_many_topics_make_smaller_batches(database: LocalDatabase, make_message: MakeMessage) -> None:
    answers = Answers()
    commit = GroupCommit(database, answers)
    topic = "one"
    of_one_topic = [commit.append(make_message(topic=topic, payload=b"")) for _ in range(800)]
    assert set(of_one_topic) == {1}
    assert await answers.of(1) is None
    of_many = [commit.append(make_message(topic=f"many/{number}", payload=b"")) for number in range(1000)]
    assert max(of_many.count(ticket) for ticket in of_many) == 547
    assert await answers.of(of_many[-1]) is None
    await commit.close()


async def test_nothing_is_answered_before_the_disk_has_it(database: LocalDatabase, make_message: MakeMessage) -> None:
    unsynced: list[int] = []
    answers = Answers()

    def answer(ticket: int, error: StorageError | None) -> None:
        unsynced.append(len(database.sync_request().descriptors))
        answers(ticket, error)

    commit = GroupCommit(database, answer)
    for _ in range(5):
        assert await answers.of(commit.append(make_message())) is None
    assert unsynced == [0] * 5
    await commit.close()


async def test_readers_are_woken_when_the_disk_has_it_and_before_its_answer(
    database: LocalDatabase, make_message: MakeMessage
) -> None:
    answers = Answers()
    woken: list[tuple[int, int, int]] = []

    def wake(streams: Sequence[StreamId]) -> None:
        woken.append((len(streams), len(database.sync_request().descriptors), len(answers.errors)))
        raise LookupError("a fault of a reader")

    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    database.subscribe(wake)
    commit = GroupCommit(database, answers)
    for topic in ("a", "b"):
        commit.append(make_message(topic))
    assert woken == []
    assert await answers.of(1) is None
    assert woken == [(2, 0, 0)]
    await commit.close()
    assert [str(fault) for fault in faults] == ["a fault of a reader"]


async def test_what_comes_during_a_commit_is_the_next_batch(database: LocalDatabase, make_message: MakeMessage) -> None:
    answers = Answers()
    commit = GroupCommit(database, answers)
    first = commit.append(make_message(payload=b"1"))
    await asyncio.sleep(0)  # the commit begins
    second = commit.append(make_message(payload=b"2"))
    assert second == first + 1
    assert await answers.of(second) is None
    assert list(answers.errors) == [first, second]
    await commit.close()


async def test_a_flood_is_cut_into_batches_and_says_when_it_is_full(
    database: LocalDatabase, make_message: MakeMessage
) -> None:
    answers = Answers()
    commit = GroupCommit(database, answers, max_buffered_bytes=2_000_000)
    tickets = []
    while not commit.is_full:
        tickets.append(commit.append(make_message(payload=b"x" * 100)))
    assert 4_000 < len(tickets) < 8_000
    assert tickets == sorted(tickets)
    assert len(set(tickets)) > 3
    assert await answers.of(tickets[-1]) is None
    assert commit.buffered_bytes == 0
    assert len(stored(database)) == len(tickets)
    await commit.close()


async def test_close_answers_for_everything_first(database: LocalDatabase, make_message: MakeMessage) -> None:
    answers = Answers()
    commit = GroupCommit(database, answers)
    ticket = commit.append(make_message())
    await commit.close()
    assert answers.errors == {ticket: None}
    with pytest.raises(StorageClosedError, match="the node is stopping"):
        commit.append(make_message())


async def test_all_that_close_it_at_once_see_its_end(database: LocalDatabase, make_message: MakeMessage) -> None:
    answers = Answers()
    commit = GroupCommit(database, answers)
    ticket = commit.append(make_message())
    given_up = asyncio.create_task(commit.close())
    await asyncio.sleep(0)
    closing = asyncio.gather(commit.close(), commit.close())
    await asyncio.sleep(0)
    given_up.cancel()
    async with asyncio.timeout(20):
        await closing
    assert answers.errors == {ticket: None}


async def test_a_fault_of_one_answer_does_not_stop_storing(database: LocalDatabase, make_message: MakeMessage) -> None:
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    answers = Answers()

    def answer(ticket: int, error: StorageError | None) -> None:
        answers(ticket, error)
        if ticket == 1:
            raise RuntimeError("a bug in the caller")

    commit = GroupCommit(database, answer)
    commit.append(make_message())
    await answers.of(1)
    second = commit.append(make_message())
    assert await answers.of(second) is None
    assert len(faults) == 1
    await commit.close()


async def test_a_database_that_cannot_be_opened_refuses_until_it_can(data_dir: Path, make_message: MakeMessage) -> None:
    backend = NodeDatabases(data_dir, reopen_interval_s=0.0)
    owner = open_database(data_dir)
    database = backend.database("messages", DatabaseOptions())
    answers = Answers()
    commit = GroupCommit(database, answers)
    error = await answers.of(commit.append(make_message()))
    assert error is not None
    assert "database 'messages'" in str(error)
    owner.close()
    assert await answers.of(commit.append(make_message(payload=b"at last"))) is None
    assert stored(database) == [b"at last"]
    await commit.close()
    database.close()


async def test_a_stall_of_rocksdb_is_waited_for(database: LocalDatabase, make_message: MakeMessage) -> None:
    """RocksDB stalls writes when flushes are ahead of compactions; it must not hold the event loop meanwhile."""
    rocks = database.contents()[0]
    low = {"level0_slowdown_writes_trigger": "1", "level0_stop_writes_trigger": "2"}
    rocks.set_options({**low, "level0_file_num_compaction_trigger": "100"})
    for _ in range(2):
        database.write([make_message(payload=b"before")])
        rocks.flush()
    answers = Answers()
    commit = GroupCommit(database, answers)
    ticket = commit.append(make_message(payload=b"1"))
    for _ in range(3):  # the commit begins, writes, and is told to wait
        await asyncio.sleep(0)
    assert commit.statistics()["stalls"] == 1
    later = commit.append(make_message(payload=b"2"))
    assert answers.errors == {}
    rocks.set_options({"level0_slowdown_writes_trigger": "20", "level0_stop_writes_trigger": "36"})
    assert await answers.of(ticket) is None
    assert await answers.of(later) is None
    assert stored(database) == [b"before", b"before", b"1", b"2"]
    await commit.close()


DISK_FAULT = """
import asyncio, os, resource, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from storage.messages import message_maker
from heliograph.storage.group_commit import GroupCommit
from heliograph.storage.interface import Batch, StreamId
from support.databases import open_database

async def main():
    database = open_database(Path({data_dir!r}))
    make, loop, answers = message_maker(), asyncio.get_running_loop(), {{}}
    commit = GroupCommit(database, lambda ticket, error: answers[ticket].set_result(error))

    async def store(payload):
        ticket = commit.append(make(payload=payload))
        answers[ticket] = loop.create_future()
        return await answers[ticket]

    kept = []
    {begin}
    for number in range(200):
        payload = b"%05d" % number + os.urandom(50_000)
        error = await store(payload)
        if error is not None:
            print(error.code, "|", error)
            break
        kept.append(payload)
    print("refused again", (await store(b"lost?")) is not None)
    {end}
    error = True
    while error is not None:
        error = await store(b"after")
    await commit.close()
    database.close()
    database.open()
    (stream,) = database.get_streams("#")
    batch = database.next(database.make_iterator(stream.id, "#"), 10_000)
    found = [message.payload for message in batch.messages]
    print("kept", len(kept), all(payload in found for payload in kept), found[-1] == b"after")
    database.close()

asyncio.run(main())
"""
LIMIT = "resource.setrlimit(resource.RLIMIT_FSIZE, ({}, resource.RLIM_INFINITY))"


def run_with_fault(data_dir: Path, begin: str, end: str) -> list[str]:
    program = DISK_FAULT.format(tests=str(Path(__file__).parents[1]), data_dir=str(data_dir), begin=begin, end=end)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_write_error_refuses_and_storing_resumes(data_dir: Path) -> None:
    lines = run_with_fault(data_dir, LIMIT.format(3_000_000), LIMIT.format("resource.RLIM_INFINITY"))
    assert lines[0].startswith("storage_full | ")
    assert "File too large" in lines[0]
    assert "database 'messages'" in lines[0]
    kept, count, complete, last = lines[2].split()
    assert kept == "kept"
    assert int(count) > 20
    assert (complete, last) == ("True", "True")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with 8 MB of room; mounting one needs privileges that not every machine gives."""
    path = tmp_path / "small"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("cannot mount a small file system here")
    yield path
    subprocess.run(["umount", str(path)], check=True)


@pytest.mark.slow
def test_a_full_disk_refuses_and_storing_resumes_when_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    lines = run_with_fault(
        small_disk / "data",
        f"Path({str(ballast)!r}).write_bytes(bytes(5_000_000))",
        f"Path({str(ballast)!r}).unlink()",
    )
    assert lines[0].startswith("storage_full | ")
    assert "No space left on device" in lines[0]
    assert "Free some space" in lines[0]
    assert lines[1] == "refused again True"
    kept, count, complete, last = lines[2].split()
    assert kept == "kept"
    assert int(count) > 10
    assert (complete, last) == ("True", "True")


async def test_a_batch_that_cannot_even_be_encoded_is_refused_and_storing_goes_on(
    database: LocalDatabase, make_message: MakeMessage
) -> None:
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
    answers = Answers()
    commit = GroupCommit(database, answers)
    broken = commit.append(make_message(clientid="half a surrogate pair \ud800"))
    error = await answers.of(broken)
    assert error is not None
    assert "surrogates" in str(error)
    assert await answers.of(commit.append(make_message())) is None
    await commit.close()


async def test_what_looks_on_sees_each_ticket_that_is_written_before_it_is_answered(
    database: LocalDatabase, make_message: MakeMessage
) -> None:
    answers, written = Answers(), []
    commit = GroupCommit(database, answers)

    def look(ticket: int) -> None:
        messages = [make_message(payload=b"%d" % ticket)]
        written.append((ticket, database.newest_commit_us(), database.streams_written(messages), set(answers.errors)))
        raise ValueError("what looks on has a fault")

    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context["exception"]))
    commit.on_written = look
    commit.touch()  # nothing is written for it
    assert await answers.of(1) is None
    commit.append(make_message())
    assert await answers.of(2) is None, "it is stored all the same"
    ((ticket, time, streams, answered),) = written
    assert (ticket, answered) == (2, {1})
    assert streams == [stream.id for stream in database.get_streams("#", time, time + 1)]
    assert len(faults) == 1
    await commit.close()

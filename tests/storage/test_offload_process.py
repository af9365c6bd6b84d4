"""Offload by the process beside the broker: nothing waits for it, and whatever is killed, nothing is lost."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from heliograph.processes.programs import Programs
from heliograph.storage.columnar.block import OFFLOADED_VERSION
from heliograph.storage.columnar.compaction import CompactionOptions, Compactor
from heliograph.storage.columnar.database import FEW, LocalDatabase
from heliograph.storage.columnar.offloaded import OffloadError, OffloadPendingError
from heliograph.storage.engine import records
from heliograph.storage.errors import StorageDamagedError, StorageError
from heliograph.storage.interface import Batch
from heliograph.storage.offload.blocks import OffloadedBlocks
from heliograph.storage.offload.commit import OffloadOptions
from heliograph.storage.offload.process import Answer, OffloadProcess
from heliograph.storage.offload.steps import Offload
from heliograph.storage.repair.check import check_database
from reference.storage import message, replayed
from storage.messages import MakeMessage
from storage.offloading import LATER, files_of, fill, read_all
from support.databases import open_database, store_batch
from support.python_copies import python
from support.waiting import until

pytestmark = pytest.mark.service

MakeOffload = Callable[..., Offload]


@pytest.fixture
async def make_offload(data_dir: Path, database: LocalDatabase, copies: Programs) -> AsyncIterator[MakeOffload]:
    """Makes what offloads the database; it is stopped afterwards."""
    made: list[Offload] = []

    def make(target: Path | str | None = "cold", **options: object) -> Offload:
        chosen = None if target is None else OffloadOptions(str(target), **options)  # type: ignore[arg-type]  # they are options by name
        made.append(Offload(database, OffloadProcess(data_dir, copies), chosen))
        database.fetch = made[-1].fetch
        return made[-1]

    yield make
    for one in made:
        await one.stop()


async def test_a_generation_goes_and_is_read_back(
    database: LocalDatabase, data_dir: Path, make_offload: MakeOffload, make_message: MakeMessage
) -> None:
    fill(database, make_message)
    database.add_generation()
    fill(database, make_message)
    before = replayed(database)
    offload = make_offload()
    assert await offload.step(LATER)
    assert not await offload.step(LATER)
    assert len(files_of(data_dir / "cold")) == 1
    with pytest.raises(OffloadPendingError):
        replayed(database)
    assert await read_all(database, offload) == before
    assert [one.topic for one in await read_all(database, offload, "fleet/3/pos")] == ["fleet/3/pos"] * 44
    counts = offload.statistics()
    assert (counts["offload.generations"], counts["offload.messages"]) == (1, len(before) // 2)


async def test_a_turn_of_the_event_loop_gives_little_to_replays_and_what_is_looked_for_always(
    database: LocalDatabase, make_offload: MakeOffload
) -> None:
    for number in range(9):
        store_batch(database, [message(f"topic/{number}/{number}")])
    database.add_generation()
    offload = make_offload()
    database.fetch_few = offload.fetch_few
    assert await offload.step(LATER)
    assert len(await read_all(database, offload)) == 9
    await asyncio.sleep(0)  # the next turn
    iterators = [database.make_iterator(stream.id, "#") for stream in database.get_streams("#")]
    for iterator in iterators[:4]:
        assert isinstance(database.next(iterator, 100), Batch)
    with pytest.raises(OffloadPendingError):
        database.next(iterators[4], 100)
    assert all(isinstance(database.next(iterator, FEW), Batch) for iterator in iterators)


async def test_not_before_its_time(database: LocalDatabase, make_offload: MakeOffload) -> None:
    store_batch(database, [message()])
    database.add_generation()
    closed = database.list_generations()[0].until
    assert closed is not None
    offload = make_offload(after_us=1_000_000)
    assert not await offload.step(closed + 999_999)
    assert await offload.step(closed + 1_000_000)


async def test_the_files_go_with_the_retention_of_their_messages(
    database: LocalDatabase, data_dir: Path, make_offload: MakeOffload
) -> None:
    for number in range(3):
        store_batch(database, [message(payload=b"%d" % number)])
        database.add_generation()
    offload = make_offload()
    while await offload.step(LATER):
        continue
    assert len(files_of(data_dir / "cold")) == 3
    database.drop_generation(1)
    assert len(await read_all(database, offload)) == 2
    assert await offload.step(LATER)
    assert len(files_of(data_dir / "cold")) == 2
    await offload.stop()
    keeping = make_offload(keep_files=True)
    database.drop_generation(2)
    assert await keeping.step(LATER)
    assert not await keeping.step(LATER)
    assert len(files_of(data_dir / "cold")) == 2
    await keeping.stop()
    disabled = make_offload(None)
    assert [one.payload for one in await read_all(database, disabled)] == [b"2"]
    database.drop_generation(3)
    assert await disabled.step(LATER)
    assert len(files_of(data_dir / "cold")) == 1


async def test_a_target_that_refuses_is_told_and_tried_again(
    database: LocalDatabase, data_dir: Path, make_offload: MakeOffload
) -> None:
    store_batch(database, [message()])
    database.add_generation()
    (data_dir / "cold").write_text("a file is in the way")
    offload = make_offload()
    with pytest.raises(OffloadError, match="cannot be used"):
        await offload.step(LATER)
    assert len(replayed(database)) == 1
    (data_dir / "cold").unlink()
    assert await offload.step(LATER)
    assert len(await read_all(database, offload)) == 1


async def test_what_is_not_there_is_an_error_until_it_is(
    database: LocalDatabase, data_dir: Path, make_offload: MakeOffload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.storage.offload.fetch.FAILED_FETCH_S", 1e9)
    store_batch(database, [message()])
    database.add_generation()
    store_batch(database, [message("other/topic")])
    offload = make_offload()
    assert await offload.step(LATER)
    (data_dir / "cold").rename(data_dir / "away")
    with pytest.raises(OffloadError, match=r"cold/.*parquet"):
        await read_all(database, offload)
    assert len(await read_all(database, offload, "other/topic")) == 1
    (data_dir / "away").rename(data_dir / "cold")
    monkeypatch.setattr("heliograph.storage.offload.fetch.FAILED_FETCH_S", 0.0)
    assert len(await read_all(database, offload)) == 2


async def test_a_damaged_generation_stays_where_it_is(
    database: LocalDatabase, data_dir: Path, make_offload: MakeOffload
) -> None:
    store_batch(database, [message()])
    database.add_generation()
    rocks, _ = database.contents()
    ((key, block),) = records(rocks, b"B", b"C")
    rocks.put(key, block[:-1] + b"?")
    offload = make_offload()
    with pytest.raises(StorageDamagedError):
        await offload.step(LATER)
    assert not await offload.step(LATER)
    assert offload.statistics()["offload.refused_generations"] == 1


async def test_the_process_may_die_at_any_time(
    database: LocalDatabase, data_dir: Path, make_message: MakeMessage, make_offload: MakeOffload
) -> None:
    fill(database, make_message)
    before = replayed(database)
    database.add_generation()
    process = OffloadProcess(data_dir)
    offload = Offload(database, process, OffloadOptions("cold"))
    database.fetch = offload.fetch
    under_way = asyncio.create_task(offload.step(LATER))
    while process.pid is None:  # noqa: ASYNC110 - a process has no event that says that it was begun
        await asyncio.sleep(0)
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(OffloadError, match="ended with code -9"):
        await under_way
    assert replayed(database) == before
    assert await offload.step(LATER)
    assert await read_all(database, offload) == before
    assert process.statistics()["starts"] == 2
    await offload.stop()


async def test_blocks_stay_as_they_are_while_their_generation_leaves(
    database: LocalDatabase, make_message: MakeMessage, data_dir: Path
) -> None:
    fill(database, make_message)
    database.add_generation()
    before = replayed(database)
    process = OffloadProcess(data_dir)
    offload = Offload(database, process, OffloadOptions("cold"))
    database.fetch = offload.fetch
    compactor = Compactor(database, CompactionOptions(min_age_us=0, min_blocks=2))
    under_way = asyncio.create_task(offload.step(LATER))
    while process.pid is None:  # noqa: ASYNC110 - a process has no event that says that it was begun
        await asyncio.sleep(0)
    while not under_way.done():
        compactor.step(LATER)
        await asyncio.sleep(0)
    assert under_way.result()
    assert compactor.statistics()["compaction.merges"] == 0
    assert database.list_generations()[0].layout_version == OFFLOADED_VERSION
    assert not check_database(*database.contents()).is_damaged
    assert await read_all(database, offload) == before
    await offload.stop()


async def test_a_target_of_earlier_settings_does_not_hold_up_what_goes_elsewhere(
    database: LocalDatabase, data_dir: Path, make_offload: MakeOffload
) -> None:
    store_batch(database, [message()])
    database.add_generation()
    earlier = make_offload()
    assert await earlier.step(LATER)
    await earlier.stop()
    database.drop_generation(1)
    (file,) = files_of(data_dir / "cold")
    file.unlink()
    file.mkdir()  # which cannot be removed as a file is
    store_batch(database, [message()])
    database.add_generation()
    offload = make_offload("elsewhere")
    assert await offload.step(LATER)
    assert len(files_of(data_dir / "elsewhere")) == 1
    with pytest.raises(OffloadError, match="cold"):
        await offload.step(LATER)
    file.rmdir()
    assert await offload.step(LATER)
    assert not await offload.step(LATER)


class Refusing(OffloadProcess):
    """Refuses what it is asked, when a test says so."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.was_asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.answers: list[Answer] = []

    async def request(self, **fields: object) -> AsyncGenerator[Answer, None]:
        self.was_asked.set()
        await self.may_answer.wait()
        for answer in self.answers:
            yield answer
        raise OffloadError("the target refuses", database="")


def failures(offload: Offload) -> float:
    return offload.statistics()["offload.failures"]


async def test_a_refusal_is_not_told_where_other_settings_hold_by_then(database: LocalDatabase, data_dir: Path) -> None:
    store_batch(database, [message()])
    database.add_generation()
    for later in (None, OffloadOptions("elsewhere")):
        told: list[StorageError | None] = []
        process = Refusing(data_dir)
        offload = Offload(database, process, OffloadOptions("cold"), told.append)
        offload.tick(LATER)
        await process.was_asked.wait()
        offload.use(later)
        process.may_answer.set()
        await until(partial(failures, offload))
        assert set(told) == {None}
        await offload.stop()


async def test_whoever_asks_a_process_that_does_not_answer_as_it_should_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho what\nexec cat > /dev/null\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    process = OffloadProcess(tmp_path)
    with pytest.raises(OffloadError, match="ended with code -9"):
        async for _ in process.request(do="remove", target="cold", files=[]):
            pass
    await process.stop()


SCRIPT = """
import asyncio, os, signal, sys
from pathlib import Path
from heliograph.storage.offload.steps import Offload
from heliograph.storage.offload.commit import OffloadOptions
from heliograph.processes.programs import Programs
from heliograph.storage.offload.process import Answer, OffloadProcess
from support.databases import open_database

async def main(data_dir, commits_left):
    database = open_database(data_dir)
    rewrite = database.rewrite
    def counted(batch):
        nonlocal commits_left
        if not commits_left:
            os.kill(os.getpid(), signal.SIGKILL)
        commits_left -= 1
        rewrite(batch)
    database.rewrite = counted
    offload = Offload(database, OffloadProcess(data_dir, Programs(lambda: sys.argv[3])), OffloadOptions("cold"))
    while await offload.step(1 << 60):
        continue
    database.drop_generation(1)
    while await offload.step(1 << 60):
        continue

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


@pytest.mark.slow
async def test_a_kill_between_any_two_steps_loses_nothing(
    tmp_path: Path, make_message: MakeMessage, copies: Programs
) -> None:
    # The mark, two batches of stubs, the end; after the generation was dropped, the end of its record.
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    for commits in range(5):
        data_dir = tmp_path / str(commits)
        database = open_database(data_dir)
        for number in range(3):
            store_batch(database, [make_message(f"topic/{n}/{n}", b"%d" % number) for n in range(20)])
        before = replayed(database)
        database.add_generation()
        database.close()
        killed = await asyncio.create_subprocess_exec(
            python(), "-c", SCRIPT, str(data_dir), str(commits), python(), env=environ
        )
        assert await killed.wait() == -signal.SIGKILL
        database = open_database(data_dir)
        database.fetch = OffloadedBlocks(data_dir).fetch
        wanted = before if commits < 4 else []
        assert replayed(database) == wanted
        offload = Offload(database, OffloadProcess(data_dir, copies), OffloadOptions("cold"))
        while await offload.step(LATER):
            assert replayed(database) == wanted
        assert len(files_of(data_dir / "cold")) == (1 if wanted else 0)
        await offload.stop()
        database.close()

"""The simulated disk: to those who use it, a RocksDB; to a power cut, a disk that has what was synced."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heliograph.storage.engine import new_batch, open_primary, records
from sim.disk import FakeBatch, FakeRocks, SimulatedDisk, Walk
from support.cases import cases
from support.forms import examples

KEYS = st.binary(min_size=1, max_size=2)
CHANGE = st.one_of(
    st.tuples(st.just("put"), KEYS, st.binary(max_size=3)),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("delete_range"), KEYS, KEYS).filter(lambda change: change[1] <= change[2]),
)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    database = open_primary(tmp_path_factory.mktemp("real") / "database", "none")
    yield database
    database.close()


def a_disk(seed: int = 0) -> SimulatedDisk:
    return SimulatedDisk(random.Random(seed), lambda callback: callback(), lambda: 0)


def opened(disk: SimulatedDisk) -> FakeRocks:
    rocks: Any = disk.open(Path("/database"), "none")
    assert isinstance(rocks, FakeRocks)
    return rocks


def write(rocks: FakeRocks, key: bytes, value: bytes = b"") -> None:
    batch = FakeBatch()
    batch.put(key, value)
    batch.put(key + b" too", value)
    rocks.write(batch)


def keys(rocks: FakeRocks) -> list[bytes]:
    return [key for key, _ in records(rocks, b"", b"\xff" * 8)]  # type: ignore[arg-type]  # the fake has what is asked of RocksDB


def place(walk: Walk) -> tuple[bytes, bytes] | None:
    return (walk.key(), walk.value()) if walk.valid() else None


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(CHANGE, max_size=6), max_size=6), at=KEYS)
def test_it_is_a_rocksdb(real: Any, batches: list[list[tuple[Any, ...]]], at: bytes) -> None:
    empty = new_batch()
    empty.delete_range(b"", b"\xff" * 4)
    real.write(empty)
    fake = opened(a_disk())
    for changes in batches:
        ours, theirs = FakeBatch(), new_batch()
        for name, *arguments in changes:
            getattr(ours, name)(*arguments)
            getattr(theirs, name)(*arguments)
        before = list(records(real, b"", b"\xff" * 4))
        walk = records(fake, b"", b"\xff" * 4)  # type: ignore[arg-type]  # the fake has what is asked of RocksDB
        first = next(walk, None)
        fake.write(ours)
        real.write(theirs)
        assert ([] if first is None else [first, *walk]) == before  # a walk sees what was there when it began
    assert list(records(fake, b"", b"\xff" * 4)) == list(records(real, b"", b"\xff" * 4))  # type: ignore[arg-type]  # the fake has what is asked of RocksDB
    assert fake.get(at) == real.get(at)
    ours_walk, theirs_walk = fake.iter(), real.iter()
    for method in ("seek", "seek_for_prev"):
        getattr(ours_walk, method)(at)
        getattr(theirs_walk, method)(at)
        assert place(ours_walk) == place(theirs_walk)


@cases("seed", range(20))
def test_a_power_cut_takes_the_end_of_what_was_not_synced(seed: int) -> None:
    disk = a_disk(seed)
    rocks, files = opened(disk), disk.system()
    for number in range(30):
        write(rocks, b"%02d" % number)
        if number == 12:
            for name in files.listdir("/database"):
                if name.endswith(".log"):
                    files.fdatasync(files.open(f"/database/{name}", 0))
            files.fsync(files.open("/database", 0))
    disk.crash(power=True)
    found = keys(opened(disk))
    assert len(found) >= 26
    assert found == sorted(key for number in range(len(found) // 2) for key in (b"%02d" % number, b"%02d too" % number))


def test_a_killed_process_loses_nothing() -> None:
    disk = a_disk()
    rocks = opened(disk)
    for number in range(30):
        write(rocks, b"%02d" % number)
    disk.crash(power=False)
    assert len(keys(opened(disk))) == 60
    with pytest.raises(Exception, match="already closed"):
        rocks.get(b"00")


def test_what_a_failed_sync_dropped_no_later_sync_brings_back() -> None:
    lost = 0
    for seed in range(30):
        disk = a_disk(seed)
        rocks, files = opened(disk), disk.system()
        files.fsync(files.open("/database", 0))
        write(rocks, b"<a-1>", b"<a-1>")
        log = files.open("/database/000001.log", 0)
        disk.sync_errors = 1.0
        with pytest.raises(OSError, match="Input/output"):
            files.fdatasync(log)
        disk.heal()
        files.fdatasync(log)
        is_durable = disk.has("database", b"<a-1>")
        disk.crash(power=True)
        lost += b"<a-1>" not in keys(opened(disk))
        assert not (is_durable and b"<a-1>" not in keys(opened(disk)))
    assert lost > 0


def test_a_full_disk_refuses_until_it_is_opened_again() -> None:
    disk = a_disk()
    rocks = opened(disk)
    disk.is_full = True
    with pytest.raises(Exception, match="No space left"):
        write(rocks, b"a")
    disk.heal()
    with pytest.raises(Exception, match="No space left"):
        write(rocks, b"b")
    rocks.close()
    write(opened(disk), b"c")

"""What every coordinator does, whatever keeps the records."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cluster.coordination.coordinators import a_coordinator, first_of, put
from heliograph.cluster.coordination.embedded import EmbeddedCoordinator
from heliograph.cluster.coordination.interface import (
    OPERATIONS_MAX,
    VALUE_BYTES_MAX,
    Commit,
    CommitOutcome,
    Coordinator,
    Guard,
    LeaseGoneError,
    Put,
    WatchGoneError,
)
from heliograph.storage.state.local import LocalState
from support.etcd import Etcd


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd"), 1) as cluster:
        yield cluster


def the_state(path: Path) -> LocalState:
    state = LocalState(path, "cluster", fsync=False)
    state.open()
    return state


@pytest.fixture(params=["embedded", pytest.param("etcd", marks=pytest.mark.service)])
async def coordinator(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Coordinator]:
    if request.param == "etcd":
        coordinator: Coordinator = a_coordinator(request.getfixturevalue("etcd"))
        yield coordinator
        await coordinator.close()
    else:
        state = the_state(tmp_path)
        coordinator = EmbeddedCoordinator(state)
        yield coordinator
        await coordinator.close()
        await state.close()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Where the records of a test are; the members serve all tests."""
    return f"/{request.node.name}/"


async def test_a_commit_writes_all_of_it_or_nothing(coordinator: Coordinator, prefix: str) -> None:
    first = await coordinator.commit([Guard(prefix + "a", 0)], [Put(prefix + "a", b"1"), Put(prefix + "b", b"\x00")])
    assert first.outcome is CommitOutcome.COMMITTED
    again = await coordinator.commit([Guard(prefix + "a", 0)], [Put(prefix + "a", b"2")])
    assert again == Commit(CommitOutcome.CONFLICT)
    second = await coordinator.commit([Guard(prefix + "a", first.revision)], [Put(prefix + "a", b"")], [prefix + "b"])
    snapshot = await coordinator.get(prefix)
    assert {key: (one.value, one.revision) for key, one in snapshot.records.items()} == {
        prefix + "a": (b"", second.revision)
    }
    assert snapshot.revision >= second.revision > first.revision


@pytest.mark.parametrize(
    ("puts", "fault"),
    [
        ([Put("/large", bytes(VALUE_BYTES_MAX + 1))], "the record '/large' has 65537 bytes; 65536 may be in one"),
        ([Put(f"/{number}", b"") for number in range(OPERATIONS_MAX + 1)], "a commit of 101 operations; 100 may be"),
    ],
)
async def test_what_is_too_large_is_not_sent(coordinator: Coordinator, puts: list[Put], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        await coordinator.commit((), puts)


async def test_a_watch_has_every_change_behind_a_revision(coordinator: Coordinator, prefix: str) -> None:
    since = await put(coordinator, prefix + "a", b"1")
    both = (await coordinator.commit((), [Put(prefix + "a", b"2"), Put(prefix + "b", b"3")])).revision
    gone = (await coordinator.commit((), (), [prefix + "a"])).revision
    await put(coordinator, "/elsewhere", b"")
    found = await first_of(coordinator.watch(prefix, since), 2)
    assert [(one.revision, {key: record and record.value for key, record in one.records.items()}) for one in found] == [
        (both, {prefix + "a": b"2", prefix + "b": b"3"}),
        (gone, {prefix + "a": None}),
    ]


async def test_a_record_ends_with_its_lease(coordinator: Coordinator, prefix: str) -> None:
    lease = await coordinator.grant(60)
    assert lease.ttl_s >= 60
    written = await coordinator.commit((), [Put(prefix + "a", b"1", lease.id)])
    await coordinator.keep(lease.id, 5.0)
    await coordinator.revoke(lease.id)
    [changes] = await first_of(coordinator.watch(prefix, written.revision))
    assert changes.records == {prefix + "a": None}
    with pytest.raises(LeaseGoneError):
        await coordinator.keep(lease.id, 5.0)
    with pytest.raises(LeaseGoneError):
        await coordinator.commit((), [Put(prefix + "a", b"2", lease.id)])
    await coordinator.revoke(lease.id)


# --- the embedded one on its disk


async def test_an_embedded_one_goes_on_where_it_was(tmp_path: Path) -> None:
    state = the_state(tmp_path)
    before = EmbeddedCoordinator(state)
    lease = await before.grant(60)
    first = await put(before, "/a", b"1")
    await before.commit((), [Put("/b", b"2", lease.id), Put("/c", b"3")], ["/a"])
    listing = await before.get("/")
    await before.close()
    await state.close()

    state = the_state(tmp_path)
    after = EmbeddedCoordinator(state)
    assert await after.get("/") == listing
    with pytest.raises(WatchGoneError, match=f"changes before revision {listing.revision} are not kept"):
        await first_of(after.watch("/", first))
    await after.keep(lease.id, 5.0)
    await after.revoke(lease.id)
    assert list((await after.get("/")).records) == ["/c"], "a lease is known over a restart"
    await after.close()
    await state.close()


async def test_a_watch_of_an_embedded_one_that_is_far_behind_reads_again(tmp_path: Path) -> None:
    state = the_state(tmp_path)
    coordinator = EmbeddedCoordinator(state)
    since = await put(coordinator, "/a", b"")
    for _ in range(1001):
        await put(coordinator, "/a", b"")
    with pytest.raises(WatchGoneError):
        await first_of(coordinator.watch("/", since))
    assert len(await first_of(coordinator.watch("/", since + 1), 1000)) == 1000
    await coordinator.close()
    await state.close()

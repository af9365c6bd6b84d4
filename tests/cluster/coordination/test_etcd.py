"""The coordinator against real etcd: three members that are killed, paused, compacted, and one with users and TLS."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from cluster.coordination.coordinators import a_coordinator, first_of, put
from heliograph.cluster.coordination.etcd import EtcdCoordinator, EtcdLogin
from heliograph.cluster.coordination.interface import (
    VALUE_BYTES_MAX,
    CommitOutcome,
    Coordinator,
    CoordinatorAwayError,
    CoordinatorRefusedError,
    Put,
    WatchGoneError,
)
from heliograph.cluster.coordination.mirror import Mirror
from heliograph.outbound import Outbound
from heliograph.outbound.http import AsyncDialedTransport
from support.certificates import Authority
from support.etcd import Etcd

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    # Elections within a second: the members share their machine with other tests, so not sooner.
    quick = ("--heartbeat-interval", "50", "--election-timeout", "500")
    with Etcd(tmp_path_factory.mktemp("etcd"), 3, quick) as cluster:
        yield cluster


@pytest.fixture
async def coordinator(etcd: Etcd) -> AsyncIterator[EtcdCoordinator]:
    coordinator = a_coordinator(etcd)
    yield coordinator
    await coordinator.close()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Where the records of a test are; the members serve all tests."""
    return f"/{request.node.name}/"


async def until_committed(coordinator: Coordinator, key: str, value: bytes) -> None:
    """What every writer does: after an outcome that is not known it reads, and writes what is not there."""
    while True:
        try:
            if (await coordinator.commit((), [Put(key, value)])).outcome is CommitOutcome.COMMITTED:
                return
            record = (await coordinator.get(key)).records.get(key)
        except CoordinatorAwayError:
            continue
        if record is not None and record.value == value:
            return


# --- watches


async def test_a_watch_that_begins_before_a_compaction_says_so(
    etcd: Etcd, coordinator: EtcdCoordinator, prefix: str
) -> None:
    since = await put(coordinator, prefix + "a", b"1")
    await put(coordinator, prefix + "a", b"2")
    last = await put(coordinator, prefix + "a", b"3")
    etcd.ask("kv/compaction", {"revision": str(last)})
    with pytest.raises(WatchGoneError, match=f"has forgotten what was before revision {last}"):
        await first_of(coordinator.watch(prefix, since))


async def test_a_mirror_reads_again_what_a_compaction_took(
    etcd: Etcd, coordinator: EtcdCoordinator, prefix: str
) -> None:
    await put(coordinator, prefix + "a", b"1")
    last = await put(coordinator, prefix + "a", b"2")
    etcd.ask("kv/compaction", {"revision": str(last)})
    seen: asyncio.Queue[dict[str, bytes]] = asyncio.Queue()
    mirror = Mirror(
        coordinator,
        prefix,
        lambda keys: seen.put_nowait({key: mirror.records[key].value for key in keys if key in mirror.records}),
        lambda reason: None,
    )
    running = asyncio.create_task(mirror.run())
    assert await seen.get() == {prefix + "a": b"2"}
    await put(coordinator, prefix + "a", b"3")
    assert await seen.get() == {prefix + "a": b"3"}
    await coordinator.commit((), (), [prefix + "a"])
    assert await seen.get() == {}
    running.cancel()


# --- members that end, stop and come back


async def test_nothing_is_lost_or_doubled_while_members_are_killed(
    etcd: Etcd, coordinator: EtcdCoordinator, prefix: str
) -> None:
    since = (await coordinator.get(prefix)).revision
    observer = a_coordinator(etcd, first=etcd.leader())
    values = [b"%d" % number for number in range(30)]
    watched: list[bytes] = []

    async def observe() -> None:
        async for changes in observer.watch(prefix, since):
            for record in changes.records.values():
                assert record is not None
                if watched[-1:] != [record.value]:  # a writer that could not know writes the same again
                    watched.append(record.value)
            if watched[-1:] == values[-1:]:
                return

    watching = asyncio.create_task(observe())
    for number, value in enumerate(values):
        if number in (10, 20):
            leader = await asyncio.to_thread(etcd.leader)
            await asyncio.to_thread(etcd.kill, leader)
        await until_committed(coordinator, prefix + "a", value)
        if number in (15, 25):
            await asyncio.to_thread(etcd.start, leader)
    await watching
    assert watched == values
    await observer.close()


async def test_a_member_that_hangs_is_left_for_another(etcd: Etcd, prefix: str) -> None:
    follower = next(one for one in range(3) if one != etcd.leader())
    coordinator = a_coordinator(etcd, first=follower)
    await put(coordinator, prefix + "a", b"1")
    with etcd.paused(follower):
        assert (await coordinator.get(prefix)).records[prefix + "a"].value == b"1"
        await put(coordinator, prefix + "a", b"2")
    await coordinator.close()


async def test_without_a_quorum_nothing_is_known_and_what_hears_says_so(
    etcd: Etcd, coordinator: EtcdCoordinator, prefix: str
) -> None:
    await put(coordinator, prefix + "a", b"1")
    heard: asyncio.Queue[str] = asyncio.Queue()
    mirror = Mirror(coordinator, prefix, lambda keys: heard.put_nowait("records"), heard.put_nowait)
    running = asyncio.create_task(mirror.run())
    assert await heard.get() == "records"
    for member in (1, 2):
        await asyncio.to_thread(etcd.kill, member)
    try:
        assert await heard.get() not in ("records", "")
        assert mirror.records[prefix + "a"].value == b"1", "what was known holds"
        with pytest.raises(CoordinatorAwayError):
            await coordinator.get(prefix)
        outcomes = {(await coordinator.commit((), [Put(prefix + "b", b"2")])).outcome for _ in range(2)}
        assert outcomes == {CommitOutcome.UNKNOWN}
    finally:
        await asyncio.to_thread(etcd.start, 1, 2)
    assert await heard.get() == "", "it is heard again"
    running.cancel()
    await until_committed(coordinator, prefix + "b", b"3")


async def test_nothing_listens(etcd: Etcd) -> None:
    transport = AsyncDialedTransport(Outbound().dialer("cluster.coordination"))
    coordinator = EtcdCoordinator(["http://127.0.0.1:1", "http://127.0.0.1:2/"], transport)
    with pytest.raises(CoordinatorAwayError, match=r"http://127.0.0.1:1: .*; http://127.0.0.1:2: "):
        await coordinator.commit((), [Put("/a", b"")])
    with pytest.raises(CoordinatorAwayError, match=r"http://127.0.0.1:1: .*; http://127.0.0.1:2: "):
        await first_of(coordinator.watch("/a", 1))
    await coordinator.close()


# --- users, TLS, and a disk that is full


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder)
    quota = ("--quota-backend-bytes", str(2 << 20))
    with Etcd(folder, 1, quota, tls=(authority.server(), authority.cafile)) as cluster:
        cluster.ask("auth/user/add", {"name": "root", "password": "r00t"})
        cluster.ask("auth/user/grant", {"user": "root", "role": "root"})
        cluster.ask("auth/enable", {})
        yield cluster


async def test_a_login_that_ends_is_made_again(guarded: Etcd) -> None:
    coordinator = a_coordinator(guarded, EtcdLogin("root", "r00t"))
    since = await put(coordinator, "/a", b"1")
    guarded.kill(0)  # which forgets the tokens that it gave
    guarded.start()
    last = await put(coordinator, "/a", b"2")
    other = a_coordinator(guarded, EtcdLogin("root", "r00t"))
    assert [one.revision for one in await first_of(other.watch("/a", since))] == [last], "a watch logs in too"
    for one in (coordinator, other):
        await one.close()


@pytest.mark.parametrize(
    ("login", "fault"),
    [
        (None, "user name is empty"),
        (EtcdLogin("root", "wrong"), "authentication failed, invalid user ID or password"),
    ],
)
async def test_a_wrong_login_is_refused(guarded: Etcd, login: EtcdLogin | None, fault: str) -> None:
    coordinator = a_coordinator(guarded, login)
    with pytest.raises(CoordinatorRefusedError, match=fault):
        await coordinator.get("/a")
    with pytest.raises(CoordinatorRefusedError, match=fault):
        await first_of(coordinator.watch("/a", 1))
    await coordinator.close()


async def test_a_certificate_that_does_not_hold_is_no_member(guarded: Etcd) -> None:
    transport = AsyncDialedTransport(Outbound().dialer("cluster.coordination"))
    coordinator = EtcdCoordinator(guarded.endpoints, transport)
    with pytest.raises(CoordinatorAwayError, match="certificate"):
        await coordinator.get("/a")
    await coordinator.close()


async def test_a_full_database_refuses_and_says_so(guarded: Etcd) -> None:
    coordinator = a_coordinator(guarded, EtcdLogin("root", "r00t"))

    async def fill() -> None:
        for number in range(200):
            await put(coordinator, f"/{number}", bytes(VALUE_BYTES_MAX))

    with pytest.raises(CoordinatorRefusedError, match="database space exceeded"):
        await fill()
    await coordinator.close()

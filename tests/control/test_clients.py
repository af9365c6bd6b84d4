"""Clients are listed, shown and kicked: connected or away, in memory or on the disk only."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from heliograph.access.bans.ban_list import BanList
from heliograph.broker.walkable import Listed
from heliograph.control import clients
from heliograph.control.proto_v1.clients import ClientDetails, ClientId, ClientRow, ClientsFilter, ClientsPage
from heliograph.control.refusals import ClientTroubles
from heliograph.mqtt import packets as p
from heliograph.rpc.methods import RpcError
from heliograph.session.known import Asleep
from heliograph.session.session import Session
from support.asking import Asker
from support.durable import DurableKernel, leave
from support.forms import examples
from support.kernel import Kernel, Peer
from support.packets import properties

ASLEEP_S = 200  # longer than a session stays in memory whose client is away


def asked(kernel: Kernel) -> Asker:
    return Asker(clients.methods(kernel.context, ClientTroubles(BanList(lambda: 0), kernel.context)), kernel.run)


def rows(kernel: Kernel, **wanted: object) -> list[ClientRow]:
    page = ClientsPage(msgspec.convert(wanted, ClientsFilter))
    return [msgspec.convert(row, ClientRow) for part in asked(kernel).slices("clients.list", page) for row in part]


def listed(kernel: Kernel) -> list[str]:
    return sorted(row.clientid for row in rows(kernel))


def shown(kernel: Kernel, clientid: str) -> ClientDetails:
    details = asked(kernel).ask("clients.show", ClientId(clientid))
    assert isinstance(details, ClientDetails)
    return details


def test_who_publishes_most_is_seen_in_the_list() -> None:
    kernel = Kernel()
    loud, quiet = kernel.connect("loud"), kernel.connect("quiet", session_expiry_interval=60)
    quiet.subscribe("t", 1)
    for qos in (0, 1, 1):
        loud.publish("t", b"x", qos)
    assert {row.clientid: (row.traffic.received, row.traffic.sent) for row in rows(kernel)} == {
        "loud": (3, 0),
        "quiet": (0, 3),
    }
    quiet.drop()
    (row,) = rows(kernel, connected=False)
    assert (row.traffic.received, row.traffic.sent) == (None, None)


def test_a_client_is_shown_with_its_connection_and_its_will() -> None:
    kernel = Kernel()
    kernel.connect("c", will=p.Will("w", b"gone", 0, False, properties()), session_expiry_interval=9)
    details = shown(kernel, "c")
    row = details.client
    assert (details.will_topic, details.will_is_delayed, row.held.inflight_max, row.held.mqueue_max) == (
        "w",
        False,
        32,
        1000,
    )
    assert (row.traffic.recv_oct or 0) > 20
    assert (row.traffic.send_oct or 0) > 4
    assert (row.traffic.unsent_bytes, row.drops.by_reason, row.life.expiry_interval) == (0, {}, 9)
    with pytest.raises(RpcError, match="no client has the id 'nobody'"):
        shown(kernel, "nobody")


def test_a_kick_ends_connection_and_session_and_publishes_the_will() -> None:
    kernel = Kernel()
    watcher = kernel.connect("watcher")
    watcher.subscribe("w")
    victim = kernel.connect(
        "c", will=p.Will("w", b"gone", 0, False, properties(will_delay_interval=100)), session_expiry_interval=600
    )
    answer = asked(kernel).ask("clients.kick", ClientId("c"))
    kernel.run()
    assert (answer.was_connected, victim.heard()) == (True, ["DISCONNECT 0x98"])
    assert watcher.take(p.Publish).payload == b"gone"
    assert listed(kernel) == ["watcher"]
    with pytest.raises(RpcError, match="no client"):
        asked(kernel).ask("clients.kick", ClientId("c"))


def test_sessions_on_the_disk_only_are_listed_shown_and_kicked(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "sleeper", "t", "u", expiry_s=6000)
    leave(kernel, "other", "t", expiry_s=6000)
    left_at = kernel.now_us
    kernel = kernel.crash()
    (sleeper,) = rows(kernel, clientid_like="sleep")
    assert (sleeper.life.asleep, sleeper.life.durable, sleeper.connection.is_open, sleeper.life.expiry_interval) == (
        True,
        True,
        False,
        6000,
    )
    assert sleeper.held.subscriptions_cnt is None
    assert sleeper.life.disconnected_at is not None
    assert sleeper.life.disconnected_at >= left_at - 10_000_000
    details = shown(kernel, "sleeper").client
    assert (details.life.asleep, details.held.subscriptions_cnt, details.life.disconnected_at) == (
        False,
        2,
        sleeper.life.disconnected_at,
    )
    for clientid in ("sleeper", "other"):
        assert not asked(kernel).ask("clients.kick", ClientId(clientid)).was_connected
    kernel.run()
    assert listed(kernel) == listed(kernel.crash()) == []
    assert not any(b"sleeper" in key or b"other" in key for key in kernel.disk)


class Listing:
    """A list under way: what it must tell, and what it has told."""

    def __init__(self, present: set[str], entries: Iterator[Listed]) -> None:
        self.must = present
        self.told: list[str] = []
        self.is_over = False
        self._entries = entries

    def go_on(self) -> None:
        entry = next(self._entries, None)
        if entry is None:
            self.is_over = True
            return
        assert isinstance(entry, Session | Asleep)
        assert entry.clientid not in self.told, "told twice"
        self.told.append(entry.clientid)


class ChangingClients(RuleBasedStateMachine):
    """Clients come, go, subscribe, fall asleep and end while lists of them are under way."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.kernel = DurableKernel(Path(self.folder.name))
        self.peers: dict[str, Peer] = {}
        self.serial = 0
        self.lists: list[Listing] = []

    def teardown(self) -> None:
        self.kernel.database.close()
        self.folder.cleanup()

    def _ended(self, clientid: str) -> None:
        for listing in self.lists:
            listing.must.discard(clientid)

    @rule(number=st.integers(0, 9), expiry_s=st.sampled_from([0, 100_000]), clean=st.booleans())
    def come(self, number: int, expiry_s: int, clean: bool) -> None:
        clientid = f"c{number}"
        sessions = self.kernel.sessions
        before, was_known = sessions.held(clientid), sessions.knows(clientid)
        peer = self.kernel.come(clientid, clean_start=clean, expiry_s=expiry_s)
        self.kernel.run()
        has_ended = before is not None and sessions.held(clientid) is not before  # with the connection that had it
        if clean or has_ended or not was_known:
            self._ended(clientid)
        self.peers[clientid] = peer
        peer.skip()

    @precondition(lambda self: self.peers)
    @rule(at=st.integers(0, 9))
    def go(self, at: int) -> None:
        clientid = sorted(self.peers)[at % len(self.peers)]
        self.peers.pop(clientid).drop()
        self.kernel.run()
        if not self.kernel.sessions.knows(clientid):
            self._ended(clientid)

    @precondition(lambda self: self.peers)
    @rule(at=st.integers(0, 9))
    def subscribe(self, at: int) -> None:
        peer = self.peers[sorted(self.peers)[at % len(self.peers)]]
        self.serial += 1
        peer.subscribe(f"t/{self.serial % 3}", 1)

    @rule()
    def fall_asleep(self) -> None:
        for _ in range(3):
            self.kernel.advance(ASLEEP_S)
        for peer in self.peers.values():
            peer.skip()

    @rule(number=st.integers(0, 9))
    def kick(self, number: int) -> None:
        clientid = f"c{number}"
        if self.kernel.sessions.knows(clientid):
            asked(self.kernel).ask("clients.kick", ClientId(clientid))
            self.kernel.run()
            self.peers.pop(clientid, None)
            self._ended(clientid)

    @precondition(lambda self: len(self.lists) < 3)
    @rule()
    def begin(self) -> None:
        walk = self.kernel.sessions.walk()
        entries = (entry for taken in iter(lambda: walk.take(1), []) for entry in taken)
        present = {f"c{number}" for number in range(10) if self.kernel.sessions.knows(f"c{number}")}
        listing = Listing(present, entries)
        listing.go_on()  # a walk begins with its first step
        self.lists.append(listing)

    @precondition(lambda self: self.lists)
    @rule(which=st.integers(0, 2), count=st.integers(1, 4))
    def go_on(self, which: int, count: int) -> None:
        listing = self.lists[which % len(self.lists)]
        for _ in range(count):
            listing.go_on()
        if listing.is_over:
            assert listing.must <= set(listing.told), "there the whole time, and not told"
            self.lists.remove(listing)

    @precondition(lambda self: self.lists)
    @rule(which=st.integers(0, 2))
    def give_up(self, which: int) -> None:
        self.lists.pop(which % len(self.lists))


TestChangingClients = ChangingClients.TestCase
TestChangingClients.settings = settings(max_examples=examples(20), stateful_step_count=30, deadline=None)

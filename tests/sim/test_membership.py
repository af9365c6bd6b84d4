"""Nodes that join, leave and come back while their coordinator is in trouble: no two have one name or one number."""

import random
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
import pytest

from heliograph.cluster.coordination.interface import Commit, Put
from heliograph.cluster.membership import ClusterMember, ClusterMembership
from sim.coordinator import EmbeddedServer, Server, SimulatedCoordinator, server_of
from sim.machine import Machine, Machines
from support.forms import seeds

_TTL_S = 5
_SEEDS = 100


class Node:
    """A node as far as it is a member."""

    def __init__(self, machine: Machine, server: Server, own: ClusterMember) -> None:
        self.machine = machine
        self.waits_for = ""
        self.unreadable: list[str] = []
        self._server = server
        self._own = own
        self.membership: ClusterMembership
        self.start()

    def start(self) -> None:
        """A process begins."""
        self._own = msgspec.structs.replace(self._own, incarnation=self._own.incarnation + 1)
        with self.machine.running():
            self.membership = ClusterMembership(
                self._server.client(self.machine),
                "farm",
                self._own,
                _TTL_S,
                on_members=lambda: None,
                on_waiting=self._on_waiting,
                on_unreadable=self._on_unreadable,
                on_away=lambda reason: None,
            )
            self.machine.loop.create_task(self.membership.run())

    def kill(self) -> None:
        """It ends, and begins at once."""
        self._own = self.membership.own
        self.machine.new_process()
        self.start()

    @property
    def is_member(self) -> bool:
        with self.machine.running():
            return not self.machine.is_paused and self.membership.is_member

    def _on_waiting(self, reason: str) -> None:
        self.waits_for = reason

    def _on_unreadable(self, keys: Collection[str]) -> None:
        self.unreadable = list(keys)


def a_member(number: int, name: str, chance: random.Random) -> ClusterMember:
    return ClusterMember(f"{number:016x}", name, chance.randrange(2), 0, "core", f"192.0.2.{number}:5370", "1.0.0")


def run(machines: Machines, seconds: float, nodes: list[Node]) -> None:
    until_us = machines.time.us + round(seconds * 1e6)
    while machines.turn(until_us):
        members = [node.membership.own for node in nodes if node.is_member]
        for what in ("number", "node"):
            counts = Counter(getattr(member, what) for member in members)
            assert not members or counts.most_common(1)[0][1] == 1, f"{what} of two nodes at {machines.time.us} us"


def trouble(machines: Machines, server: Server, nodes: list[Node], chance: random.Random) -> None:
    what = chance.random()
    if what < 0.3:
        chance.choice(nodes).machine.pause(chance.randrange(1, 12_000_000))
    elif what < 0.6:
        chance.choice(nodes).kill()
    elif isinstance(server, EmbeddedServer):
        server.kill(power=chance.random() < 0.7)
        machines.agenda.after(chance.randrange(1, 8_000_000), server.start)
    elif what < 0.9:
        server.lose_quorum()
        machines.agenda.after(chance.randrange(1, 15_000_000), server.regain_quorum)
    else:
        server.compact()


def simulate(kind: str, seed: int, path: Path) -> None:
    chance, machines = random.Random(seed), Machines()
    with machines.installed():
        server = server_of(kind, machines, chance, path / str(seed))
        nodes = [
            Node(machines.add(f"{seed} {number}"), server, a_member(number, f"node-{number}", chance))
            for number in range(4)
        ]
        for _ in range(8):
            run(machines, 9.0 if kind == "embedded" else chance.uniform(0.1, 9.0), nodes)
            trouble(machines, server, nodes, chance)
        server.losses, server.latency_us = 0.0, 500
        run(machines, 30.0, nodes)
        assert [(node.is_member, node.waits_for) for node in nodes] == [(True, "")] * 4, f"seed {seed}"
        members = {node.membership.own.site: node.membership.own for node in nodes}
        known = [set(node.membership.members) for node in nodes]
        assert known == [set(members)] * 4, f"seed {seed}: all know all"
        assert all(node.membership.members == nodes[0].membership.members for node in nodes)
        assert len({node.membership.revision for node in nodes}) == 1


@pytest.mark.parametrize("seed", seeds(_SEEDS, 4))
@pytest.mark.parametrize("kind", ["etcd", "embedded"])
def test_no_two_members_have_one_name_or_number(kind: str, seed: int, tmp_path: Path) -> None:
    simulate(kind, seed, tmp_path)


def test_a_commit_that_compares_nothing_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def search() -> None:
        for seed in range(200):
            simulate("etcd", seed, tmp_path)

    commit = SimulatedCoordinator.commit

    def compare_nothing(
        self: SimulatedCoordinator, guards: object, puts: Collection[Put], deletes: Collection[str]
    ) -> Commit:
        return commit(self, (), puts, deletes)

    monkeypatch.setattr(SimulatedCoordinator, "commit", compare_nothing)
    with pytest.raises(AssertionError, match="of two nodes"):
        search()


# --- without trouble


class Quiet:
    """A coordinator that answers, and what is asked of it."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.server = SimulatedCoordinator(machines.time, machines.agenda, random.Random(1))
        self.server.losses, self.server.latency_us = 0.0, 500
        self.nodes: list[Node] = []

    def node(self, own: ClusterMember) -> Node:
        """A node that has tried to join."""
        node = Node(self.machines.add(f"{own.site} {len(self.nodes)}"), self.server, own)
        self.nodes.append(node)
        self.run(2.0)
        return node

    def run(self, seconds: float) -> None:
        run(self.machines, seconds, [])


@pytest.fixture
def quiet() -> Iterator[Quiet]:
    machines = Machines()
    with machines.installed():
        yield Quiet(machines)


def a_plain(site: int, name: str, number: int = 7) -> ClusterMember:
    return ClusterMember(f"{site:016x}", name, number, 0, "core", f"192.0.2.{site}:5370", "1.0.0")


def test_a_name_belongs_to_one_site_also_while_its_node_is_away(quiet: Quiet) -> None:
    first = quiet.node(a_plain(1, "north"))
    first.machine.new_process()
    quiet.run(20.0)
    second = quiet.node(a_plain(2, "north"))
    assert not second.is_member
    assert second.waits_for == f"the name 'north' belongs to the site {1:016x}: set another `node.name`"
    first.start()
    quiet.run(2.0)
    assert first.is_member


def test_a_number_that_another_site_has_is_changed(quiet: Quiet) -> None:
    first, second = quiet.node(a_plain(1, "north")), quiet.node(a_plain(2, "south"))
    assert (first.is_member, second.is_member) == (True, True)
    assert first.membership.own.number == 7
    assert second.membership.own.number not in (7, None)
    number = second.membership.own.number
    second.kill()
    quiet.run(2.0)
    assert second.membership.own.number == number, "a node keeps the number that it was given"


def test_the_process_of_a_copied_data_directory_is_noticed(quiet: Quiet) -> None:
    first = quiet.node(a_plain(1, "north"))
    copy = quiet.node(msgspec.structs.replace(a_plain(1, "north"), incarnation=5, address="192.0.2.9:5370"))
    assert (first.is_member, copy.is_member) == (False, True)
    quiet.run(10.0)
    assert first.waits_for == f"the site {1:016x} runs at 192.0.2.9:5370: is its data directory a copy of this one?"
    assert copy.waits_for == ""


def test_a_node_that_leaves_is_gone_at_once(quiet: Quiet) -> None:
    first, second = quiet.node(a_plain(1, "north")), quiet.node(a_plain(2, "south"))
    second.machine.loop.create_task(second.membership.leave())
    quiet.run(0.1)
    assert list(first.membership.members) == [f"{1:016x}"]


def test_a_node_whose_record_is_removed_joins_again(quiet: Quiet) -> None:
    node = quiet.node(a_plain(1, "north"))
    quiet.server.commit((), (), [f"/heliograph/farm/nodes/{1:016x}"])
    quiet.run(0.1)
    assert not node.is_member
    assert "was removed, or another process has it" in node.waits_for
    quiet.run(5.0)
    assert (node.is_member, node.waits_for) == (True, "")


def test_a_record_that_cannot_be_read_is_named_until_it_can(quiet: Quiet) -> None:
    node = quiet.node(a_plain(1, "north"))
    key = "/heliograph/farm/nodes/00000000000000aa"
    for value in (b"\xff", b"{}", b'{"site": 1}'):
        quiet.server.commit((), [Put(key, value)], ())
        quiet.run(1.0)
        assert node.unreadable == [key]
        assert list(node.membership.members) == [f"{1:016x}"]
    quiet.server.commit((), (), [key])
    quiet.run(1.0)
    assert node.unreadable == []

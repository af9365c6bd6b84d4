"""Seeded histories of a durable group: members come, go, stop reading and crash, and the broker is killed at any time.

In the end every message went to a member: at QoS 1 to at least one, at QoS 2 to exactly one. Only a QoS 2 message that
a session in memory had when it ended, be it with the broker, may have died with it: nobody else may get it.
"""

import random
from collections import Counter
from pathlib import Path

import pytest

from heliograph.config.sessions import DurableSessionsConfig
from heliograph.mqtt import packets as p
from heliograph.session.options import SessionOptions
from heliograph.shared_groups.protocol import Timers
from support.clients import Actor, Publisher, Subscriber
from support.clients import World as Place
from support.groups import GroupKernel

TOPICS = ("t/0", "t/1", "t/2")
FILTER = "$share/g/t/#"


class Member(Subscriber):
    """A member of the group; without a durable session it subscribes each time it comes."""

    def __init__(self, clientid: str, qos: int, is_durable: bool) -> None:
        super().__init__(clientid, FILTER, qos)
        self.is_durable = is_durable
        self.risked: set[bytes] = set()
        self._claimed: set[bytes] = set()  # what it was to be sent, be it that it gave it back

    def come(self, world: Place) -> None:
        self.peer = world.kernel.peer(p.V5)
        expiry = 100_000 if self.is_durable else 0
        self.peer.connect(self.clientid, clean_start=False, session_expiry_interval=expiry)

    def on_packet(self, world: Place, packet: p.Packet) -> None:
        super().on_packet(world, packet)
        self.is_known = self.is_known and self.is_durable

    def leave(self, politely: bool) -> None:
        self.note_risks(False)
        super().leave(politely)

    def note_claims(self, kernel: GroupKernel) -> None:
        """What nobody else gets, though it was not sent yet."""
        session = None if self.is_durable else kernel.sessions.find(self.clientid)
        if session is not None:
            self._claimed |= set(kernel.groups.claimed_by(session))

    def note_risks(self, is_crash: bool) -> None:
        """What dies with its session, if that is in memory."""
        peer = self.peer
        if is_crash:  # that it gave some back may not be on the disk yet
            self.risked |= self._claimed
            self._claimed = set()
        if peer is None or self.is_durable or self.qos != 2:
            return
        kernel = peer.kernel
        assert isinstance(kernel, GroupKernel)
        session = kernel.sessions.find(self.clientid)
        if session is not None:
            self.risked |= {delivery.message.payload for delivery in session._inflight.values()}


class World:
    def __init__(self, path: Path, seed: int, qos: int) -> None:
        self.random = random.Random(seed)
        self.qos = qos
        options = SessionOptions(max_inflight=self.random.choice((1, 3, 20)))
        settings = DurableSessionsConfig(batch_size=self.random.choice((3, 512)))
        timers = Timers(stall_us=2_000_000, revoke_timeout_us=3_000_000)
        self.kernel = GroupKernel(path, session_options=options, settings=settings, timers=timers)
        self.kernel.automatic = False
        self.publishers = [Publisher(f"pub-{number}") for number in range(4)]
        self.members = [Member("durable-1", qos, True), Member("durable-2", qos, True), Member("durable-3", qos, True)]
        self.members.append(Member("memory", qos, False))
        self.actors: list[Actor] = [*self.publishers, *self.members]

    def settle(self) -> None:
        """Let everything be done that is under way, with everybody connected."""
        quiet = 0
        while quiet < 12:
            before = [len(one.got) for one in self.members]
            for actor in self.actors:
                if actor.peer is None:
                    actor.come(self)
            self.commit_all()
            for actor in self.actors:
                actor.read(self)
            for member in self.members:
                member.acknowledge(1000)
            self.commit_all()
            self.kernel.advance(1)
            self.commit_all()
            is_open = any(publisher.open for publisher in self.publishers)
            is_same = before == [len(one.got) for one in self.members]
            quiet = quiet + 1 if is_same and not is_open else 0

    def commit_all(self) -> None:
        kernel = self.kernel
        while kernel.sink.messages or kernel.state.waiting or kernel.group_state.waiting:
            if kernel.sink.messages:
                kernel.commit()
            if kernel.state.waiting:
                kernel.commit_state()
            if kernel.group_state.waiting:
                kernel.commit_groups()

    def crash(self) -> None:
        kernel, chance = self.kernel, self.random
        for member in self.members:
            member.note_risks(True)
        if kernel.sink.messages and chance.random() < 0.5:
            ticket = kernel.sink.messages[0][0]
            kernel.database.write([message for number, message in kernel.sink.messages if number == ticket])
        for state in (kernel.state, kernel.group_state):
            for _ in range(chance.randrange(len(state.waiting) + 1)):
                state.apply_first()
        self.kernel = kernel.crash(chance.random())
        self.kernel.automatic = False
        for actor in self.actors:
            actor.lost()

    def step(self) -> None:
        chance, kernel = self.random, self.kernel
        kernel.now_us += 1
        what = chance.random()
        actor = chance.choice(self.actors)
        if what < 0.30:
            publisher = chance.choice(self.publishers)
            for _ in range(chance.choice((1, 1, 8))):
                publisher.publish(self, chance.choice(TOPICS), self.qos)
        elif what < 0.42:
            if kernel.sink.messages:
                kernel.commit()
        elif what < 0.54:
            if kernel.state.waiting:
                kernel.commit_state()
        elif what < 0.64:
            if kernel.group_state.waiting:
                kernel.commit_groups()
        elif what < 0.67:
            kernel.sink.cut()
        elif what < 0.76:
            if actor.peer is None:
                actor.come(self)
        elif what < 0.79:
            actor.leave(chance.random() < 0.5)
        elif what < 0.96:
            actor.read(self)
            if isinstance(actor, Member):
                actor.acknowledge(chance.randrange(10))
        elif what < 0.99:
            kernel.advance(chance.random() * 2)
        else:
            self.crash()
        for member in self.members:
            member.note_claims(self.kernel)

    def check(self) -> None:
        counts = Counter(payload for member in self.members for payload in member.got)
        published = {payload for publisher in self.publishers for _, payload, _ in publisher.published}
        assert set(counts) <= published
        missing = sorted(published - set(counts))
        if self.qos == 1:
            assert not missing
        else:
            assert [payload for payload, count in counts.items() if count > 1] == []
            assert set(missing) <= set().union(*(member.risked for member in self.members))


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("seed", range(12))
def test_every_message_goes_to_a_member(tmp_path: Path, seed: int, qos: int) -> None:
    run(tmp_path, seed, qos, 400)


def run(path: Path, seed: int, qos: int, steps: int) -> None:
    world = World(path, seed, qos)
    world.settle()
    for _ in range(steps):
        world.step()
    world.settle()
    world.check()
    world.kernel.database.close()

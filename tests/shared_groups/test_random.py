"""Seeded histories of a durable group: members come, go, stop reading and crash, and the broker is killed at any time.

In the end every message went to a member: at QoS 1 to at least one, at QoS 2 to exactly one. Only a QoS 2 message that
a session in memory had when it ended, be it with the broker, may have died with it: nobody else may get it.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.config.storage import DurableSessionsConfig
from heliograph.mqtt import packets as p
from heliograph.session.mqueue import PUBLISHED, RELEASED, Delivery
from heliograph.shared_groups.protocol import Timers
from support.clients import Actor, Publisher, Subscriber
from support.clients import World as Place
from support.durable import FakeState
from support.forms import seeds
from support.groups import GroupKernel
from support.histories import History
from support.options import SESSION
from support.reach import reachable

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
            self._claimed |= kernel.claimed_by(session)

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
            held = reachable(session, Delivery, within="heliograph.session")
            self.risked |= {one.message.payload for one in held if one.phase in (PUBLISHED, RELEASED)}


class World(History):
    kernel: GroupKernel
    topics = TOPICS

    def __init__(self, path: Path, seed: int, qos: int) -> None:
        chance = random.Random(seed)
        self.qos = (qos,)
        options = replace(SESSION, max_inflight=chance.choice((1, 3, 20)))
        settings = DurableSessionsConfig(batch_size=chance.choice((3, 512)))
        rest_us = chance.choice((0, 1_000_000, 10_000_000))
        timers = Timers(stall_us=2_000_000, revoke_timeout_us=3_000_000, rest_us=rest_us)
        kernel = GroupKernel(path, session_options=options, settings=settings, timers=timers)
        self.members = [Member("durable-1", qos, True), Member("durable-2", qos, True), Member("durable-3", qos, True)]
        self.members.append(Member("memory", qos, False))
        super().__init__(chance, kernel, [Publisher(f"pub-{number}") for number in range(4)], self.members)

    def states(self) -> list[tuple[FakeState, Callable[[], None]]]:
        return [*super().states(), (self.kernel.group_state, self.kernel.commit_groups)]

    def acts(self) -> list[tuple[float, Callable[[Actor], None]]]:
        return [
            (0.30, self.publish),
            (0.42, self.commit_messages),
            (0.54, lambda _: self.commit_state(0)),
            (0.64, lambda _: self.commit_state(1)),
            (0.67, self.cut),
            (0.76, self.come),
            (0.79, self.leave),
            (0.96, self.read),
            (0.99, self.pass_time),
            (1.00, self.crash),
        ]

    def step(self) -> None:
        super().step()
        for member in self.members:
            member.note_claims(self.kernel)

    def crash(self, _actor: Actor | None = None) -> None:
        for member in self.members:
            member.note_risks(True)
        super().crash(_actor)

    def check(self) -> None:
        counts = Counter(payload for member in self.members for payload in member.got)
        published = {payload for publisher in self.publishers for _, payload, _ in publisher.published}
        assert set(counts) <= published
        missing = sorted(published - set(counts))
        if self.qos == (1,):
            assert not missing
        else:
            assert [payload for payload, count in counts.items() if count > 1] == []
            assert set(missing) <= set().union(*(member.risked for member in self.members))


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("seed", seeds(12, 2))
def test_every_message_goes_to_a_member(tmp_path: Path, seed: int, qos: int) -> None:
    run(tmp_path, seed, qos, 400)


def run(path: Path, seed: int, qos: int, steps: int) -> None:
    world = World(path, seed, qos)
    world.run(steps)
    world.check()
    world.kernel.database.close()

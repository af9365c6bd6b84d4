"""Seeded histories of clients that come and go, commits that take their time, and a broker that is killed at any time.

Clients keep to the specification: subscribers acknowledge late or never, publishers repeat what was not acknowledged.
In the end everybody has everything: at QoS 1 at least once, at QoS 2 exactly once, in the order of each publisher and
topic.
"""

import random
from collections import Counter
from pathlib import Path

import pytest

from heliograph.broker.hooks import OK
from heliograph.broker.message import Message, make_message
from heliograph.config.sessions import DurableSessionsConfig
from heliograph.mqtt.properties import encode_properties
from heliograph.session.options import SessionOptions
from support.clients import Actor, Publisher, Subscriber
from support.durable import DurableKernel
from support.packets import properties

TOPICS = ("t/0", "t/1", "u/0")


class World:
    def __init__(self, path: Path, seed: int, *, stamps: bool = False) -> None:
        self.random = random.Random(seed)
        options = SessionOptions(
            max_inflight=self.random.choice((1, 3, 20)), max_mqueue_len=self.random.choice((2, 30))
        )
        settings = DurableSessionsConfig(batch_size=self.random.choice((3, 512)))
        self.kernel = DurableKernel(path, session_options=options, settings=settings)
        self.kernel.automatic = False
        self._stamps = stamps
        self._hook_in()
        self.publishers = [Publisher(f"pub-{number}") for number in range(2)]
        self.subscribers = [
            Subscriber("one", "t/#", 1),
            Subscriber("two", "t/#", 2),
            Subscriber("all", "#", 2),
            Subscriber("exact", "u/0", 2),
        ]
        self.actors: list[Actor] = [*self.publishers, *self.subscribers]

    def _hook_in(self) -> None:
        if self._stamps:
            point = self.kernel.broker.hooks.message_publish
            point.add(lambda message: (OK, stamped(message)), 0, None, stamped)

    def settle(self) -> None:
        """Let everything be done that is under way, with everybody connected."""
        quiet = 0
        while quiet < 5:
            before = self.kernel.durable.statistics(), [len(one.got) for one in self.subscribers]
            for actor in self.actors:
                if actor.peer is None:
                    actor.come(self)
            self.commit_all()
            for actor in self.actors:
                actor.read(self)
            for subscriber in self.subscribers:
                subscriber.acknowledge(1000)
            self.commit_all()
            self.kernel.advance(1)
            after = self.kernel.durable.statistics(), [len(one.got) for one in self.subscribers]
            is_open = any(publisher.open for publisher in self.publishers)
            quiet = quiet + 1 if before == after and not is_open else 0

    def commit_all(self) -> None:
        while self.kernel.sink.messages or self.kernel.state.waiting:
            if self.kernel.sink.messages:
                self.kernel.commit()
            if self.kernel.state.waiting:
                self.kernel.commit_state()

    def crash(self) -> None:
        kernel, chance = self.kernel, self.random
        # Written, but nobody was told of it: any beginning of what waits.
        if kernel.sink.messages and chance.random() < 0.5:
            ticket = kernel.sink.messages[0][0]
            kernel.database.write([message for number, message in kernel.sink.messages if number == ticket])
        for _ in range(chance.randrange(len(kernel.state.waiting) + 1)):
            kernel.state.apply_first()
        self.kernel = kernel.crash(chance.random())
        self.kernel.automatic = False
        self._hook_in()
        for actor in self.actors:
            actor.lost()

    def step(self) -> None:
        chance, kernel = self.random, self.kernel
        kernel.now_us += 1  # no two turns have the same time
        what = chance.random()
        actor = chance.choice(self.actors)
        if what < 0.30:
            publisher = chance.choice(self.publishers)
            for _ in range(chance.choice((1, 1, 8))):
                publisher.publish(self, chance.choice(TOPICS), chance.choice((1, 2, 2)))
        elif what < 0.45:
            if kernel.sink.messages:
                kernel.commit()
        elif what < 0.60:
            if kernel.state.waiting:
                kernel.commit_state()
        elif what < 0.65:
            kernel.sink.cut()
        elif what < 0.75:
            if actor.peer is None:
                actor.come(self)
        elif what < 0.79:
            actor.leave(chance.random() < 0.5)
        elif what < 0.97:
            actor.read(self)
            if isinstance(actor, Subscriber):
                actor.acknowledge(chance.randrange(10))
        elif what < 0.99:
            kernel.advance(chance.random() * 2)
        else:
            self.crash()

    def check(self) -> None:
        for subscriber in self.subscribers:
            prefix = subscriber.topic_filter.rstrip("#")
            counts = Counter(subscriber.got)
            first = list(dict.fromkeys(subscriber.got))
            entitled: set[bytes] = set()
            for publisher in self.publishers:
                wanted = [one for one in publisher.published if one[0].startswith(prefix)]
                entitled |= {payload for _, payload, _ in wanted}
                for _, payload, qos in wanted:
                    assert counts[payload] >= 1, f"{subscriber.clientid} never got {payload!r}"
                    if min(qos, subscriber.qos) == 2:
                        assert counts[payload] == 1, f"{subscriber.clientid} got {payload!r} {counts[payload]} times"
                for topic in TOPICS:
                    for qos in (1, 2):  # the specification orders each QoS by itself
                        order = [payload for name, payload, given in wanted if (name, given) == (topic, qos)]
                        known = set(order)
                        assert [payload for payload in first if payload in known] == order, subscriber.clientid
            assert set(counts) <= entitled


@pytest.mark.parametrize("seed", range(30))
def test_everybody_gets_everything(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed, 400)


@pytest.mark.parametrize("seed", range(10))
def test_everybody_gets_everything_where_messages_are_changed(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed, 400, stamps=True)


def stamped(message: Message) -> Message:
    """A message that says which one it is: its repetition differs from what is stored of it."""
    stamp = encode_properties(properties(user_property=[("id", message.guid.hex())]))
    numbers = message.qos, message.retain
    return make_message(
        message.id_high, message.id_low, message.topic, message.payload, *numbers, stamp, message.clientid, None
    )


def run(path: Path, seed: int, steps: int, *, stamps: bool = False) -> None:
    world = World(path, seed, stamps=stamps)
    world.settle()
    for _ in range(steps):
        world.step()
    world.settle()
    world.check()
    world.kernel.database.close()

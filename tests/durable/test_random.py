"""Seeded histories of clients that come and go, commits that take their time, and a broker that is killed at any time.

Clients keep to the specification: subscribers acknowledge late or never, publishers repeat what was not acknowledged.
In the end everybody has everything: at QoS 1 at least once, at QoS 2 exactly once, in the order of each publisher and
topic.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.broker.hooks import OK
from heliograph.broker.message import Message, make_message
from heliograph.config.storage import DurableSessionsConfig
from heliograph.mqtt.properties import encode_properties
from support.clients import Actor, Publisher, Subscriber
from support.durable import DurableKernel
from support.forms import seeds
from support.histories import History
from support.options import SESSION
from support.packets import properties

TOPICS = ("t/0", "t/1", "u/0")


class World(History):
    topics = TOPICS

    def __init__(self, path: Path, seed: int, *, stamps: bool = False) -> None:
        chance = random.Random(seed)
        options = replace(SESSION, max_inflight=chance.choice((1, 3, 20)), max_mqueue_len=chance.choice((2, 30)))
        settings = DurableSessionsConfig(batch_size=chance.choice((3, 512)))
        self._stamps = stamps
        subscribers = [
            Subscriber("one", "t/#", 1),
            Subscriber("two", "t/#", 2),
            Subscriber("all", "#", 2),
            Subscriber("exact", "u/0", 2),
        ]
        kernel = DurableKernel(path, session_options=options, settings=settings)
        super().__init__(chance, kernel, [Publisher(f"pub-{number}") for number in range(2)], subscribers)

    def begin(self) -> None:
        super().begin()
        if self._stamps:
            point = self.kernel.broker.hooks.message_publish
            point.add(lambda message: (OK, stamped(message)), 0, None, stamped)

    def acts(self) -> list[tuple[float, Callable[[Actor], None]]]:
        return [
            (0.30, self.publish),
            (0.45, self.commit_messages),
            (0.60, lambda _: self.commit_state()),
            (0.65, self.cut),
            (0.75, self.come),
            (0.79, self.leave),
            (0.97, self.read),
            (0.99, self.pass_time),
            (1.00, self.crash),
        ]

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


@pytest.mark.parametrize("seed", seeds(30, 8))
def test_everybody_gets_everything(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed, 400)


@pytest.mark.parametrize("seed", seeds(10, 3))
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
    world.run(steps)
    world.check()
    world.kernel.database.close()

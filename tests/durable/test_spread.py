"""Messages to very many, on their way while sessions come and go: nobody misses one or gets it twice."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from durable.test_random import World
from support.clients import Actor, Publisher, Subscriber
from support.durable import DurableKernel, got, leave
from support.forms import seeds
from support.histories import History
from support.packets import publish


class SpreadWorld(World):
    """A world whose messages go to their receivers one by one, whenever chance has it."""

    def __init__(self, path: Path, seed: int) -> None:
        super().__init__(path, seed)
        subscribers = [*self.subscribers, Subscriber("one-too", "t/#", 1), Subscriber("two-too", "t/#", 2)]
        subscribers += [Subscriber("all-too", "#", 2), Subscriber("exact-too", "u/0", 2)]
        publishers = [Publisher(f"pub-{number}") for number in range(2)]
        History.__init__(self, random.Random(seed), self.kernel, publishers, subscribers)

    def begin(self) -> None:
        super().begin()
        spread_by_hand(self.kernel)

    def acts(self) -> list[tuple[float, Callable[[Actor], None]]]:
        return [(0.3, self.spread), *[(0.3 + up_to * 0.7, act) for up_to, act in super().acts()]]

    def spread(self, _actor: Actor | None = None) -> None:
        for _ in range(self.random.randrange(12)):
            step(self.kernel)

    def commit_all(self) -> None:
        finish(self.kernel)
        super().commit_all()


def spread_by_hand(kernel: DurableKernel) -> None:
    """Have messages to more than one subscription wait until `step` or `finish` is called."""
    kernel.broker.at_once_max = 0
    kernel.broker.fanouts.step_work = 1
    kernel.broker.fanouts.on_waiting = lambda: None


def step(kernel: DurableKernel) -> None:
    if kernel.broker.fanouts.count:
        kernel.broker.fanouts.step()
        kernel.run()


def finish(kernel: DurableKernel) -> None:
    while kernel.broker.fanouts.count:
        step(kernel)


@pytest.mark.parametrize("seed", seeds(12, 4))
def test_everybody_gets_everything(tmp_path: Path, seed: int) -> None:
    world = SpreadWorld(tmp_path, seed)
    world.run(250)
    world.check()
    world.kernel.database.close()


def test_a_session_that_leaves_before_a_message_reaches_it_gets_it_from_the_disk(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "other", "t")
    other, sub, pub = kernel.come("other"), kernel.come("sub"), kernel.connect("pub")
    sub.skip()
    other.skip()
    sub.subscribe("t", 1)
    spread_by_hand(kernel)
    pub.feed(publish("t", b"x", 1, 1).data)
    kernel.run()
    assert kernel.broker.fanouts.count == 1
    sub.drop()
    kernel.run()
    finish(kernel)
    kernel.run()
    assert got(kernel, "sub") == ["x"]
    assert kernel.broker.statistics()["fanouts.spread"] == 1

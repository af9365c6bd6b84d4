"""Seeded histories of clients that come and go, commits that take their time, and a broker that is killed at any time.

A history is made of steps; a seed says which. What a step can be, and how often, is a table.
"""

import random
from collections.abc import Callable, Iterable, Sequence

from support.clients import Actor, Publisher, Subscriber
from support.durable import DurableKernel, FakeState

QUIET_TURNS = 12


class History:
    """One world: a broker and its clients.

    Attributes:
        topics: What publishers publish to.
        qos: From which they choose.
    """

    topics: Sequence[str] = ()
    qos: Sequence[int] = (1, 2, 2)

    def __init__(
        self,
        chance: random.Random,
        kernel: DurableKernel,
        publishers: Iterable[Publisher],
        subscribers: Iterable[Subscriber],
    ) -> None:
        self.random = chance
        self.kernel = kernel
        self.publishers = list(publishers)
        self.subscribers = list(subscribers)
        self.actors: list[Actor] = [*self.publishers, *self.subscribers]
        self.begin()

    def begin(self) -> None:
        """There is a kernel: at the start, and after each crash."""
        self.kernel.automatic = False

    def acts(self) -> list[tuple[float, Callable[[Actor], None]]]:
        """What a step can be: up to which number between 0 and 1, and what is done with some actor."""
        raise NotImplementedError

    def states(self) -> list[tuple[FakeState, Callable[[], None]]]:
        """The state databases, and what commits the first batch of each."""
        return [(self.kernel.state, self.kernel.commit_state)]

    def run(self, steps: int) -> None:
        """A history of so many steps, after which everybody gets what is his."""
        self.settle()
        for _ in range(steps):
            self.step()
        self.settle()

    def step(self) -> None:
        self.kernel.now_us += 1  # no two turns have the same time
        what = self.random.random()
        actor = self.random.choice(self.actors)
        next(act for up_to, act in self.acts() if what < up_to)(actor)

    def settle(self) -> None:
        """Let everything be done that is under way, with everybody connected."""
        quiet = 0
        while quiet < QUIET_TURNS:
            before = [len(one.got) for one in self.subscribers]
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
            self.commit_all()
            is_open = any(publisher.open for publisher in self.publishers)
            is_same = before == [len(one.got) for one in self.subscribers]
            quiet = quiet + 1 if is_same and not is_open else 0

    def commit_all(self) -> None:
        while self.kernel.sink.messages or any(state.waiting for state, _ in self.states()):
            self.commit_messages()
            for number in range(len(self.states())):
                self.commit_state(number)

    # --- what steps are made of

    def publish(self, _actor: Actor) -> None:
        publisher = self.random.choice(self.publishers)
        for _ in range(self.random.choice((1, 1, 8))):
            publisher.publish(self, self.random.choice(self.topics), self.random.choice(self.qos))

    def commit_messages(self, _actor: Actor | None = None) -> None:
        if self.kernel.sink.messages:
            self.kernel.commit()

    def commit_state(self, number: int = 0) -> None:
        state, commit = self.states()[number]
        if state.waiting:
            commit()

    def cut(self, _actor: Actor) -> None:
        self.kernel.sink.cut()

    def come(self, actor: Actor) -> None:
        if actor.peer is None:
            actor.come(self)

    def leave(self, actor: Actor) -> None:
        actor.leave(self.random.random() < 0.5)

    def read(self, actor: Actor) -> None:
        actor.read(self)
        if isinstance(actor, Subscriber):
            actor.acknowledge(self.random.randrange(10))

    def pass_time(self, _actor: Actor) -> None:
        self.kernel.advance(self.random.random() * 2)

    def crash(self, _actor: Actor | None = None) -> None:
        """Kill the broker. Any beginning of what waited may have been written without anybody being told."""
        kernel, chance = self.kernel, self.random
        if kernel.sink.messages and chance.random() < 0.5:
            ticket = kernel.sink.messages[0][0]
            kernel.database.write([message for number, message in kernel.sink.messages if number == ticket])
        for state, _commit in self.states():
            for _ in range(chance.randrange(len(state.waiting) + 1)):
                state.apply_first()
        self.kernel = kernel.crash(chance.random())
        self.begin()
        for actor in self.actors:
            actor.lost()

"""Who takes part in a run - a broker and its clients - and how a run comes to rest and is judged."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from crash import checker
from crash.actors import Publisher, RetainedReader, Route, Subscriber
from crash.broker import Broker
from crash.checker import Violation
from crash.client import Client
from crash.history import RETAINED, History

_PATIENCE_S: Final = 15.0  # a settling run in which nothing moves for so long has lost what it waits for
_QUIET_S: Final = 0.4
_POLL_S: Final = 0.1
_PUBLISHERS: Final = 3
_MEMBERS: Final = 3


@dataclasses.dataclass(frozen=True)
class Cast:
    """Who takes part.

    Attributes:
        seed: What every choice begins with.
        groups: Whether shared groups do.
        retained: Whether retained messages outlive the broker, and are looked at.
        pause_s: How long a publisher waits between bursts, on the average.
    """

    seed: int
    groups: bool
    retained: bool
    pause_s: float


@dataclasses.dataclass
class Outcome:
    """What came of a run."""

    violations: list[Violation]
    counts: dict[str, int]

    def summary(self) -> str:
        """The counts, one in a line."""
        numbers = {**self.counts, "violations": len(self.violations)}
        return "\n".join(f"  {name.replace('_', ' '):<28}{value:>12,}" for name, value in numbers.items())


class World:
    """A broker and its clients, for one run; leaves no process and no task behind.

    Args:
        broker: Not started yet.
        trace: The file that gets every packet as a line of text.
        on_packet: Called for each packet that a client gets.
    """

    def __init__(self, broker: Broker, cast: Cast, trace: Path, on_packet: Callable[[], None]) -> None:
        self.broker = broker
        self.cast = cast
        self._trace = trace.open("w")
        self.history = History(self._trace)
        self.publishers: list[Publisher] = []
        self.subscribers: list[Subscriber] = []
        self.counts = {"kills": 0, "kills_while_starting": 0, "stops": 0}
        self._on_packet = on_packet
        self._tasks: set[asyncio.Task[None]] = set()
        self._readers = 0
        self._make_publishers()
        self._make_subscribers()

    @property
    def clients(self) -> list[Client]:
        """All of them."""
        return [*self.publishers, *self.subscribers]

    async def begin(self) -> None:
        """Start the broker; everybody subscribes, then the publishers begin."""
        await self.broker.start()
        for subscriber in self.subscribers:
            self.spawn(subscriber.run())
        await self.until(lambda: all(subscriber.is_subscribed for subscriber in self.subscribers))
        for publisher in self.publishers:
            self.spawn(publisher.run())
            self.spawn(publisher.work())

    async def kill(self) -> None:
        """Kill the broker, if it still lives."""
        self.broker.kill()
        await self.broker.wait_dead()
        self.counts["kills"] += 1
        self.history.note("BROKER", "is dead")

    async def stop(self) -> None:
        """Stop the broker politely."""
        self.counts["stops"] += 1
        code = await self.broker.stop()
        self.history.note("BROKER", f"stopped with {code}")
        if code:
            self.history.faults.append(f"stop: the broker ended with {code} after SIGTERM")

    async def rest(self) -> None:
        """Nobody publishes any more, everybody acknowledges; then a polite restart must bring nothing new.

        Called while no broker runs.
        """
        for client in self.clients:
            client.is_settling = True
        await self.broker.start()
        await self._settle()
        await self.look_at_retained()
        await self.stop()
        await self.broker.start()
        await self.until(lambda: all(client.is_connected for client in self.clients))
        await self._settle()
        await self.look_at_retained()
        for client in self.clients:
            await client.stop()
        await self.stop()

    async def look_at_retained(self) -> None:
        """Have a new client see what is retained, and write down what it got."""
        if self.cast.retained:
            self._readers += 1
            name = f"reader-{self._readers}"
            await RetainedReader(name, self.broker.port, self.history, self._random(name), self._on_packet).look()

    async def until(self, condition: Callable[[], bool]) -> bool:
        """Wait for something, but not for ever; whether it came."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not condition() and loop.time() < began + _PATIENCE_S:  # noqa: ASYNC110 - it may be in a file or process
            await asyncio.sleep(_POLL_S / 10)  # it may be in a file or another process
        return condition()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something until the world ends."""
        self._tasks.add(asyncio.create_task(work))

    def outcome(self, more: dict[str, int]) -> Outcome:
        """The judgement.

        Args:
            more: Counts of the run's own.
        """
        history = self.history
        violations = checker.check(history)
        violations += [Violation(f"log: {line}", []) for line in self.broker.faults_logged()]
        counts = {
            **self.counts,
            **more,
            "published": sum(len(messages) for messages in history.published.values()),
            **history.counts,
            "delivered": history.delivered_count,
            "repeated_at_qos_1": checker.repeated_at_qos1(history),
            "retained_views": len(history.retained_views),
        }
        return Outcome(violations, counts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.broker.end()
        self._trace.close()

    async def _settle(self) -> None:
        """Wait until everybody has what is owed to him and nothing more comes; not for ever for what is lost."""
        loop = asyncio.get_running_loop()
        moved_at, now, is_complete = loop.time(), -1, False
        while not is_complete or loop.time() < moved_at + _QUIET_S:
            await asyncio.sleep(_POLL_S)  # that nothing more comes is only seen by waiting
            if self.history.now != now:
                moved_at, now, is_complete = loop.time(), self.history.now, False
            elif loop.time() > moved_at + _PATIENCE_S:
                return
            elif not is_complete:
                has_unacknowledged = any(client.unacknowledged_count for client in self.clients)
                is_complete = not has_unacknowledged and checker.is_complete(self.history)

    def _make_publishers(self) -> None:
        for number in range(_PUBLISHERS):
            name = f"p{number}"
            routes = [Route(f"t/{name}/{qos}/{at}", qos) for qos in (0, 1, 2) for at in range(2 if qos else 1)]
            routes += [Route(f"{RETAINED}{name}/{qos}/{at}", qos, retain=True) for qos in (1, 2) for at in range(2)]
            if self.cast.groups:
                routes += [Route(f"s/{name}/{qos}/{at}", qos) for qos in (1, 2) for at in range(2)]
            publisher = Publisher(
                name,
                self.broker.port,
                self.history,
                self._random(name),
                self._on_packet,
                routes=routes,
                pause_s=self.cast.pause_s,
            )
            self.publishers.append(publisher)

    def _make_subscribers(self) -> None:
        filters = {
            "all-1": [("t/#", 1)],
            "all-2": [("t/#", 2)],
            "some-1": [("t/+/1/0", 1), ("t/p0/2/+", 1)],
            "some-2": [("t/p1/#", 2), ("t/p2/2/1", 2)],
            "fickle-2": [("t/p0/#", 2)],
        }
        if self.cast.groups:
            filters.update({f"member-{number}": [("$share/g/s/#", 2)] for number in range(_MEMBERS)})
        for name, wanted in filters.items():
            subscriber = Subscriber(
                name,
                self.broker.port,
                self.history,
                self._random(name),
                self._on_packet,
                filters=wanted,
                is_fickle=name.startswith("fickle"),
            )
            self.subscribers.append(subscriber)

    def _random(self, name: str) -> Random:
        return Random(f"{self.cast.seed}/{name}")

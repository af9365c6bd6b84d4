"""What the clients of a run do: publish, subscribe, acknowledge late or never, lose connections, come and go."""

import asyncio
import json
from collections.abc import Sequence
from random import Random
from typing import Final

from crash.checker import GROUP, retained_faults
from crash.client import SESSION_EXPIRY_S, Client, Hook
from crash.history import RETAINED, History, RetainedView, Span
from heliograph.mqtt import packets as p

_WINDOW: Final = 20
_BURST_MAX: Final = 6
_PADDING: Final = (0, 0, 40, 700)
_LATE_S: Final = 0.05
_NEVER_S: Final = 0.4
_NO_RETAINED: Final = 2  # retain handling: the retained messages are not wanted
_CLEARED_PART: Final = 0.15
_LOOK_S: Final = 10.0
_LOOK_LEAST_S: Final = 0.15


class Route:
    """A topic that a publisher writes to."""

    __slots__ = ("qos", "retain", "topic")

    def __init__(self, topic: str, qos: int, *, retain: bool = False) -> None:
        self.topic = topic
        self.qos = qos
        self.retain = retain


class Publisher(Client):
    """Publishes to its own topics, some messages at a time, and now and then loses its connection.

    Args:
        routes: Its topics.
        pause_s: How long it waits between bursts, on the average.
        expiry_s: As for every client.
    """

    def __init__(
        self,
        clientid: str,
        port: int,
        history: History,
        choose: Random,
        on_packet: Hook,
        *,
        routes: Sequence[Route],
        pause_s: float,
        expiry_s: int = SESSION_EXPIRY_S,
    ) -> None:
        super().__init__(clientid, port, history, choose, on_packet, expiry_s)
        self._routes = routes
        self._pause_s = pause_s

    async def work(self) -> None:
        """Publish until the run settles."""
        choose = self.choose
        while not self.is_settling:
            await asyncio.sleep(choose.expovariate(1 / self._pause_s))  # its pace
            for _ in range(choose.randint(1, _BURST_MAX)):
                if self.is_connected and self.unacknowledged_count < _WINDOW:
                    self._publish_one()
            what = choose.random()
            if what < 0.01:
                self.break_off()
            elif what < 0.015:
                self.leave()

    def away_s(self) -> float:
        """Not long: the more publishers are there, the more a kill finds under way."""
        return self.choose.random() * 0.05

    def _publish_one(self) -> None:
        route = self.choose.choice(self._routes)
        is_clear = route.retain and self.choose.random() < _CLEARED_PART
        padding = self.choose.choice(_PADDING)
        self.publish(route.topic, route.qos, retain=route.retain, is_clear=is_clear, padding=padding)


class Subscriber(Client):
    """Has a session with subscriptions and acknowledges as its mood is: at once, late, or never on this connection.

    Args:
        filters: What it subscribes to, with the QoS of each; no two match the same topic.
        is_fickle: Whether it gives its subscriptions up now and then, and makes them again.
    """

    def __init__(
        self,
        clientid: str,
        port: int,
        history: History,
        choose: Random,
        on_packet: Hook,
        *,
        filters: Sequence[tuple[str, int]],
        is_fickle: bool = False,
    ) -> None:
        super().__init__(clientid, port, history, choose, on_packet)
        self._filters = filters
        self._is_fickle = is_fickle
        self._spans: list[Span] = []  # of the subscriptions that it has or asked for
        self._asked: dict[int, bool] = {}  # packet identifiers: whether of a SUBSCRIBE
        self._mood = "prompt"
        self._left = 0  # messages until it ends this connection
        self._due: list[bytes] = []

    @property
    def is_subscribed(self) -> bool:
        """Whether every subscription has its SUBACK."""
        return bool(self._spans) and all(span.acknowledged_at >= 0 and span.end_asked_at < 0 for span in self._spans)

    def away_s(self) -> float:
        """Mostly short, at times long enough to have a backlog."""
        return self.choose.random() * self.choose.choice([0.05, 0.05, 1.0])

    def on_connected(self) -> None:
        """Ask again for what was not answered, and choose a mood."""
        self._asked.clear()
        self._due.clear()
        self._mood = "prompt" if self.is_settling else self.choose.choice(["prompt"] * 4 + ["late"] * 3 + ["never"])
        self._left = self.choose.choice([10, 100, 1000, 10_000])
        if self._mood == "never":
            asyncio.get_running_loop().call_later(_NEVER_S, self._end_mood)
        if not self._spans:
            self._begin_subscriptions()
        elif any(span.end_asked_at >= 0 for span in self._spans):
            self._ask_end()
        elif not self.is_subscribed:
            self._ask()

    def on_message(self, packet: p.Publish, topic: str, number: int) -> None:
        """Write it down, and behave as the mood is."""
        reader = self.clientid
        if self._filters[0][0].startswith(GROUP) and topic.startswith("s/"):
            reader = group_of(self._filters[0][0])
        self.history.deliver(reader, topic, number, int(packet.qos), self.clientid, packet.dup)
        if self.is_settling:
            return
        self._left -= 1
        if self._left <= 0:
            self._left = 10_000
            self.choose.choice([self.break_off, self.leave])()
        elif self._is_fickle and self.choose.random() < 0.02 and self.is_subscribed:
            for span in self._spans:
                span.end_asked_at = self.history.tick()
            self._ask_end()

    def on_suback(self, packet: p.Suback) -> None:
        """A subscription begins or has ended."""
        began = self._asked.pop(packet.packet_id, None)
        if began is None:
            self.fault(f"got {p.NAMES[packet.kind]} {packet.packet_id}, which it did not ask for")
            return
        if any(code >= 0x80 for code in packet.codes):
            self.break_off()  # the disk refuses; ask again on another connection
            return
        now = self.history.tick()
        for span in self._spans:
            if began and span.acknowledged_at < 0:
                span.acknowledged_at = now
            elif not began:
                span.end_acknowledged_at = now
        if not began:
            self._begin_subscriptions()

    def acknowledge(self, data: bytes) -> None:
        """At once, or in a moment, or never."""
        if self._mood == "prompt":
            self.send(data)
            return
        self._due.append(data)
        if self._mood == "late" and len(self._due) == 1:
            asyncio.get_running_loop().call_later(self.choose.random() * _LATE_S, self._flush)

    def _flush(self) -> None:
        for data in self._due:
            self.send(data)
        self._due.clear()

    def _end_mood(self) -> None:
        if self._mood == "never":
            self.break_off()

    def _begin_subscriptions(self) -> None:
        reader = group_of(self._filters[0][0]) if self._filters[0][0].startswith(GROUP) else self.clientid
        self._spans = [self.history.subscribe(reader, topic_of(name), qos) for name, qos in self._filters]
        self._ask()

    def _ask(self) -> None:
        entries = [
            p.SubscribeEntry(name, qos, False, False, 0 if name.startswith(GROUP) else _NO_RETAINED)
            for name, qos in self._filters
        ]
        self._asked[self.subscribe(entries)] = True

    def _ask_end(self) -> None:
        self._asked[self.unsubscribe([name for name, _ in self._filters])] = False


class RetainedReader(Client):
    """Subscribes once to retained messages and compares what it gets with what was acknowledged."""

    def __init__(self, clientid: str, port: int, history: History, choose: Random, on_packet: Hook) -> None:
        super().__init__(clientid, port, history, choose, on_packet, expiry_s=0)
        self._view = RetainedView(-1)
        self._is_asked = False

    async def look(self) -> bool:
        """Whether it saw it all before the connection ended; the history has the view then."""
        view = self._view = self.history.view_retained()
        connection = asyncio.ensure_future(self._connection())
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not connection.done() and loop.time() < began + _LOOK_S:
            await asyncio.wait([connection], timeout=0.02)
            is_right = self._is_asked and not any(retained_faults(self.history, view))
            if is_right and loop.time() > began + _LOOK_LEAST_S:
                break
        was_cut = connection.done()
        connection.cancel()
        await asyncio.gather(connection, return_exceptions=True)
        await self.stop()
        if not was_cut and self._is_asked:
            view.ended_at = self.history.tick()
            self.history.retained_views.append(view)
            return True
        return False

    def on_connected(self) -> None:
        """Subscribe; from here on the view is of this time."""
        self._view.asked_at = self.history.tick()
        self.subscribe([p.SubscribeEntry(f"{RETAINED}#", 1, False, False, 0)])

    def on_suback(self, packet: p.Suback) -> None:
        """What is retained comes."""
        self._is_asked = True

    def on_message(self, packet: p.Publish, topic: str, number: int) -> None:
        """What is retained has the flag; what is published now has not."""
        if not packet.retain:
            return
        if topic in self._view.found:
            self.fault(f"got two retained messages of {topic}")
        self._view.found[topic] = self.history.tick(), number


class AlarmWatcher(Client):
    """Hears of alarms: what is active, as the broker says it."""

    def __init__(self, clientid: str, port: int, history: History, choose: Random, on_packet: Hook) -> None:
        super().__init__(clientid, port, history, choose, on_packet, expiry_s=0)
        self.active: set[str] = set()
        self.told_count = 0

    def on_connected(self) -> None:
        """Nothing is known of the broker's life before."""
        self.active.clear()
        self.subscribe([p.SubscribeEntry("$SYS/brokers/+/alarms/#", 0, False, False, 0)])

    def on_system_message(self, topic: str, payload: bytes) -> None:
        """An alarm begins or ends."""
        name = str(json.loads(payload)["name"])
        if name.startswith(
            "clientid_conflict/"
        ):  # the clients here take their own connections over, as often as they like
            return
        self.history.note(self.clientid, f"{topic}: {name}")
        self.told_count += 1
        if topic.endswith("/deactivate"):
            self.active.discard(name)
        else:  # it begins, or is retained since it goes on
            self.active.add(name)


def group_of(topic_filter: str) -> str:
    """The reader that stands for all members: `$share/GROUP`."""
    return "/".join(topic_filter.split("/", 2)[:2])


def topic_of(topic_filter: str) -> str:
    """What a shared subscription's messages match."""
    return topic_filter.split("/", 2)[2] if topic_filter.startswith(GROUP) else topic_filter

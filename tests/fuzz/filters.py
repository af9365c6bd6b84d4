"""Fuzz target: the routing table and the retained messages against a naive matcher, while filters come and go."""

from typing import Final

from fuzz.source import Source
from heliograph.broker.hooks import Hooks
from heliograph.broker.message import make_message
from heliograph.broker.pubsub import Broker
from heliograph.broker.router import Router
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.topic import subscription_fault, topic_filter_fault, topic_matches, topic_name_fault
from heliograph.retainer.memory import MemoryRetainer
from retainer.retaining import each
from support.naive import matches
from support.options import RETAINER
from support.reach import count

_LEVELS: Final = ("a", "b", "", "$s", "c", "ä", "+", "+", "#")
_LEVELS_MAX: Final = 24
_STEPS_MAX: Final = 100


class _Table:
    def __init__(self) -> None:
        self._router = Router(_LEVELS_MAX, 5)
        self._broker = Broker(self._router, Hooks())
        self._retainer = MemoryRetainer(self._broker, RETAINER)
        self._subscriber = Subscriber("c")
        self._held: dict[str, Subscription] = {}
        self._retained: set[str] = set()

    def step(self, source: Source) -> None:
        what = source.below(8)
        text = _text(source)
        if what <= 2:
            self._subscribe(text)
        elif what == 3 and self._held:
            self._unsubscribe(source.pick(sorted(self._held)))
        elif what == 4:
            self._retain(text, b"" if source.flag() and source.flag() else b"x")
        elif what == 5 and topic_filter_fault(text, _LEVELS_MAX) is None:
            self._look(text)
        else:
            self._publish(text)

    def end(self) -> None:
        for topic_filter in list(self._held):
            self._unsubscribe(topic_filter)
        assert self._router.filters.trie.root.is_empty()
        assert self._router.statistics()["topics.count"] == 0
        for topic in list(self._retained):
            self._retain(topic, b"")
        assert len(self._retainer) == 0
        assert count(self._retainer, bytes, within="heliograph.retainer") == 0

    def _subscribe(self, text: str) -> None:
        assert subscription_fault(text, _LEVELS_MAX) is not None or text
        if topic_filter_fault(text, _LEVELS_MAX) is None and text not in self._held:
            self._held[text] = Subscription(self._subscriber, text, 0, False, False, 0, 0)
            self._router.add(self._held[text])

    def _unsubscribe(self, topic_filter: str) -> None:
        self._router.remove(self._held.pop(topic_filter))

    def _publish(self, text: str) -> None:
        try:
            route = self._router.route(text.encode())
        except ProtocolError:
            assert topic_name_fault(text, _LEVELS_MAX) is not None
            return
        assert topic_name_fault(text, _LEVELS_MAX) is None
        found = sorted(entry.topic_filter for entry in route.entries if not entry.is_empty())
        expected = sorted(one for one in self._held if matches(text, one))
        assert found == expected
        assert expected == sorted(one for one in self._held if topic_matches(text, one))

    def _retain(self, text: str, payload: bytes) -> None:
        if topic_name_fault(text, _LEVELS_MAX) is None:
            self._retainer.retain(make_message(1, 1, text, payload, 0, True, b"", "c", None))
            (self._retained.add if payload else self._retained.discard)(text)

    def _look(self, topic_filter: str) -> None:
        found = [message.topic for message in each(self._retainer.match(topic_filter))]
        assert sorted(found) == sorted(topic for topic in self._retained if matches(topic, topic_filter))


def _text(source: Source) -> str:
    """Some levels, and now and then so many of them that only a few more are allowed."""
    levels = [source.pick(_LEVELS) for _ in range(source.below(8))]
    if source.rarely():
        levels = ["a"] * (_LEVELS_MAX - source.below(8)) + levels
    return "/".join(levels)


def run(data: bytes) -> None:
    """One input."""
    source = Source(data)
    table = _Table()
    for _ in range(_STEPS_MAX):
        if not len(source):
            break
        table.step(source)
    table.end()

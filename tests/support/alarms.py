"""Alarms that nobody subscribes to."""

from collections.abc import Callable

from heliograph.observe.alarms import Alarms
from heliograph.observe.outgoing import SystemMessageQueue


class Unheard:
    """A kernel in which nobody subscribes to alarms."""

    def wants(self, topic: str) -> bool:
        return False

    def publish(self, topic: str, payload: bytes, retain: bool) -> None:
        raise AssertionError(topic)

    def work(self) -> int:
        return 0

    def defer(self, callback: Callable[[], None]) -> None:
        pass


def unheard_alarms(now_us: Callable[[], int] = lambda: 0) -> Alarms:
    """Alarms of a node whose messages go nowhere."""
    return Alarms("node", SystemMessageQueue(Unheard()), now_us)

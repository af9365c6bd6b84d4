"""The numbers of a node, and how fast they grow."""

from collections.abc import Iterable

from heliograph.control.proto_v1.live import LIVE_NUMBERS, LiveNumbers, LiveWanted
from heliograph.management.asking.nodes import Node

Key = tuple[str, ...]


class Numbers:
    """What a node reported at one look, and since the look before.

    Attributes:
        told: All that it reported.
        cpu_percent: Processor time since the look before, 100 is one core; None at the first look.
    """

    def __init__(self, told: LiveNumbers, before: "Numbers | None") -> None:
        self.told = told
        self._values: dict[Key, float] = {(one.name, *one.labels): one.value for one in told.samples}
        passed_us = 0 if before is None else told.at_us - before.told.at_us
        self._before: dict[Key, float] = {}
        self._passed_s = 0.0
        self.cpu_percent: float | None = None
        if before is not None and passed_us > 0 and told.cpu_s >= before.told.cpu_s:  # the node was not restarted
            self._before, self._passed_s = before._values, passed_us / 1e6
            self.cpu_percent = round(100 * (told.cpu_s - before.told.cpu_s) / self._passed_s, 1)

    def value(self, *key: str) -> float:
        """A number; 0 where the node has none."""
        return self._values.get(key, 0)

    def count(self, *key: str) -> int:
        """The same as a whole number."""
        return int(self.value(*key))

    def rate(self, *key: str) -> float | None:
        """By how much it grows in a second; None at the first look."""
        if not self._passed_s:
            return None
        return round(max(0.0, self.value(*key) - self._before.get(key, 0)) / self._passed_s, 1)

    def labelled(self, name: str) -> list[Key]:
        """The values of the labels that a metric has numbers for."""
        return [key[1:] for key in self._values if key[0] == name]


class NumbersLook:
    """Looks at the numbers of one node again and again; owned by a subject.

    Args:
        names: Of the metrics.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._wanted = LiveWanted(tuple(names))
        self._last: Numbers | None = None

    async def at(self, node: Node) -> Numbers:
        """Its numbers now.

        Raises:
            RpcError: It does not give them now.
            UnreachableError: It does not answer.
        """
        told = await node.ask(LIVE_NUMBERS(self._wanted))
        self._last = Numbers(told, self._last)
        return self._last

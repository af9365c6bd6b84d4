"""Alarms of what clients cause: each begins with the first occurrence and ends when there was none for a while.

So many of a kind go on at a time: clients that come in thousands must not use up the room that other alarms have. What
finds no room is only counted.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from heliograph.observe.alarms import Alarms
from heliograph.observe.bounded_log import short_text

_ACTIVE_MAX: Final = 100


class LastingAlarms:
    """The alarms of one kind; owned by the service that raises them.

    Args:
        kind: What their names begin with; the rest names the client.
        quiet_us: How long nothing must have happened before an alarm ends.
        degrades: Whether the node does not do its work meanwhile.
    """

    def __init__(
        self, kind: str, alarms: Alarms, clock: Callable[[], int], quiet_us: int, *, degrades: bool = True
    ) -> None:
        self._kind = kind
        self._alarms = alarms
        self._clock = clock
        self.quiet_us = quiet_us
        self._degrades = degrades
        # When it happened last, by client; the one that is quiet longest first.
        self._last: OrderedDict[str, int] = OrderedDict()
        self._missed = 0

    def happened(self, who: str, message: str, details: Mapping[str, object]) -> None:
        """Raise the alarm of a client unless it goes on; the message says what is wrong and what to do."""
        who = short_text(who)
        is_new = self._last.pop(who, None) is None
        has_room = len(self._last) < _ACTIVE_MAX
        name = f"{self._kind}/{who}"
        if is_new and not (has_room and self._begin(name, message, details)):
            self._missed += 1
            return
        self._last[who] = self._clock()

    def goes_on(self, who: str) -> bool:
        return short_text(who) in self._last

    def tick(self) -> None:
        until = self._clock() - self.quiet_us
        while self._last:
            who = next(iter(self._last))
            if self._last[who] > until:
                return
            del self._last[who]
            self._alarms.deactivate(f"{self._kind}/{who}")

    def _begin(self, name: str, message: str, details: Mapping[str, object]) -> bool:
        return self._alarms.activate(name, message, details, logs_message=True, degrades=self._degrades)

    def statistics(self) -> dict[str, int]:
        return {f"{self._kind}.active": len(self._last), f"{self._kind}.missed": self._missed}

"""Alarms: what is wrong with a node for longer than a moment, from when it begins until it ends.

    $SYS/brokers/NODE/alarms/activate       when an alarm begins; the newest that goes on is retained
    $SYS/brokers/NODE/alarms/deactivate     when it ends
    $SYS/brokers/NODE/alarms/active/ALARM   each active alarm, retained for later subscribers

All carry JSON as EMQX's do. An alarm that is active already is not raised again, so a cause that comes back with every
message makes one. Who raises an alarm gives its name and text: the callers of `activate`, and for disks those of
`storage.health.Health`.
"""

import json
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from heliograph.observe.bounded_log import BoundedLog, short_text
from heliograph.observe.outgoing import SystemMessageQueue

_log = logging.getLogger(__name__)

ACTIVE_MAX: Final = 1000
CRITICAL: Final = "critical"
WARNING: Final = "warning"
# The last sentence of an alarm that nothing but a start can prove to be over.
UNTIL_START: Final = "The alarm ends when the node starts again"
_TEXT_MAX: Final = 1000
_LINES_A_MINUTE: Final = 60
# What a level of a topic name cannot hold, in the name of an alarm that names a client.
_ESCAPED: Final = str.maketrans({"%": "%25", "/": "%2F", "+": "%2B", "#": "%23", "\0": "%00"})


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm.

    Attributes:
        name: What it is known by; one of a name is active at a time. A hash stands for what is beyond 200 characters.
        message: What is wrong, for people.
        details: The same for programs. A hash stands for what is beyond 1,000 characters of a text.
        activate_at: When it began, in milliseconds since the epoch.
        degrades: Whether the node does not do its work while it is active, so that something may start it again.
    """

    name: str
    message: str
    details: Mapping[str, object]
    activate_at: int
    deactivate_at: int | None = None
    degrades: bool = True

    @property
    def severity(self) -> str:
        """`critical` if it degrades the node, `warning` if not."""
        return CRITICAL if self.degrades else WARNING

    def to_json(self) -> bytes:
        fields = {
            "name": self.name,
            "severity": self.severity,
            "message": self.message,
            "details": dict(self.details),
            "activated": self.deactivate_at is None,
            "activate_at": self.activate_at,
            "deactivate_at": "infinity" if self.deactivate_at is None else self.deactivate_at,
        }
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class AlarmOptions:
    """What is done with alarms: lines in the log, messages; how many are kept after their ends, and for how long."""

    logs: bool = True
    publishes: bool = True
    ended_max: int = 1000
    ended_us: int = 86_400_000_000


class Retained(Protocol):
    """Where alarms are retained for later subscribers; `node.publisher` implements it."""

    def keep(self, topic: str, payload: bytes) -> None:
        """Make a message the retained one of its topic, without delivering it now."""

    def forget(self, topic: str) -> None: ...


class Alarms:
    """The alarms of one node; owned by its kernel.

    Args:
        tell: Called with each alarm when it begins, and again when it ends.
        retained: Where alarms are while they go on; None for nowhere.
    """

    def __init__(
        self,
        node_name: str,
        outgoing: SystemMessageQueue,
        now_us: Callable[[], int],
        tell: Callable[[Alarm], object] = lambda alarm: None,
        retained: Retained | None = None,
    ) -> None:
        self._prefix = f"$SYS/brokers/{node_name}/alarms/"
        self._outgoing = outgoing
        self._retained = retained
        self._now_us = now_us
        self._tell = tell
        self._options = AlarmOptions()
        self._log = BoundedLog(_log, now_us, _LINES_A_MINUTE)
        self._active: dict[str, Alarm] = {}
        self._history: deque[Alarm] = deque(maxlen=self._options.ended_max)
        self._dropped = 0

    def use(self, options: AlarmOptions) -> None:
        """Also for the alarms that there are."""
        before, self._options = self._options, options
        self._history = deque(self._history, options.ended_max)
        self.tick()
        if before.publishes != options.publishes and self._retained is not None:
            for alarm in self._active.values():
                if options.publishes:
                    self._keep(self._retained, alarm)
                else:
                    self._retained.forget(self._topic_of(alarm))
            if not options.publishes:
                self._retained.forget(self._prefix + "activate")

    def tick(self) -> None:
        until = (self._now_us() - self._options.ended_us) // 1000
        while self._history and (self._history[0].deactivate_at or 0) <= until:
            self._history.popleft()

    def activate(
        self,
        name: str,
        message: str,
        details: Mapping[str, object],
        *,
        logs_message: bool = False,
        degrades: bool = True,
    ) -> bool:
        """Begin an alarm; False if one of that name is active already, or too many are.

        Args:
            logs_message: Whether the line of the log has the message: its owner does not log it itself.
            degrades: Whether the node does not do its work meanwhile.
        """
        name = short_text(name)
        if name in self._active:
            return False
        if len(self._active) >= ACTIVE_MAX:
            self._dropped += 1
            return False
        began = self._now_us() // 1000
        alarm = Alarm(name, short_text(message, _TEXT_MAX), _shortened(details), began, None, degrades)
        if self._options.publishes:
            self._outgoing.put(self._prefix + "activate", alarm.to_json())
            if self._retained is not None:
                self._keep(self._retained, alarm)
        self._active[name] = alarm  # not before: what raised would be active for ever
        if self._options.logs:
            self._log.warn("alarm %s has begun%s", name, f": {alarm.message}" if logs_message else "")
        self._tell(alarm)
        return True

    def update(self, name: str, message: str, details: Mapping[str, object]) -> bool:
        """False if none of that name is active."""
        name = short_text(name)
        before = self._active.get(name)
        if before is None:
            return False
        alarm = replace(before, message=short_text(message, _TEXT_MAX), details=_shortened(details))
        self._active[name] = alarm
        if self._options.publishes and self._retained is not None:
            self._keep(self._retained, alarm)
        return True

    def deactivate(self, name: str) -> bool:
        """False if none of that name is active."""
        alarm = self._active.pop(short_text(name), None)
        if alarm is None:
            return False
        ended = replace(alarm, deactivate_at=self._now_us() // 1000)
        self._history.append(ended)
        if self._options.publishes:
            self._outgoing.put(self._prefix + "deactivate", ended.to_json())
            if self._retained is not None:
                self._forget(self._retained, alarm)
        if self._options.logs:
            self._log.write(logging.INFO, "alarm %s has ended", ended.name)
        self._tell(ended)
        return True

    def active(self) -> list[Alarm]:
        """Oldest first."""
        return list(self._active.values())

    def history(self) -> list[Alarm]:
        """Oldest first; so many and so old as the options allow."""
        return list(self._history)

    def clear_history(self) -> int:
        count = len(self._history)
        self._history.clear()
        return count

    def _keep(self, retained: Retained, alarm: Alarm) -> None:
        payload = alarm.to_json()
        retained.keep(self._prefix + "activate", payload)
        retained.keep(self._topic_of(alarm), payload)

    def _forget(self, retained: Retained, alarm: Alarm) -> None:
        retained.forget(self._topic_of(alarm))
        newest = next(reversed(self._active.values()), None)
        if newest is None:
            retained.forget(self._prefix + "activate")
        else:
            retained.keep(self._prefix + "activate", newest.to_json())

    def _topic_of(self, alarm: Alarm) -> str:
        return f"{self._prefix}active/{alarm.name.translate(_ESCAPED)}"

    def statistics(self) -> dict[str, int]:
        return {"alarms.active": len(self._active), "alarms.dropped": self._dropped}

    def by_severity(self) -> dict[str, int]:
        """How many go on, by severity."""
        critical = sum(alarm.degrades for alarm in self._active.values())
        return {CRITICAL: critical, WARNING: len(self._active) - critical}

    def __repr__(self) -> str:
        return f"Alarms({', '.join(self._active) or 'none active'})"


def _shortened(details: Mapping[str, object]) -> dict[str, object]:
    """Bounded: a thousand alarms are kept, and some hold what a client calls itself."""
    return {name: short_text(value, _TEXT_MAX) if isinstance(value, str) else value for name, value in details.items()}

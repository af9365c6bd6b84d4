"""Containment of faults: an object that raises does not disturb the others of the same loop.

A loop that walks over objects of different owners (outboxes, subscribers, channels, sessions, parts of the node)
catches what one of them raises, hands it to `Faults.contain`, and goes on with the next. The fault is counted by its
boundary, reported with its traceback, and only what raised is cut: its connection, its session, its message.
"""

from collections.abc import Callable
from typing import Final

# The kernel's boundaries; parts of the node have boundaries of their own names.
CONNECTIONS: Final = "connections"  # what one connection's bytes, end or timer cause
FLUSH: Final = "flush"  # an outbox is written
DELIVERIES: Final = "deliveries"  # a subscriber takes a message
FANOUTS: Final = "fanouts"  # a message goes on to very many
COMMITS: Final = "commits"  # a commit is answered for
TURNS: Final = "turns"  # a channel or session has its turn
TICKS: Final = "ticks"  # a channel looks at the time
SESSIONS: Final = "sessions"  # a session ends, is saved or leaves its connection
PUBLISHING: Final = "publishing"  # a message of the broker's own is published

_BOUNDARIES: Final = (
    CONNECTIONS,
    FLUSH,
    DELIVERIES,
    FANOUTS,
    COMMITS,
    TURNS,
    TICKS,
    SESSIONS,
    PUBLISHING,
)


class Faults:
    """The contained faults of one node, counted by boundary; owned by the broker.

    Attributes:
        on_fault: Called with the boundary and the error; set by the node, which logs it. Without it nothing is
            contained: a fault that is not reported must not be hidden.
    """

    def __init__(self) -> None:
        self.on_fault: Callable[[str, Exception], object] | None = None
        self._counts: dict[str, int] = dict.fromkeys(_BOUNDARIES, 0)

    def contain(self, boundary: str, error: Exception, cut: Callable[[], object] | None = None) -> None:
        """Count and report what was raised at a boundary, and cut what raised it.

        Args:
            cut: Ends what raised, for example its connection. What it raises itself is contained too.

        Raises:
            Exception: `error`, where faults are not reported.
        """
        on_fault = self.on_fault
        if on_fault is None:
            raise error
        self._counts[boundary] = self._counts.get(boundary, 0) + 1
        on_fault(boundary, error)
        if cut is not None:
            self.run(boundary, cut)

    def run(self, boundary: str, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the boundary itself
            self.contain(boundary, error)

    def count(self, boundary: str) -> int:
        return self._counts.get(boundary, 0)

    def by_boundary(self) -> dict[str, int]:
        return dict(self._counts)

    def statistics(self) -> dict[str, int]:
        return {"faults.contained": sum(self._counts.values())}

    def __repr__(self) -> str:
        return f"Faults({ {name: count for name, count in self._counts.items() if count} })"

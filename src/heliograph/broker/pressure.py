"""How short memory is, as the kernel asks: flags that the node sets once in a tick, and what they did.

Who decides is `node/memory_policy.py`; docs/memory.md says what happens in which order, and to whom.
"""

from typing import Final

from mypy_extensions import i64

_NOTED_CLIENTS_MAX: Final = 10_000


class Pressure:
    """Whether memory is short; owned by the broker, set by the node, read where something would add to memory.

    Attributes:
        is_on: Caches are small, and what clients add is noted.
        sheds_qos0: Messages at QoS 0 do not wait for anybody.
        refuses_growth: No session begins that outlives its connection, and the clients in `heavy` get no further
            subscriptions and delayed messages, nor retained ones in memory.
        refuses_connections: No client is let in.
        heavy: The clients that hold most, with how many bytes.
        noted: By how many bytes retained messages in memory grew, by client, since memory became short.
        qos0_shed: How many messages at QoS 0 did not wait,
        growth_refused: how many sessions, subscriptions and messages were refused,
        connections_refused: and how many CONNECTs.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.sheds_qos0 = False
        self.refuses_growth = False
        self.refuses_connections = False
        self.heavy: dict[str, int] = {}
        self.noted: dict[str, int] = {}
        self.qos0_shed: i64 = 0
        self.growth_refused: i64 = 0
        self.connections_refused: i64 = 0

    def may_grow(self, clientid: str) -> bool:
        """Whether a client may have more; counted where it may not."""
        if self.refuses_growth and clientid in self.heavy:
            self.growth_refused += 1
            return False
        return True

    def note(self, clientid: str, growth_bytes: int) -> None:
        """Retained messages in memory grew by what a client published; called while memory is short.

        Args:
            growth_bytes: By how much, below 0 if they have become less.
        """
        before = self.noted.get(clientid, 0)
        if before > 0 or (growth_bytes > 0 and len(self.noted) < _NOTED_CLIENTS_MAX):
            self.noted[clientid] = max(0, before + growth_bytes)

    def __repr__(self) -> str:
        flags = [
            name for name in ("is_on", "sheds_qos0", "refuses_growth", "refuses_connections") if getattr(self, name)
        ]
        return f"Pressure({', '.join(flags) or 'none'}, {len(self.heavy)} heavy clients)"

"""Memory pressure as flags for the kernel: the node sets them once in a tick; counters say what they did.

`node/memory_policy.py` decides; docs/memory.md says what happens, to which clients, in which order.
"""

from typing import Final

from mypy_extensions import i64

_NOTED_CLIENTS_MAX: Final = 10_000
_NOTED_ID_BYTES_MAX: Final = 4 << 20  # a client id may have 65,535


class Pressure:
    """Whether memory is short; owned by the broker, set by the node, read where something would add to memory.

    Attributes:
        is_on: Caches are small, and what clients add is noted.
        sheds_qos0: Messages at QoS 0 are not queued.
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
        self._noted_id_bytes: i64 = 0
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
        noted = self.noted
        if clientid in noted:
            noted[clientid] = max(0, noted[clientid] + growth_bytes)
        elif (
            growth_bytes > 0
            and len(noted) < _NOTED_CLIENTS_MAX
            and self._noted_id_bytes + len(clientid) <= _NOTED_ID_BYTES_MAX
        ):
            noted[clientid] = growth_bytes
            self._noted_id_bytes += len(clientid)

    def forget(self) -> None:
        """Memory is no longer short: forget the clients that grew."""
        self.noted = {}
        self._noted_id_bytes = 0

    def __repr__(self) -> str:
        flags = [
            name for name in ("is_on", "sheds_qos0", "refuses_growth", "refuses_connections") if getattr(self, name)
        ]
        return f"Pressure({', '.join(flags) or 'none'}, {len(self.heavy)} heavy clients)"

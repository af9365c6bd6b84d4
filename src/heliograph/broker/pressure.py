"""Pressure on a node as flags for the kernel: the node sets them once in a tick; counters say what they did.

Of memory `node/memory_policy.py` decides, of overload `node/overload.py`; docs/memory.md and docs/overload.md
say what happens, to which clients, in which order.
"""

from typing import Final

from mypy_extensions import i64

_NOTED_CLIENTS_MAX: Final = 10_000
_NOTED_ID_BYTES_MAX: Final = 4 << 20  # a client id may have 65,535


class Pressure:
    """Whether memory is short or the node overloaded; owned by the broker, set by the node, read where more would come.

    Attributes:
        is_on: Caches are small, and what clients add is noted.
        sheds_qos0: Messages at QoS 0 are not queued, and those lose them at once who do not read what they were sent.
        refuses_growth: No session begins that outlives its connection, and the clients in `heavy` get no further
            subscriptions and delayed messages, nor retained ones in memory.
        refuses_connections: No client is let in, since memory is short.
        holds_connections: CONNECTs wait, and are refused if that goes on: the node is overloaded.
        keeps_awake: Idle durable sessions stay in memory: the node is overloaded.
        heavy: The clients that hold most, with how many bytes.
        noted: By how many bytes retained messages in memory grew, by client, since memory became short.
        qos0_shed: How many messages at QoS 0 did not wait,
        growth_refused: how many sessions, subscriptions and messages were refused,
        connections_refused: and how many CONNECTs.
        overload_qos0_shed: How many messages at QoS 0 did not wait since the node was overloaded,
        overload_refused: how many CONNECTs were refused,
        delays_ended: how many waited until it was not any more,
        delays_timed_out: how many waited in vain,
        kept_awake: and how often a session stayed in memory that would have left it.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.sheds_qos0 = False
        self._memory_sheds = False
        self._overload_sheds = False
        self.refuses_growth = False
        self.refuses_connections = False
        self.holds_connections = False
        self.keeps_awake = False
        self.heavy: dict[str, int] = {}
        self.noted: dict[str, int] = {}
        self._noted_id_bytes: i64 = 0
        self.qos0_shed: i64 = 0
        self.growth_refused: i64 = 0
        self.connections_refused: i64 = 0
        self.overload_qos0_shed: i64 = 0
        self.overload_refused: i64 = 0
        self.delays_ended: i64 = 0
        self.delays_timed_out: i64 = 0
        self.kept_awake: i64 = 0

    def shed_for_memory(self, sheds: bool) -> None:
        self._memory_sheds = sheds
        self.sheds_qos0 = sheds or self._overload_sheds

    def shed_for_overload(self, sheds: bool) -> None:
        self._overload_sheds = sheds
        self.sheds_qos0 = sheds or self._memory_sheds

    def count_shed(self) -> None:
        if self._overload_sheds and not self._memory_sheds:
            self.overload_qos0_shed += 1
        else:
            self.qos0_shed += 1

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
        self.noted = {}
        self._noted_id_bytes = 0

    def __repr__(self) -> str:
        flags = [
            name
            for name in ("is_on", "sheds_qos0", "refuses_growth", "refuses_connections", "holds_connections")
            if getattr(self, name)
        ]
        return f"Pressure({', '.join(flags) or 'none'}, {len(self.heavy)} heavy clients)"

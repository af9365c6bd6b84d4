"""How far a durable session is in what is stored, and where its subscriptions begin in it."""

from typing import Final

from mypy_extensions import i64

from heliograph.session.mqueue import Delivery, size_of

# Ids of assigned messages that are remembered before the session looks whether they are below the head already; and
# how many it keeps while its queue does not get empty.
_RECENT: Final = 64
_RECENT_MAX: Final = 8192


class Cursor:
    """A commit time up to which every stored message was assigned, and the messages above it that were assigned too.

    A message is assigned once it was sent under a packet identifier, or is not for the session. Owned by the session.

    Attributes:
        taken: Ids above the cursor that were assigned before the session fell behind, with their QoS.
        emitted: Ids above the cursor that were replayed.
        recent_bytes: What the messages have that were assigned above the cursor while the session was live.
    """

    def __init__(self, at_us: i64) -> None:
        self.at_us = at_us
        self.taken: dict[tuple[int, int], int] = {}
        self.emitted: list[tuple[int, int, int]] = []
        self.recent_bytes: i64 = 0
        self._frontier_us: i64 = 0  # the commit that is being replayed
        self._recent: list[Delivery] = []
        self._recent_max: i64 = _RECENT

    # --- while the session is live

    def add(self, delivery: Delivery) -> bool:
        self._recent.append(delivery)
        self.recent_bytes += len(delivery.message.publish.data)
        return len(self._recent) >= self._recent_max

    def is_overfull(self) -> bool:
        return len(self._recent) >= _RECENT_MAX

    def advance(self, head_us: i64, committed: i64) -> None:
        """All that was stored up to the head is assigned; `committed` is the newest ticket of that."""
        self.at_us = max(self.at_us, head_us)
        if self._recent:
            self._recent = [delivery for delivery in self._recent if delivery.message.ticket > committed]
            self.recent_bytes = 0
            for delivery in self._recent:
                self.recent_bytes += len(delivery.message.publish.data)

    def widen(self) -> None:
        """Remember about twice as many as now before looking again."""
        self._recent_max = min(2 * len(self._recent) + _RECENT, _RECENT_MAX)

    def fall_behind(self) -> i64:
        """The session is not live any more: what was assigned is known by its id; the newest ticket of that."""
        newest: i64 = 0
        for delivery in self._recent:
            message = delivery.message
            self.note(message.id_high, message.id_low, delivery.qos)
            newest = max(newest, message.ticket)
        self._recent = []
        self.recent_bytes = 0
        return newest

    # --- while messages are replayed

    def note(self, high: int, low: int, qos: int) -> None:
        key: tuple[int, int] = (high, low)
        self.taken[key] = max(self.taken.get(key, -1), qos)

    def reach(self, stored_at_us: i64) -> bool:
        """The next message of the replay is of that commit; whether it is above the cursor."""
        if stored_at_us <= self.at_us:
            return False
        if stored_at_us > self._frontier_us:
            self._frontier_us = stored_at_us
            self.at_us = max(self.at_us, stored_at_us - 1)
            self.emitted = []
        return True

    def is_taken(self, key: tuple[int, int], qos: i64) -> bool:
        """Whether a message was assigned before, at that QoS at the least."""
        return self.taken.get(key, -1) >= qos

    def emit(self, key: tuple[int, int], qos: i64) -> None:
        self.emitted.append((key[0], key[1], qos))

    def interrupt(self) -> None:
        """The replay starts again at the cursor: what was replayed above it counts as assigned."""
        for high, low, qos in self.emitted:
            self.note(high, low, qos)
        self.emitted = []

    def replayed(self, head_us: i64) -> None:
        self.at_us = max(self.at_us, head_us)
        self.emitted = []

    def go_live(self) -> None:
        self.taken = {}

    def assigned(self) -> list[tuple[int, int, int]]:
        """The ids above the cursor that were assigned, with their QoS."""
        ids = [(high, low, qos) for (high, low), qos in self.taken.items()]
        for delivery in self._recent:
            ids.append((delivery.message.id_high, delivery.message.id_low, delivery.qos))
        return ids + self.emitted

    def __repr__(self) -> str:
        return f"Cursor({int(self.at_us)}, {len(self.taken)} taken, {len(self._recent)} recent)"


class Beginning:
    """From where on what is stored is for a subscription; a value.

    A commit time alone does not say it: of what is under way when a subscription is made, one commit may hold messages
    from before and from after.

    Args:
        stored_us: What was stored up to this commit time is older than the subscription.
        received_us: So is what the broker received up to this time,
        until_us: if it was stored up to this commit time; 0 for whatever was stored, which holds until the broker
            starts again: its clock may have been set back by then.
    """

    def __init__(self, stored_us: i64, received_us: i64, until_us: i64) -> None:
        self.stored_us = stored_us
        self.received_us = received_us
        self.until_us = until_us

    def is_behind(self, stored_us: i64, received_us: i64) -> bool:
        """Whether a message that was stored and received at these times is older than the subscription."""
        if stored_us <= self.stored_us:
            return True
        return received_us <= self.received_us and (self.until_us == 0 or stored_us <= self.until_us)

    def __repr__(self) -> str:
        return f"Beginning({int(self.stored_us)}, {int(self.received_us)}, {int(self.until_us)})"


class Caught:
    """Messages that come while a replay is at its end, until the commits before them are done; owned by the session.

    Attributes:
        size_bytes: What they count.
    """

    def __init__(self) -> None:
        self.size_bytes: i64 = 0
        self._deliveries: dict[tuple[int, int], list[Delivery]] = {}  # by message id, in the order in which they came

    def __len__(self) -> int:
        return len(self._deliveries)

    def add(self, delivery: Delivery) -> None:
        """A message came; where subscriptions overlap, more than once."""
        message = delivery.message
        self._deliveries.setdefault((message.id_high, message.id_low), []).append(delivery)
        self.size_bytes += size_of(message)

    def forget(self, key: tuple[int, int]) -> None:
        """A message was replayed, whose commit came meanwhile."""
        for delivery in self._deliveries.pop(key, []):
            self.size_bytes -= size_of(delivery.message)

    def newest_ticket(self) -> i64:
        """The newest ticket of them; 0 for none."""
        newest: i64 = 0
        for deliveries in self._deliveries.values():
            newest = max(newest, deliveries[0].message.ticket)
        return newest

    def in_order(self) -> list[Delivery]:
        """All of them, in the order in which the messages came."""
        return [delivery for deliveries in self._deliveries.values() for delivery in deliveries]

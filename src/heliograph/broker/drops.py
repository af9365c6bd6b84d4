"""Deliveries that receivers did not get, counted by receiver and reason for reports and alarms.

A receiver that begins to drop puts itself on a list, once; `DropWatch` of `node` takes the list now and then. So a drop
costs a few additions, however many there are, and no callback.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.counters import Counters

_WATCHED_MAX: Final = 1000


class Drops:
    """What one receiver did not get since its session began; owned by the session, made with its first drop.

    Attributes:
        is_watched: Whether it is on a list of `DropLedger`.
    """

    def __init__(self, clientid: str) -> None:
        self.clientid = clientid
        self.is_watched = False
        self.queue_full: i64 = 0
        self.qos0_msg: i64 = 0
        self.expired: i64 = 0
        self.too_large: i64 = 0
        self.not_authorized: i64 = 0

    def counts(self) -> dict[str, int]:
        return {
            "queue_full": self.queue_full,
            "qos0_msg": self.qos0_msg,
            "expired": self.expired,
            "too_large": self.too_large,
            "not_authorized": self.not_authorized,
        }


class DropLedger:
    """The receivers of a node that began to drop since the list was taken; owned by the broker.

    Attributes:
        unwatched_count: Drops of receivers for which the list had no room.
    """

    def __init__(self) -> None:
        self._began: list[Drops] = []
        self.watched_count: i64 = 0
        self.unwatched_count: i64 = 0

    def watch(self, drops: Drops) -> None:
        if self.watched_count >= _WATCHED_MAX:
            self.unwatched_count += 1
            return
        self.watched_count += 1
        drops.is_watched = True
        self._began.append(drops)

    def count(self, drops: Drops, reason: str, counters: Counters) -> None:
        if reason == "qos0_msg":
            counters.delivery_dropped_qos0 += 1
            drops.qos0_msg += 1
        elif reason == "queue_full":
            counters.delivery_dropped_queue_full += 1
            drops.queue_full += 1
        elif reason == "expired":
            counters.delivery_dropped_expired += 1
            drops.expired += 1
        elif reason == "not_authorized":
            counters.delivery_dropped_not_authorized += 1
            drops.not_authorized += 1
        else:
            counters.delivery_dropped_too_large += 1
            drops.too_large += 1
        if not drops.is_watched:
            self.watch(drops)

    def take(self) -> list[Drops]:
        began = self._began
        self._began = []
        return began

    def release(self, drops: Drops) -> None:
        """Stop watching a receiver; its next drop puts it on the list again."""
        drops.is_watched = False
        self.watched_count -= 1

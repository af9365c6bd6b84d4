"""Turns of the event loop, shared out among the channels of a node that have more to do than one allows."""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from heliograph.broker.faults import TURNS
from heliograph.broker.pubsub import Broker
from heliograph.channel.handles import ReaderHandle
from heliograph.session.outbox import Flusher

# In deliveries of 30 to 80 ns: 1 to 3 ms, or 8 MiB of large packets.
WORK_PER_TURN: Final = 32_768
# What those have at least that are read from between two turns of those that wait.
_READ_WORK_MIN: Final = 4096
# What each of those that wait for their turn has at least.
_SHARE_MIN: Final = 1024
# What messages to very many have of a turn, and how much is put into outboxes that wait to be written: each of these
# costs a write, and the more there are, the more each should carry.
_SPREAD_WORK: Final = 8192
_WRITE_WORK: Final = 100
_WRITE_WORK_MAX: Final = 49_152
_SPREAD_WORK_MAX: Final = 98_304


class Turns:
    """Shares the event loop out among channels with more to do than a turn allows, and messages to very many.

    All of them together do so much work between two writes of the outboxes: that bounds what the outboxes hold and how
    long a client with little to say waits. Channels that wait have a turn one after the other, each with its share of
    the work. Owned by the context.

    Args:
        defer: Calls what it is given in a later turn, behind the writing of outboxes that were touched before.
    """

    def __init__(
        self,
        broker: Broker,
        flusher: Flusher,
        clock: Callable[[], int],
        defer: Callable[[Callable[[], None]], object],
    ) -> None:
        self._broker = broker
        self._flusher = flusher
        self._clock = clock
        self._defer = defer
        self._waiting: list[ReaderHandle] = []
        self._is_deferred = False
        self._spread_work: i64 = 0  # that was put into outboxes since they were written
        self.work_max: i64 = broker.work + WORK_PER_TURN  # the broker's work at which a turn ends
        self._is_sharing = False  # one of those that waited has its turn
        self.longest_work: i64 = 0  # the most that one turn did,
        self.longest_us: i64 = 0  # and the longest that one took
        broker.fanouts.on_waiting = self._wake

    def wait(self, channel: ReaderHandle) -> None:
        """Give `channel` a turn when those that wait already have had theirs."""
        self._waiting.append(channel)
        self._wake()

    def has_ended(self) -> bool:
        more: i64 = 0 if self._is_sharing else self.writing_work()
        return self._broker.work > self.work_max + more

    def writing_work(self) -> i64:
        """How much longer a turn is for what is written at its end: the more writes, the more each should carry."""
        # A message to very many is only put into its lane, and spread later.
        spread = min(_WRITE_WORK * self._broker.fanouts.widest, _SPREAD_WORK_MAX)
        return max(min(_WRITE_WORK * i64(self._flusher.touched_count), _WRITE_WORK_MAX), spread)

    def _wake(self) -> None:
        if not self._is_deferred:
            self._is_deferred = True
            self._defer(self._begin)

    def _begin(self) -> None:
        self._is_deferred = False
        began = self._broker.work
        began_us: i64 = self._clock()
        try:
            spread = self._spread()
            self._give_turns(WORK_PER_TURN - spread)
        finally:
            self.longest_work = max(self.longest_work, self._broker.work - began)
            self.longest_us = max(self.longest_us, self._clock() - began_us)
            # What is read before the next turn of those that wait has what this one left: both make one client wait.
            done = self._broker.work - began
            self.work_max = self._broker.work + max(_READ_WORK_MIN, WORK_PER_TURN - done)
            if self._waiting or self._broker.fanouts.count > 0 or self._flusher.keeps_spread:
                self._wake()

    def _give_turns(self, work: i64) -> None:
        """Let those that wait go on, each with its share, until so much work is done."""
        broker = self._broker
        waiting = self._waiting
        self._waiting = []
        end = broker.work + work
        share = max(_SHARE_MIN, WORK_PER_TURN // max(1, len(waiting)))
        at: i64 = 0
        self._is_sharing = len(waiting) > 1
        try:
            while at < len(waiting) and broker.work < end + self.writing_work():
                channel = waiting[at]
                at += 1
                self.work_max = broker.work + share
                try:
                    channel.on_turn()
                except Exception as error:  # noqa: BLE001 - those behind it have their turns, whatever it is
                    broker.faults.contain(TURNS, error, channel.abort)
        finally:
            self._is_sharing = False
            self._waiting = waiting[at:] + self._waiting

    def _spread(self) -> i64:
        """Go on with messages to very many, unless what they were put into must be written first: what that cost."""
        fanouts, flusher = self._broker.fanouts, self._flusher
        if flusher.spread_count == 0:
            self._spread_work = 0
        may_go_on = flusher.spread_count == 0 or flusher.keeps_spread
        work: i64 = 0
        if fanouts.count > 0 and may_go_on:
            self._broker.begin_turn(self._clock())
            flusher.is_spreading = True
            try:
                while fanouts.count > 0 and work < _SPREAD_WORK:
                    work += fanouts.step()
            finally:
                flusher.is_spreading = False
                self._broker.work += work
            self._spread_work += work
        wanted = min(_WRITE_WORK * i64(flusher.spread_count), _SPREAD_WORK_MAX)
        if fanouts.count > 0 and may_go_on and self._spread_work < wanted:
            flusher.keeps_spread = True
        elif flusher.keeps_spread:
            flusher.release()
        return work

    def statistics(self) -> dict[str, int]:
        """How many wait for their turn, the most that one turn did, in deliveries, and the longest that one took."""
        return {
            "turns.waiting": len(self._waiting),
            "turns.longest_work": self.longest_work,
            "turns.longest_us": self.longest_us,
        }

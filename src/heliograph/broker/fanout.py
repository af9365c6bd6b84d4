"""Messages on their way to more subscriptions than one turn of the event loop takes.

`Broker.dispatch` hands a message to a few hundred subscriptions at once. One that has more, or whose filters take long
to find, is put into the lane of its topic here and goes on in later turns; so does every later message of that topic
while the lane is not empty, and none overtakes another. Lanes take turns: a message with a hundred thousand receivers
holds up its own topic, and nothing else for longer than a step.

A subscription that is made meanwhile does not get the message: its client is sent the newest retained message of the
topic, and what is on its way here may be older. One that is given up does not get it.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.faults import DELIVERIES, FANOUTS, Faults
from heliograph.broker.message import Message
from heliograph.broker.router import Route, Router
from heliograph.broker.shared import SharedGroups
from heliograph.broker.subscription import FilterEntry, Subscription
from heliograph.broker.trie import TrieWalk

_STEP_WORK: Final = 2048
# How many lanes are under way at once: each may hold a list of all filters that match its topic.
_LANES_AT_ONCE: Final = 16
_BYTES_PER_WORK_LOG2: Final = 8
_OWN_COST_MAX: Final = 524_288


@mypyc_attr(allow_interpreted_subclasses=True)
class Spreader:
    """A publisher that is held back while its large fan-outs go on.

    Attributes:
        spreading: How many deliveries its messages on their way have yet to make, about.
    """

    spreading: i64 = 0

    def on_spreading(self) -> None:
        """One more of its messages is on its way."""

    def on_spread(self) -> None:
        """None is any more."""

    def abort(self) -> None:
        """Close its connection at once: it raised where others are handled too."""


class Fanout:
    """One message, and how far it is.

    Args:
        entries: The filters that match its topic; None where they have yet to be found.
        at: How many of them it was handed to.
        size: How many there are, at least 1, as far as that is known.

    Attributes:
        cost: What all of that is, in deliveries.
        number: Its place among all messages that went to very many; it passes by subscriptions that were made later.
    """

    def __init__(
        self,
        faults: Faults,
        message: Message,
        route: Route,
        entries: list[FilterEntry] | None,
        at: i64,
        count: i64,
        size: i64,
        spreader: Spreader | None,
    ) -> None:
        self._faults = faults
        self.message = message
        self.route = route
        self.count = count
        self.size = size
        self.cost: i64 = size * (1 + (len(message.publish.data) >> _BYTES_PER_WORK_LOG2))
        self.spreader = spreader
        self.number: i64 = 0
        self.is_done = False
        self._entries = entries
        self._at = at
        self._entry: FilterEntry | None = None  # whose subscriptions are being walked through,
        self._many: list[Subscription] = []
        self._next: i64 = 0
        self._end: i64 = 0

    @property
    def is_found(self) -> bool:
        return self._entries is not None

    def begin(self, entries: list[FilterEntry], exact: FilterEntry | None) -> None:
        self._entries = entries
        self._at = 0
        if exact is not None and exact.only is not None:
            self._many = [exact.only]
            self._end = 1
        elif exact is not None:
            self._walk(exact)

    def advance(self, work_max: i64) -> i64:
        """Hand it on until so much work is done, or to all (`is_done`): what that cost, in deliveries."""
        message = self.message
        entries = self._entries
        if entries is None:
            return 0
        each: i64 = 1 + (len(message.publish.data) >> _BYTES_PER_WORK_LOG2)
        work: i64 = 0
        while work < work_max:
            if self._next < self._end:
                work += each * self._hand_out(message, max(1, (work_max - work) // each))
                continue
            if self._entry is not None:
                self._leave(self._entry)
            if self._at >= len(entries):
                self.is_done = True
                return work
            entry = entries[self._at]
            self._at += 1
            only = entry.only
            if only is not None:
                work += each
                self._deliver(message, only)
            else:
                work += 1
                self._walk(entry)
        return work

    def _hand_out(self, message: Message, count_max: i64) -> i64:
        """Hand it to so many more subscriptions of one filter at the most: how many were looked at."""
        many = self._many
        first = self._next
        at = first
        stop = min(self._end, first + count_max)
        while at < stop:
            subscription = many[at]
            at += 1
            self._next = at
            if subscription.slot >= 0:  # it was not given up meanwhile
                self._deliver(message, subscription)
        return at - first

    def _deliver(self, message: Message, subscription: Subscription) -> None:
        if subscription.made_after < self.number:
            self.count += 1
            try:
                subscription.subscriber.deliver(message, subscription)
            except Exception as error:  # noqa: BLE001 - the other receivers get it
                self._faults.contain(DELIVERIES, error, subscription.subscriber.abort)

    def _walk(self, entry: FilterEntry) -> None:
        many = entry.many
        if many is not None:
            entry.walkers += 1
            self._entry = entry
            self._many = many
            self._next = 0
            self._end = len(many)

    def _leave(self, entry: FilterEntry) -> None:
        self._entry = None
        if entry.many is self._many:
            entry.walkers -= 1
        self._many = []
        self._next = 0
        self._end = 0


class Lane:
    """The messages of one topic that are on their way, in their order."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.waiting: deque[Fanout] = deque()
        self._walk: TrieWalk | None = None
        self._found: list[FilterEntry] = []
        self._found_for: i64 = -1  # the router's number of changes that they were found for

    def advance(self, router: Router, work_max: i64) -> i64:
        """Go on with the first message: what that cost, in deliveries."""
        fanout = self.waiting[0]
        if not fanout.is_found:
            if self._found_for != router.filters.trie.changes:
                walk = self._walk
                if walk is None:
                    walk = TrieWalk(self.topic)
                    self._walk = walk
                if not router.filters.trie.advance(walk, work_max):
                    return work_max
                self._walk = None
                self._found = walk.found
                self._found_for = router.filters.trie.changes
                router.narrow(fanout.route, walk.found)
            fanout.begin(self._found, router.filters.exact(self.topic))
        return fanout.advance(work_max)


class Fanouts:
    """All that is on its way; owned by the broker.

    Attributes:
        own_cost: What those of the broker itself (of rules, wills, delayed ones) have yet to cost, in deliveries.
        step_work: What a lane does before the next one has its turn, in deliveries.
        widest: How many subscriptions the one of them had that had most.
        on_waiting: Called when something waits for its first `advance`; without it, that is done at once.
        on_passed: Called when `oldest_ticket` has changed.
        on_unheard: Called with the message that turned out to have no subscription.
    """

    def __init__(self, router: Router, shared: SharedGroups, faults: Faults) -> None:
        self._faults = faults
        self._router = router
        self._shared = shared
        self.count: i64 = 0
        self.own_cost: i64 = 0
        self.step_work: i64 = _STEP_WORK
        self.widest: i64 = 0
        self.spread_count: i64 = 0
        self.on_waiting: Callable[[], None] | None = None
        self.on_passed: Callable[[], None] | None = None
        self.on_unheard: Callable[[Message], None] | None = None
        self._lanes: dict[str, Lane] = {}
        self._under_way: deque[Lane] = deque()
        self._waiting: deque[Lane] = deque()  # until fewer are under way
        self._stored: deque[Fanout] = deque()  # in the order of their tickets

    def has_room(self) -> bool:
        """Whether the broker itself may publish: it is held back while its own fan-outs go on."""
        return self.own_cost < _OWN_COST_MAX

    def has_lane(self, topic: str) -> bool:
        """Whether earlier messages of a topic are on their way, which a new one must not overtake."""
        return topic in self._lanes

    def oldest_ticket(self) -> i64:
        """The ticket of the oldest stored message that is on its way, 0 for none."""
        return self._stored[0].message.ticket if self._stored else 0

    def add(self, fanout: Fanout) -> None:
        """Put a message behind those of its topic."""
        topic = fanout.message.topic
        lane = self._lanes.get(topic)
        if lane is None:
            lane = Lane(topic)
            self._lanes[topic] = lane
            if len(self._under_way) < _LANES_AT_ONCE:
                self._under_way.append(lane)
            else:
                self._waiting.append(lane)
        lane.waiting.append(fanout)
        if fanout.message.ticket > 0:
            self._stored.append(fanout)
        if fanout.spreader is None:
            self.own_cost += fanout.cost
        else:
            fanout.spreader.spreading += fanout.cost
            fanout.spreader.on_spreading()
        self.widest = max(self.widest, fanout.size)
        self.spread_count += 1
        fanout.number = self.spread_count
        self.count += 1
        if self.on_waiting is None:
            while self.count > 0:
                self.step()
        elif self.count == 1:
            self.on_waiting()

    def step(self) -> i64:
        """Go on with the next lane: what that cost, in deliveries."""
        lane = self._under_way.popleft()
        fanout = lane.waiting[0]
        refusals = self._shared.refusals
        work = self.step_work
        try:
            work = lane.advance(self._router, self.step_work)
        except Exception as error:  # noqa: BLE001 - the message ends here; those behind it go on
            fanout.is_done = True
            self._faults.contain(FANOUTS, error)
        finally:
            if fanout.is_done:
                self._finish(lane, fanout)
            else:
                self._under_way.append(lane)
        return work + self._shared.refusals - refusals

    def _finish(self, lane: Lane, fanout: Fanout) -> None:
        lane.waiting.popleft()
        self.count -= 1
        if lane.waiting:
            self._under_way.append(lane)
        else:
            del self._lanes[lane.topic]
            if self._waiting:
                self._under_way.append(self._waiting.popleft())
        if self.count == 0:
            self.widest = 0
        spreader = fanout.spreader
        if spreader is None:
            self.own_cost -= fanout.cost
        else:
            spreader.spreading -= fanout.cost
            if spreader.spreading == 0:
                try:
                    spreader.on_spread()
                except Exception as error:  # noqa: BLE001 - other messages go on
                    self._faults.contain(FANOUTS, error, spreader.abort)
        if fanout.count == 0 and not fanout.route.durable and self.on_unheard is not None:
            self.on_unheard(fanout.message)
        if fanout.message.ticket > 0:
            self._pass()

    def _pass(self) -> None:
        stored = self._stored
        before = len(stored)
        while stored and stored[0].is_done:
            stored.popleft()
        if len(stored) != before and self.on_passed is not None:
            self.on_passed()

    def statistics(self) -> dict[str, int]:
        """How many messages are on their way to many subscriptions, and how many went it."""
        return {"fanouts.count": self.count, "fanouts.spread": self.spread_count}

"""What all channels of a node share, and how a channel that waits is woken.

`Commits` joins channels to storage: a channel that published something durable is told when the commit that holds it
is done. `ChannelTable` knows every connection of the node.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.client import ClientInfo
from heliograph.broker.fanout import Spreader
from heliograph.broker.faults import COMMITS, CONNECTIONS, TICKS, TURNS, Faults
from heliograph.broker.pending import Pending
from heliograph.broker.pubsub import Broker
from heliograph.mqtt.packets import SubscribeEntry
from heliograph.session.outbox import Flusher
from heliograph.session.table import SessionTable

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
# Channels that look at the time in one turn: 1 ms.
_TICKED_AT_ONCE: Final = 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class ChannelHandle(Spreader):
    """What the node calls on a channel: commits, turns, ticks, takeover, kick."""

    def on_committed(self, ticket: i64, code: int) -> None:
        """The commit with this ticket is done: `code` 0, or refused with that reason code."""
        raise NotImplementedError

    def on_room(self) -> None:
        """Storage takes messages again."""
        raise NotImplementedError

    def on_turn(self) -> None:
        """It has its turn now."""
        raise NotImplementedError

    def wait_for(self, awaited: Pending[bool], go_on: Callable[[bool], None]) -> None:
        """Handle nothing more of the client until an answer is there; then go on with it, and with what came since.

        Args:
            go_on: Gets the answer. Never called if the client goes meanwhile.
        """
        raise NotImplementedError

    def on_tick(self, uptime_us: i64) -> None:
        """Time has passed."""
        raise NotImplementedError

    def take_over(self, discard: bool) -> None:
        """Another connection has the client id now; `discard`: and begins a session of its own."""
        raise NotImplementedError

    def shut_down(self, code: int) -> None:
        """The broker ends the conversation."""
        raise NotImplementedError

    def subscribe(self, entries: list[SubscribeEntry]) -> list[int]:
        """Subscribe on the client's behalf: a reason code for each filter."""
        raise NotImplementedError

    def unsubscribe(self, topic_filters: list[str]) -> list[int]:
        """Unsubscribe on the client's behalf: a reason code for each filter."""
        raise NotImplementedError

    def client_info(self) -> ClientInfo | None:
        """Who the client is, once its CONNECT was read."""
        return None

    def buffered_bytes(self) -> int:
        """Bytes that closing it would free: what waits for the peer, or for its next packet to be whole."""
        return 0

    def held_bytes(self, shared: dict[int, int]) -> int:
        """Bytes that the connection holds beside its session.

        Args:
            shared: Where larger pieces are noted instead, by the identity of the object: others may hold them too.
        """
        return 0

    def alias_bytes(self) -> int:
        """Bytes of the topic aliases that the client set."""
        return 0

    def cut(self, code: int, why: str) -> None:
        """End the conversation at once: what waits for the peer is lost."""
        self.shut_down(code)


class Commits:
    """Which channels wait for which storage commit; owned by the node, which tells it of every commit."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._waiting: dict[int, list[ChannelHandle]] = {}
        self._without_room: list[ChannelHandle] = []
        self._done: i64 = 0
        # Of the commit that is told of: what those are told who wait for other databases too, and why it was refused.
        self.joined_code = 0
        self.reason = ""

    def is_pending(self, ticket: i64) -> bool:
        """Whether the commit with this ticket is still to come."""
        return ticket > self._done

    def wait(self, ticket: int, waiter: ChannelHandle) -> None:
        """Tell `waiter` when the commit with this ticket is done."""
        waiters = self._waiting.get(ticket)
        if waiters is None:
            self._waiting[ticket] = [waiter]
        else:
            waiters.append(waiter)

    def wait_for_room(self, waiter: ChannelHandle) -> None:
        """Tell `waiter` when storage has room again."""
        self._without_room.append(waiter)

    def done(self, ticket: int, code: int, has_room: bool, joined_code: int = -1, reason: str = "") -> None:
        """A commit is done: tell those who wait for it.

        Args:
            code: 0, or with what it was refused.
            has_room: Whether more may be published.
            joined_code: The same for messages that other databases keep too; -1 where it is the same.
            reason: Why it was refused, for the client.
        """
        self._done = ticket
        self.joined_code = code if joined_code < 0 else joined_code
        self.reason = reason
        for waiter in self._waiting.pop(ticket, []):
            try:
                waiter.on_committed(ticket, code)
            except Exception as error:  # noqa: BLE001 - those behind it get their acknowledgements, whatever it is
                self._faults.contain(COMMITS, error, waiter.abort)
        if has_room and self._without_room:
            waiters = self._without_room
            self._without_room = []
            for waiter in waiters:
                try:
                    waiter.on_room()
                except Exception as error:  # noqa: BLE001 - those behind it are read from again, whatever it is
                    self._faults.contain(COMMITS, error, waiter.abort)


class Turns:
    """Shares the event loop out among channels with more to do than a turn allows, and messages to very many.

    All of them together do so much work between two writes of the outboxes: that bounds what the outboxes hold and how
    long a client with little to say waits. Channels that wait have a turn one after the other, each with its share of
    the work. Owned by the context.

    Args:
        clock: Microseconds on the monotonic clock.
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
        self._waiting: list[ChannelHandle] = []
        self._is_deferred = False
        self._spread_work: i64 = 0  # that was put into outboxes since they were written
        self.work_max: i64 = broker.work + WORK_PER_TURN  # the broker's work at which whoever has its turn ends it
        self._is_sharing = False  # one of those that waited has its turn
        self.longest_work: i64 = 0  # the most that one turn did,
        self.longest_us: i64 = 0  # and the longest that one took
        broker.fanouts.on_waiting = self._wake

    def wait(self, channel: ChannelHandle) -> None:
        """Give `channel` a turn when those that wait already have had theirs."""
        self._waiting.append(channel)
        self._wake()

    def has_ended(self) -> bool:
        """Whether a channel that is no better than others must wait for another turn."""
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


class ChannelTable:
    """Every channel of a node by its number, and the connected ones by client id; owned by the node."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._all: dict[int, ChannelHandle] = {}
        self._unticked: list[int] = []  # the channels of this round of ticks, by number,
        self._ticked_count: i64 = 0  # and how many of them have had theirs
        self._connected: dict[str, ChannelHandle] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, number: int, channel: ChannelHandle) -> None:
        """A connection was accepted."""
        self._all[number] = channel

    def remove(self, number: int) -> None:
        """A connection is gone."""
        self._all.pop(number, None)

    def all(self) -> list[ChannelHandle]:
        """Every channel."""
        return list(self._all.values())

    def items(self) -> list[tuple[int, ChannelHandle]]:
        """Every channel with its number."""
        return list(self._all.items())

    def get(self, number: int) -> ChannelHandle | None:
        """The channel with a number, while its connection stands."""
        return self._all.get(number)

    def find(self, clientid: str) -> ChannelHandle | None:
        """The channel that serves a client id now."""
        return self._connected.get(clientid)

    def find_client(self, clientid: str) -> ClientInfo | None:
        """Who is connected with a client id now."""
        channel = self._connected.get(clientid)
        return None if channel is None else channel.client_info()

    def register(self, clientid: str, channel: ChannelHandle) -> None:
        """A channel serves a client id from now on."""
        self._connected[clientid] = channel

    def unregister(self, clientid: str, channel: ChannelHandle) -> None:
        """A channel stops serving a client id, unless another does already."""
        if self._connected.get(clientid) is channel:
            del self._connected[clientid]

    def tick(self, uptime_us: i64) -> bool:
        """Let channels look at the time, some at once: whether there are more, for the next call in another turn."""
        if self._ticked_count == len(self._unticked):
            self._unticked = list(self._all)
            self._ticked_count = 0
        end = min(self._ticked_count + _TICKED_AT_ONCE, i64(len(self._unticked)))
        while self._ticked_count < end:
            channel = self._all.get(self._unticked[self._ticked_count])
            self._ticked_count += 1
            if channel is None:  # its connection is gone
                continue
            try:
                channel.on_tick(uptime_us)
            except Exception as error:  # noqa: BLE001 - the others look at the time too, whatever it is
                self._faults.contain(TICKS, error, channel.abort)
        return self._ticked_count < len(self._unticked)

    def shut_down(self, code: int) -> None:
        """End every conversation with a reason code."""
        for channel in list(self._all.values()):
            try:
                channel.shut_down(code)
            except Exception as error:  # noqa: BLE001 - the others are told, whatever it is
                self._faults.contain(CONNECTIONS, error, channel.abort)

    def statistics(self) -> dict[str, int]:
        """Counts, named as EMQX names them."""
        return {"connections.count": len(self._all), "live_connections.count": len(self._connected)}


class ChannelContext:
    """What a node's channels share.

    Args:
        node: The node's number, for message ids.
        clock: Microseconds on the monotonic clock (`time.monotonic`).
        defer: Calls what it is given in a later turn of the event loop (`loop.call_soon`).
        call_later: Calls what it is given after so many seconds (`loop.call_later`).
        new_clientid: A client id for a client that brings none.
        report: Told the peer, the client id and the reason when a conversation ends badly.
    """

    def __init__(
        self,
        node: int,
        broker: Broker,
        sessions: SessionTable,
        flusher: Flusher,
        clock: Callable[[], int],
        defer: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], object],
        new_clientid: Callable[[], str],
        report: Callable[[str, str, str], object],
    ) -> None:
        self.node = node
        self.broker = broker
        self.sessions = sessions
        self.flusher = flusher
        self.clock = clock
        self.defer = defer
        self.call_later = call_later
        self.new_clientid = new_clientid
        self.report = report
        self.commits = Commits(broker.faults)
        self.channels = ChannelTable(broker.faults)
        self.turns = Turns(broker, flusher, clock, defer)
        self._last_number: int = 0

    def begin_turn(self) -> None:
        """Look at the time, for whatever is done now."""
        self.broker.begin_turn(self.clock())

    def next_number(self) -> int:
        """A number for a new channel, not used before."""
        self._last_number += 1
        return self._last_number

"""What all channels of a node share."""

from collections.abc import Callable

from heliograph.broker.pubsub import Broker
from heliograph.channel.channel_table import ChannelTable
from heliograph.channel.commits import Commits
from heliograph.channel.handles import TapSource
from heliograph.channel.rechecks import Rechecks
from heliograph.channel.refusals import RefusedClients
from heliograph.channel.turns import Turns
from heliograph.session.outbox import Flusher
from heliograph.session.table import SessionTable


class ChannelContext:
    """What a node's channels share.

    Args:
        clock: Microseconds on the monotonic clock (`time.monotonic`).
        defer: Calls what it is given in a later turn of the event loop (`loop.call_soon`).
        call_later: Calls what it is given after so many seconds (`loop.call_later`).
        report: Called with the peer, the client id and the reason when a conversation ends badly.
    """

    def __init__(
        self,
        node: int,
        broker: Broker,
        sessions: SessionTable,
        clock: Callable[[], int],
        defer: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], object],
        new_clientid: Callable[[], str],
        report: Callable[[str, str, str], object],
    ) -> None:
        self.node = node
        self.broker = broker
        self.sessions = sessions
        self.flusher = Flusher(defer, broker.counters, broker.faults, broker.times)
        self.clock = clock
        broker.times.clock = clock
        self.defer = defer
        self.call_later = call_later
        self.new_clientid = new_clientid
        self.report = report
        self.commits = Commits(broker.faults)
        self.channels = ChannelTable(broker.faults)
        self.refused = RefusedClients(sessions.knows)
        self.rechecks = Rechecks(broker, sessions, clock, defer)
        broker.rights.on_dropped = self.rechecks.check_all
        self.turns = Turns(broker, self.flusher, clock, defer)
        self.taps: TapSource | None = None  # while a trace is on
        self._last_number: int = 0

    def begin_turn(self) -> None:
        self.broker.begin_turn(self.clock())

    def next_number(self) -> int:
        """A number for a new channel, not used before."""
        self._last_number += 1
        return self._last_number

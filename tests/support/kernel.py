"""A virtual world around the production kernel.

`Kernel` is a node without loop, socket, clock or disk: its clock stands until `advance`, what waits for a later turn of
the event loop runs in `turn` or `run`, and storage commits when a test says so. A `Peer` is a client with its
connection: it sends packets and tells what it received.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from heliograph.broker.durable_sink import DurableSink
from heliograph.broker.hooks import Hooks
from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.retained import RetainedMatches, RetainedStore
from heliograph.broker.router import Router
from heliograph.broker.shared_options import SharedOptions
from heliograph.channel.channel import Channel
from heliograph.channel.context import ChannelContext
from heliograph.channel.options import ChannelOptions
from heliograph.channel.peer import Peer as Address
from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.topic import topic_matches
from heliograph.node.commit_join import CommitJoin, Follower
from heliograph.retainer.memory import MemoryRetainer
from heliograph.session.options import SessionOptions
from heliograph.session.outbox import Wire
from heliograph.session.table import SessionTable
from support.options import CHANNEL, RETAINER
from support.packets import PropertyValue, decode_all, properties, publish, say

START_US: Final = 1_700_000_000_000_000
PEERNAME: Final = "192.0.2.1:50000"
SOCKNAME: Final = "192.0.2.2:1883"

PacketT = TypeVar("PacketT", bound=p.Packet)


class FakeSink(DurableSink):
    """Storage that commits when it is told to.

    One ticket gathers messages while earlier ones wait for their commit, as in a group commit.
    """

    def __init__(self, topics: Sequence[str]) -> None:
        super().__init__()
        self.topics = topics
        self.full = False
        self.filling = False
        self.messages: list[tuple[int, Message]] = []  # ticket and message, in the order they came
        self.open_ticket = 1
        self.committed_ticket = 0
        self.join: CommitJoin | None = None  # with databases that tests have beside it
        self.copies: list[Follower] = []  # databases that each message goes to as well
        self.refusal_code = 0  # with which one of them refuses messages now
        self.tied_ticket = 0  # of the newest message that another database took something of

    def wants(self, topic: str) -> bool:
        return any(topic_matches(topic, topic_filter) for topic_filter in self.topics)

    def append(self, message: Message) -> int:
        self.messages.append((self.open_ticket, message))
        message.ticket = self.open_ticket
        for copy in self.copies:
            copy.took(self.open_ticket)
            self.is_joined = True
        return self.open_ticket

    def append_row(self, message: Message) -> int:
        self.messages.append((self.open_ticket, message))
        self.rows_taken += 1
        self.row_ticket = self.open_ticket
        return self.open_ticket

    def refusal(self, topic: str) -> int:
        return self.refusal_code

    def tie(self) -> None:
        """Another database took something of the message that is handled now."""
        self.tied_ticket = self.open_ticket

    def pending_ticket(self) -> int:
        if self.join is not None:
            self.join.pending_ticket()
        return self.open_ticket if self.tied_ticket == self.open_ticket else 0

    @property
    def is_waiting(self) -> bool:
        """Whether something waits for a commit."""
        return bool(self.messages) or self.tied_ticket > self.committed_ticket

    def is_full(self) -> bool:
        return self.full

    def is_filling(self) -> bool:
        return self.filling or self.full

    def cut(self) -> None:
        """Let what comes from now on belong to the next commit."""
        self.open_ticket += 1


class KeptRetainer(RetainedStore):
    """Has changes of a retainer wait for the disk, as those of one that keeps its messages there."""

    def __init__(self, retainer: RetainedStore, sink: FakeSink) -> None:
        super().__init__()
        self._retainer = retainer
        self._sink = sink

    def retain(self, message: Message) -> bool:
        self._sink.tie()
        return self._retainer.retain(message)

    def refusal_code(self) -> int:
        return self._retainer.refusal_code()

    def may_match(self, topic_filter: str) -> bool:
        return self._retainer.may_match(topic_filter)

    def match(self, topic_filter: str) -> RetainedMatches:
        return self._retainer.match(topic_filter)


class FakeWire(Wire):
    """A connection that keeps what is written to it."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.writes_count = 0
        self.closed = False
        self.stuck = False  # the peer does not read: closing waits for ever
        self.reading_paused = False
        self.on_close: Callable[[], None] | None = None
        self.on_resume: Callable[[], None] | None = None

    def write(self, data: bytes) -> None:
        assert not self.closed, f"{data.hex(' ')} written behind the end of the connection"
        self.written += data
        self.writes_count += 1

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if self.on_close is not None and not self.stuck:
                self.on_close()

    def abort(self) -> None:
        self.closed = True
        if self.on_close is not None:
            self.on_close()

    def pause_reading(self) -> None:
        self.reading_paused = True

    def resume_reading(self) -> None:
        self.reading_paused = False
        if self.on_resume is not None:
            self.on_resume()


class Kernel:
    """One node's kernel under a virtual clock.

    Args:
        stored: The filters of the topics that go to storage.
        routes_max: How many topics the route cache remembers.
        shared: How shared groups choose.
    """

    def __init__(
        self,
        channel_options: ChannelOptions | None = None,
        session_options: SessionOptions | None = None,
        *,
        stored: Sequence[str] = (),
        routes_max: int = 1000,
        shared: SharedOptions | None = None,
    ) -> None:
        self.now_us = START_US
        self.reports: list[str] = []  # why conversations ended badly
        self.hook_failures: list[tuple[str, Exception]] = []
        self._callbacks: list[Callable[[], None]] = []
        self._later: list[tuple[int, Callable[[], None]]] = []
        self._assigned_count = 0
        options = channel_options or CHANNEL
        if session_options is not None:
            options = replace(options, session=session_options)
        self.options = options
        router = Router(options.max_topic_levels, routes_max)
        hooks = Hooks(lambda name, error: self.hook_failures.append((name, error)))
        self.broker = Broker(router, hooks, shared)
        self.broker.clock.look(self.now_us, self.now_us)
        self.broker.begin_turn(self.now_us)
        self.sink = FakeSink(stored)
        self.retainer = MemoryRetainer(self.broker, RETAINER)
        self.broker.retained = KeptRetainer(self.retainer, self.sink) if stored else self.retainer
        if stored:
            self.broker.set_sink(self.sink)
        self.sessions = SessionTable(self.broker)
        self.context = ChannelContext(
            1,
            self.broker,
            self.sessions,
            lambda: self.now_us,
            self.defer,
            self.call_later,
            self._new_clientid,
            lambda peername, clientid, detail: self.reports.append(detail),
        )

    def contain_faults(self) -> list[tuple[str, Exception]]:
        """Have faults contained from now on, as in a node, and not raised in the test: those that were."""
        faults: list[tuple[str, Exception]] = []
        self.broker.faults.on_fault = lambda boundary, error: faults.append((boundary, error))
        return faults

    def set_wall_clock(self, ahead_us: int) -> None:
        """Set the wall clock: so far ahead of the clock that nobody sets. The broker believes it at once."""
        clock = self.broker.clock
        clock.jump_max_us = max(clock.jump_max_us, ahead_us)
        clock.look(self.now_us, self.now_us + ahead_us)

    def defer(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the next turn."""
        self._callbacks.append(callback)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call `callback` when so much time has passed."""
        self._later.append((self.now_us + round(seconds * 1_000_000), callback))

    @property
    def has_work(self) -> bool:
        """Whether something waits for the next turn."""
        return bool(self._callbacks)

    @property
    def timers_count(self) -> int:
        """How much is to be called later."""
        return len(self._later)

    def turn(self) -> None:
        """Run what waits for this turn; what it defers waits for the next."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def run(self) -> None:
        """Run turns until nothing waits."""
        while self._callbacks:
            self.turn()

    def advance(self, seconds: float) -> None:
        """Let time pass, as the node's ticker tells it."""
        self.now_us = max(self.now_us, self.broker.uptime_us) + round(seconds * 1_000_000)
        self.broker.begin_turn(self.now_us)
        while self.context.channels.tick(self.now_us):
            pass
        self.context.rechecks.tick(self.now_us)
        self.sessions.expire(self.now_us)
        due = [callback for at, callback in self._later if at <= self.now_us]
        self._later = [(at, callback) for at, callback in self._later if at > self.now_us]
        for callback in due:
            callback()
        self.run()

    def commit(self, code: int = 0) -> None:
        """Finish the oldest commit: it holds, or is refused with a reason code."""
        sink = self.sink
        sink.committed_ticket += 1
        sink.open_ticket = max(sink.open_ticket, sink.committed_ticket + 1)
        self.context.commits.done(sink.committed_ticket, code, not sink.is_filling())
        self.sessions.wills.on_committed(sink.committed_ticket, code != 0, code != 0)
        self.run()

    def peer(
        self, version: int = p.V5, address: Address | None = None, options: ChannelOptions | None = None
    ) -> "Peer":
        """A client that has a connection, perhaps at a listener with options of its own, and has sent nothing yet."""
        return Peer(self, version, address or Address(PEERNAME, SOCKNAME), options or self.options)

    def connect(
        self,
        clientid: str = "c",
        *,
        version: int = p.V5,
        clean_start: bool = True,
        keepalive_s: int = 0,
        will: p.Will | None = None,
        username: str | None = None,
        options: ChannelOptions | None = None,
        **named: PropertyValue,
    ) -> "Peer":
        """A client that is connected; its CONNACK is read already, behind which nothing may stand."""
        peer = self.peer(version, options=options)
        peer.connect(
            clientid,
            clean_start=clean_start,
            keepalive_s=keepalive_s,
            will=will,
            username=username,
            password=None,
            **named,
        )
        peer.take(p.Connack)
        return peer

    def _new_clientid(self) -> str:
        self._assigned_count += 1
        return f"assigned-{self._assigned_count}"


class Peer:
    """A client and its connection to a `Kernel`."""

    def __init__(self, kernel: Kernel, version: int, address: Address, options: ChannelOptions) -> None:
        self.kernel = kernel
        self.version = version
        self.wire = FakeWire()
        self.wire.on_close = lambda: kernel.defer(self._lose)
        self.wire.on_resume = lambda: kernel.defer(self._deliver)
        self.channel = Channel(kernel.context, self.wire, options)
        self.lost = False
        self._read_at = 0
        self._unread = bytearray()  # sent while the broker did not read
        self._last_packet_id = 0
        self.channel.connection_made(address)

    # --- sending

    def send_bytes(self, data: bytes) -> None:
        """Send bytes; the broker gets them in one piece as soon as it reads."""
        self.feed(data)
        self.kernel.run()

    def feed(self, data: bytes) -> None:
        """Send bytes without running the turns that follow."""
        self._unread += data
        self._deliver()

    def send(self, *packets: p.Packet) -> None:
        """Send packets in one piece."""
        self.send_bytes(self.encoded(*packets))

    def encoded(self, *packets: p.Packet) -> bytes:
        """Packets as this client would send them."""
        return b"".join(encode_packet(packet, self.version) for packet in packets)

    def connect(
        self,
        clientid: str = "c",
        *,
        clean_start: bool = True,
        keepalive_s: int = 0,
        will: p.Will | None = None,
        username: str | None = None,
        password: bytes | None = None,
        **named: PropertyValue,
    ) -> None:
        """Send CONNECT."""
        self.send(
            p.Connect(self.version, clientid, clean_start, keepalive_s, will, username, password, properties(**named))
        )

    def subscribe(
        self,
        topic_filter: str,
        qos: int = 0,
        *,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        **named: PropertyValue,
    ) -> list[int]:
        """Send SUBSCRIBE for one filter and read its SUBACK, behind which nothing may stand: its reason codes."""
        self.send_subscribe(
            p.SubscribeEntry(topic_filter, qos, no_local, retain_as_published, retain_handling), **named
        )
        return self.take(p.Suback).codes

    def send_subscribe(self, *entries: p.SubscribeEntry, **named: PropertyValue) -> None:
        """Send SUBSCRIBE."""
        self.send(p.Subscribe(self.next_packet_id(), list(entries), properties(**named)))

    def unsubscribe(self, *topic_filters: str, **named: PropertyValue) -> list[int]:
        """Send UNSUBSCRIBE and read its UNSUBACK: its reason codes."""
        self.send(p.Unsubscribe(self.next_packet_id(), list(topic_filters), properties(**named)))
        return self.take(p.Suback).codes

    def publish(
        self,
        topic: str,
        payload: bytes = b"",
        qos: int = 0,
        packet_id: int | None = None,
        *,
        retain: bool = False,
        dup: bool = False,
        **named: PropertyValue,
    ) -> None:
        """Send PUBLISH."""
        if packet_id is None:
            packet_id = self.next_packet_id() if qos else 0
        self.send(publish(topic, payload, qos, packet_id, retain=retain, dup=dup, version=self.version, **named))

    def auth(self, code: int, **named: PropertyValue) -> None:
        """Send AUTH."""
        self.send(p.Auth(code, properties(**named)))

    def ack(self, kind: int, packet_id: int, code: int = 0) -> None:
        """Send PUBACK, PUBREC, PUBREL or PUBCOMP."""
        self.send(p.Ack(kind, packet_id, code))

    def disconnect(self, code: int = 0, **named: PropertyValue) -> None:
        """Send DISCONNECT."""
        self.send(p.Disconnect(code, properties(**named)))

    def drop(self) -> None:
        """Lose the connection without a word."""
        self._lose()
        self.kernel.run()

    def congest(self, congested: bool = True) -> None:
        """Stop reading what the broker sends, or begin again."""
        self.channel.on_congested(congested)
        self.kernel.run()

    def next_packet_id(self) -> int:
        """A packet identifier that this client did not use yet."""
        self._last_packet_id += 1
        return self._last_packet_id

    # --- receiving

    def closed(self) -> bool:
        """Whether the broker closed the connection."""
        return self.wire.closed

    def paused(self) -> bool:
        """Whether the broker does not read from the connection."""
        return self.wire.reading_paused

    def received(self) -> list[p.Packet]:
        """The packets that came since the last look."""
        data = bytes(self.wire.written[self._read_at :])
        self._read_at = len(self.wire.written)
        return decode_all(data, self.version)

    def heard(self) -> list[str]:
        """The packets that came since the last look, in words."""
        return [say(packet) for packet in self.received()]

    def skip(self) -> None:
        """Pass over what came since the last look."""
        self._read_at = len(self.wire.written)

    def take(self, kind: type[PacketT]) -> PacketT:
        """The one packet that came since the last look."""
        packets = self.received()
        assert [type(packet) for packet in packets] == [kind], [say(packet) for packet in packets]
        (packet,) = packets
        assert isinstance(packet, kind)
        return packet

    def _deliver(self) -> None:
        if self._unread and not self.wire.reading_paused and not self.wire.closed and not self.lost:
            data = bytes(self._unread)
            self._unread.clear()
            self.channel.reader.receive(data)

    def _lose(self) -> None:
        if not self.lost:
            self.lost = True
            self.channel.connection_lost()

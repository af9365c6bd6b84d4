"""What a trace sees of one connection: its packets in both directions, and its end."""

from heliograph.channel.channel import Channel
from heliograph.channel.taps import PacketTap, attach, detach
from heliograph.mqtt.packets import CONNECT
from heliograph.tracing.contained import contained
from heliograph.tracing.packet_fields import PacketStream, fields_of
from heliograph.tracing.recorder import TraceRecorder


class ConnectionTaps:
    """The taps of a node; owned by what joins traces to the broker.

    Attributes:
        open: Those of connections whose client is known to be traced, and of those whose client is not known yet.
        connecting: The one whose CONNECT is handled now.
    """

    def __init__(self, recorder: TraceRecorder) -> None:
        self.open: set[ConnectionTap] = set()
        self.connecting: ConnectionTap | None = None
        self._recorder = recorder

    def add(self, channel: Channel, peername: str, host: str, clientid: str | None = None) -> None:
        """Tap a connection; a client that is known has a tap already if another trace is about it."""
        if clientid is not None and any((tap.clientid, tap.peername) == (clientid, peername) for tap in self.open):
            return
        tap = ConnectionTap(self, self._recorder, channel, peername, host, clientid)
        self.open.add(tap)
        tap.begin()

    def forget(self, tap: "ConnectionTap") -> None:
        self.open.discard(tap)
        tap.end()

    def forget_untraced(self) -> None:
        """A trace has ended: let go what no other one is about."""
        recorder = self._recorder
        for tap in list(self.open):
            if not recorder.traces_of(tap.clientid, tap.host) and (tap.clientid is not None or not recorder.traces):
                self.forget(tap)


class ConnectionTap(PacketTap):
    """Records the packets of one connection; a view of it, owned by `ConnectionTaps`.

    A connection is tapped before it is known which client it is: its CONNECT waits here until `identify` says that, and
    a connection that no trace is about is let go after it.
    """

    def __init__(
        self,
        taps: ConnectionTaps,
        recorder: TraceRecorder,
        channel: Channel,
        peername: str,
        host: str,
        clientid: str | None,
    ) -> None:
        self.clientid = clientid
        self.host = host
        self._taps = taps
        self._recorder = recorder
        self.peername = peername
        self._reader = channel.reader
        self._stream = PacketStream(0)
        self._held: bytes | None = None  # a CONNECT, until it is known whose it is

    def begin(self) -> None:
        self._stream = PacketStream(int(attach(self._reader, self)))

    def end(self) -> None:
        detach(self._reader)

    def identify(self, clientid: str) -> None:
        self.clientid = clientid
        held, self._held = self._held, None
        if held is not None:
            self._note("packet_received", held, len(held))

    def contain(self, error: Exception) -> None:
        self._recorder.contain(error)

    @contained
    def on_received(self, packet: bytes) -> None:
        if self.clientid is None and packet[0] >> 4 == CONNECT:
            self._held = packet
            self._taps.connecting = self
        else:
            self._note("packet_received", packet, len(packet))

    @contained
    def on_handled(self) -> None:
        self._taps.connecting = None
        held = self._held
        if held is not None:  # it was refused before its client was made of it
            clientid = fields_of(held, self._reader.version, len(held))[0].get("clientid")
            self.identify(clientid if isinstance(clientid, str) else "")
        if self.clientid is not None and not self._recorder.traces_of(self.clientid, self.host):
            self._taps.forget(self)

    @contained
    def on_sent(self, data: bytes) -> None:
        for packet, size in self._stream.feed(data):
            self._note("packet_sent", packet, size)

    @contained
    def on_error(self, detail: str) -> None:
        self._recorder.record_of_client(self.clientid, self.host, "refused", {"reason": detail[:512]})

    @contained
    def on_gone(self) -> None:
        self._recorder.record_of_client(self.clientid, self.host, "connection_closed", {"peer": self.peername})
        self._taps.forget(self)

    def _note(self, event: str, packet: bytes, size: int) -> None:
        if not self._recorder.traces_of(self.clientid, self.host):
            return
        fields, payload = fields_of(packet, self._reader.version, size)
        self._recorder.record_of_client(self.clientid, self.host, event, fields, payload)

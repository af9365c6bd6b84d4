"""The callbacks by which a trace knows what happens to clients and their sessions."""

from collections.abc import Mapping
from typing import Final

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import Callback
from heliograph.channel.context import ChannelContext
from heliograph.mqtt.packets import Connect
from heliograph.mqtt.properties import Properties
from heliograph.tracing.connection_tap import ConnectionTaps
from heliograph.tracing.packet_fields import short
from heliograph.tracing.recorder import TraceRecorder

_CLIENTS_MAX: Final = 10_000  # that one trace of an address remembers


class ClientEvents:
    """Records what happens to traced clients, and marks their sessions; owned by `Traces`."""

    def __init__(self, recorder: TraceRecorder, taps: ConnectionTaps, context: ChannelContext) -> None:
        self._recorder = recorder
        self._taps = taps
        self._context = context

    def callbacks(self) -> Mapping[str, Callback]:
        """The callbacks by their hook points."""
        return {
            hooks.CLIENT_CONNECT: self.on_client_connect,
            hooks.CLIENT_CONNECTED: self.on_client_connected,
            hooks.CLIENT_DISCONNECTED: self.on_client_disconnected,
            hooks.SESSION_CREATED: self._session("session_created"),
            hooks.SESSION_RESUMED: self._session("session_resumed"),
            hooks.SESSION_TAKENOVER: self._session("session_taken_over"),
            hooks.SESSION_DISCARDED: self._session("session_discarded"),
            hooks.SESSION_TERMINATED: self._session("session_terminated"),
            hooks.SESSION_SUBSCRIBED: self.on_subscribed,
            hooks.SESSION_UNSUBSCRIBED: self.on_unsubscribed,
        }

    def mark(self, clientid: str) -> None:
        """Make a client's session report what becomes of its messages, if it is in memory."""
        session = self._context.sessions.held(clientid)
        if session is not None:
            session.sender.is_traced = True

    def note_address(self, client: ClientInfo) -> None:
        """A client connects, or is connected, from an address that traces are about."""
        for trace in self._recorder.traces:
            if trace.subject.is_host(client.peerhost) and len(trace.clientids) < _CLIENTS_MAX:
                trace.clientids.add(client.clientid)
        if self._recorder.traces_of(client.clientid):
            self.mark(client.clientid)

    def on_client_connect(self, client: ClientInfo, _connect: Connect, _code: int) -> None:
        """Callback of `client.connect`: who connects is known now."""
        self.note_address(client)
        tap = self._taps.connecting
        if tap is not None:
            tap.identify(client.clientid)

    def on_client_connected(self, client: ClientInfo, _connect: Connect, _accumulator: object) -> None:
        """Callback of `client.connected`."""
        session = self._context.sessions.held(client.clientid)
        expiry_s = 0 if session is None else int(session.expiry_interval_s)
        told = {"peer": client.peername, "listener": client.listener, "session_expiry_s": expiry_s}
        self._recorder.record_of_client(client.clientid, client.peerhost, "client_connected", told)

    def on_client_disconnected(self, client: ClientInfo, reason: str, _told: Properties, _accumulator: object) -> None:
        """Callback of `client.disconnected`."""
        self._recorder.record_of_client(client.clientid, client.peerhost, "client_disconnected", {"reason": reason})

    def on_subscribed(self, clientid: str, name: str, qos: int, _properties: Properties, _accumulator: object) -> None:
        """Callback of `session.subscribed`."""
        self._recorder.record_of_client(clientid, "", "subscribed", {"filter": short(name), "qos": qos})

    def on_unsubscribed(self, clientid: str, name: str, _qos: int, _properties: Properties, _none: object) -> None:
        """Callback of `session.unsubscribed`."""
        self._recorder.record_of_client(clientid, "", "unsubscribed", {"filter": short(name)})

    def _session(self, event: str) -> Callback:
        def record(clientid: str, _accumulator: object) -> None:
            if self._recorder.traces_of(clientid):
                self.mark(clientid)
                self._recorder.record_of_client(clientid, "", event, {})

        return record

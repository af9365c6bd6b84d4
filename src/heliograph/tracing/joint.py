"""What traces that are on are joined to: hook points, the broker, and the clients with their connections."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo, host_of
from heliograph.broker.hook_order import TRACES
from heliograph.broker.hooks import Callback
from heliograph.broker.message import Message
from heliograph.channel.channel import Channel
from heliograph.channel.context import ChannelContext
from heliograph.channel.handles import ChannelHandle, TapSource
from heliograph.mqtt.packets import Connect
from heliograph.mqtt.properties import Properties
from heliograph.tracing.connection_tap import ConnectionTaps
from heliograph.tracing.packet_fields import short
from heliograph.tracing.recorder import TraceRecorder
from heliograph.tracing.subject import CLIENT, IP_ADDRESS, RULE, TOPIC
from heliograph.tracing.trace import Trace

WatchRules = Callable[[frozenset[str], TraceRecorder], object]
_CHANNELS_AT_ONCE: Final = 256  # that are looked at in one turn for their address
_VERDICTS: Final = (
    hooks.CLIENT_CONNECT,
    hooks.CLIENT_AUTHENTICATE,
    hooks.CLIENT_AUTHORIZE,
    hooks.CLIENT_SUBSCRIBE,
    hooks.MESSAGE_PUBLISH,
)
_CLIENTS_MAX: Final = 10_000  # that one trace of an address remembers


class Joint(TapSource):
    """Joins a recorder to the broker, as far as the traces that are on need it; owned by `Traces`."""

    def __init__(self, recorder: TraceRecorder, context: ChannelContext, watch_rules: WatchRules) -> None:
        self._watch_rules = watch_rules
        self._recorder = recorder
        self._context = context
        self._broker = context.broker
        self._taps = ConnectionTaps(recorder)
        self._events = ClientEvents(recorder, self._taps, context)
        self._hooked: list[tuple[str, Callback]] = []
        self._watches_topics = False
        self._watched_rules: frozenset[str] = frozenset()

    def on_connection(self, channel: ChannelHandle, peername: str) -> None:
        if isinstance(channel, Channel):
            host = host_of(peername)
            self._taps.add(channel, peername, host)
            self._recorder.record_of_client(None, host, "connection_opened", {"peer": peername})

    def join(self) -> None:
        traces = self._recorder.traces
        is_on = any(trace.subject.kind != RULE for trace in traces)
        self._recorder.watches_topics = any(trace.subject.kind == TOPIC for trace in traces)
        self._broker.join_tracer(self._recorder, is_on, _VERDICTS)
        rules = frozenset(trace.subject.value for trace in traces if trace.subject.kind == RULE)
        if rules != self._watched_rules:
            self._watched_rules = rules
            self._watch_rules(rules, self._recorder)
        is_about_clients = any(trace.subject.kind in (CLIENT, IP_ADDRESS) for trace in traces)
        self._context.taps = self if is_about_clients else None
        is_about_topics = self._recorder.watches_topics
        point = self._broker.hooks.message_publish
        if is_about_topics and not self._watches_topics:
            point.add(on_message_publish, TRACES, self._recorder.wants_topic)
        elif self._watches_topics and not is_about_topics:
            point.remove(on_message_publish)
        elif is_about_topics:
            point.renew()  # other topics now
        self._watches_topics = is_about_topics
        if is_about_clients and not self._hooked:
            self._hooked = list(self._events.callbacks().items())
            for name, callback in self._hooked:
                self._broker.hooks.point(name).add(callback, TRACES)
        elif self._hooked and not is_about_clients:
            for name, callback in self._hooked:
                self._broker.hooks.point(name).remove(callback)
            self._hooked = []

    async def mark(self, trace: Trace) -> None:
        if trace.subject.kind == CLIENT:
            self._events.mark(trace.subject.value)
            channel = self._context.channels.find(trace.subject.value)
            if channel is not None:
                self._tap(channel)
        elif trace.subject.kind == IP_ADDRESS:
            for channels in _pieces(self._context.channels.all()):
                for channel in channels:
                    client = channel.client_info()
                    if client is not None and trace.subject.is_host(client.peerhost):
                        self._events.note_address(client)
                        self._tap(channel)
                await asyncio.sleep(0)

    def _tap(self, channel: ChannelHandle) -> None:
        client = channel.client_info()
        if isinstance(channel, Channel) and client is not None:
            self._taps.add(channel, client.peername, client.peerhost, client.clientid)

    def unmark(self, trace: Trace) -> None:
        """Let go what no trace is about any more."""
        self._taps.forget_untraced()
        clientids = {trace.subject.value} if trace.subject.kind == CLIENT else trace.clientids
        for clientid in clientids:
            session = self._context.sessions.held(clientid)
            if session is not None:
                tracer = self._broker.tracer
                session.sender.is_traced = tracer is not None and tracer.is_about_client(clientid)


def _pieces(channels: list[ChannelHandle]) -> Iterator[list[ChannelHandle]]:
    for at in range(0, len(channels), _CHANNELS_AT_ONCE):
        yield channels[at : at + _CHANNELS_AT_ONCE]


def on_message_publish(_message: Message) -> None:
    """Callback of `message.publish`, so that topics of traces are hooked; `Tracer.follow` does the rest."""


class ClientEvents:
    """Records what happens to traced clients, and marks their sessions; owned by `Traces`."""

    def __init__(self, recorder: TraceRecorder, taps: ConnectionTaps, context: ChannelContext) -> None:
        self._recorder = recorder
        self._taps = taps
        self._context = context

    def callbacks(self) -> Mapping[str, Callback]:
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
        self.note_address(client)
        tap = self._taps.connecting
        if tap is not None:
            tap.identify(client.clientid)

    def on_client_connected(self, client: ClientInfo, _connect: Connect, _accumulator: object) -> None:
        session = self._context.sessions.held(client.clientid)
        expiry_s = 0 if session is None else int(session.expiry_interval_s)
        fields = {"peer": client.peername, "listener": client.listener, "session_expiry_s": expiry_s}
        self._recorder.record_of_client(client.clientid, client.peerhost, "client_connected", fields)

    def on_client_disconnected(self, client: ClientInfo, reason: str, _props: Properties, _accumulator: object) -> None:
        self._recorder.record_of_client(client.clientid, client.peerhost, "client_disconnected", {"reason": reason})

    def on_subscribed(self, clientid: str, name: str, qos: int, _properties: Properties, _accumulator: object) -> None:
        self._recorder.record_of_client(clientid, "", "subscribed", {"filter": short(name), "qos": qos})

    def on_unsubscribed(self, clientid: str, name: str, _qos: int, _properties: Properties, _none: object) -> None:
        self._recorder.record_of_client(clientid, "", "unsubscribed", {"filter": short(name)})

    def _session(self, event: str) -> Callback:
        def record(clientid: str, _accumulator: object) -> None:
            if self._recorder.traces_of(clientid):
                self.mark(clientid)
                self._recorder.record_of_client(clientid, "", event, {})

        return record

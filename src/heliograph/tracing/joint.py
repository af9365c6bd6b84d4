"""What traces that are on are joined to: hook points, the broker, and the connections of clients."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from heliograph.broker import hooks
from heliograph.broker.client import host_of
from heliograph.broker.hook_order import TRACES
from heliograph.broker.hooks import Callback
from heliograph.broker.message import Message
from heliograph.channel.channel import Channel
from heliograph.channel.context import ChannelContext
from heliograph.channel.handles import ChannelHandle, TapSource
from heliograph.tracing.client_events import ClientEvents
from heliograph.tracing.connection_tap import ConnectionTaps
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
        """A connection was accepted: tap it until it is known that no trace is about it."""
        if isinstance(channel, Channel):
            host = host_of(peername)
            self._taps.add(channel, peername, host)
            self._recorder.record_of_client(None, host, "connection_opened", {"peer": peername})

    def join(self) -> None:
        """Join what the traces need that are on now."""
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
        """Mark the sessions and connections that are there already."""
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

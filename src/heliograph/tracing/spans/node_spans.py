"""The spans of a node: what they are joined to, and where they wait for the collector."""

from collections.abc import Iterator, Sequence
from typing import Final

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_order import TRACES
from heliograph.broker.hooks import Callback
from heliograph.broker.message import Message
from heliograph.broker.tracer import Tracer
from heliograph.channel.context import ChannelContext
from heliograph.config.opentelemetry import OtelTraceFilter, OtelTracesConfig
from heliograph.mqtt.packets import Connect
from heliograph.observe.ring import Ring
from heliograph.tracing.spans.attributes import span_of
from heliograph.tracing.spans.clients import ClientSpans
from heliograph.tracing.spans.message_trace import MessageSpan
from heliograph.tracing.spans.messages import MessageSpans
from heliograph.tracing.spans.sampling import Sampler
from heliograph.tracing.spans.span import TraceSpan

E2E: Final = "e2e"


class NodeSpans:
    """Has spans made while they are wanted; owned by the part `opentelemetry`."""

    def __init__(self, context: ChannelContext, size_max: int) -> None:
        self.ring: Ring[TraceSpan | MessageSpan] = Ring(size_max)
        self._context = context
        self._broker = context.broker
        self._sampler = Sampler(0.0)
        self._filter = OtelTraceFilter()
        self._tracers: list[Tracer] = []
        self._hooked: list[tuple[str, Callback]] = []
        self._clients: ClientSpans | None = None
        self._cluster = ""

    def use(self, settings: OtelTracesConfig) -> None:
        self.stop()
        self.ring.resize(settings.max_queue_size)
        self._filter = settings.filter
        e2e = settings.filter.e2e_tracing_options
        self._cluster = e2e.cluster_identifier if settings.filter.trace_mode == E2E else ""
        self._sampler.ratio = e2e.sample_ratio
        self._join()

    def list_only(self, clientids: Sequence[str], topic_filters: Sequence[str]) -> None:
        self._sampler.use(clientids, topic_filters)
        if self._tracers:
            self.stop()
            self._join()

    def after(self, number: int, count: int) -> Iterator[tuple[int, TraceSpan]]:
        """Spans behind a number that wait, with their own, and with all that they say."""
        for at, one in self.ring.after(number, count):
            span = span_of(one) if isinstance(one, MessageSpan) else one
            if self._cluster:
                span = span._replace(attributes={**span.attributes, "cluster.id": self._cluster})
            yield at, span

    def stop(self) -> None:
        for name, callback in self._hooked:
            self._broker.hooks.point(name).remove(callback)
        for tracer in self._tracers:
            self._broker.join_tracer(tracer, False)
        self._hooked, self._tracers, self._clients = [], [], None

    def on_authenticator(self, client: ClientInfo, authenticator: str, result: str, took_us: int) -> None:
        if self._clients is not None:
            self._clients.on_authenticator(client, authenticator, result, took_us)

    def _join(self) -> None:
        options = self._filter.e2e_tracing_options
        is_e2e = self._filter.trace_mode == E2E
        if not is_e2e or options.client_messaging:
            self._join_tracer(MessageSpans(self._broker, self._context.commits, self._filter, self._sampler, self.ring))
        if is_e2e and options.client_messaging:
            self._follow_lists()
        if is_e2e and (options.client_connect_disconnect or options.client_subscribe_unsubscribe):
            clients = self._clients = ClientSpans(self._broker, options, self._sampler, self.ring.put)
            self._join_tracer(clients)
            for name, callback in clients.callbacks().items():
                self._hook(name, callback)

    def _follow_lists(self) -> None:
        """Mark the clients on the list, and have topics on the list hooked."""
        if self._sampler.topic_filters:
            self._broker.hooks.message_publish.add(_nothing, TRACES, self._sampler.wants_topic)
            self._hooked.append((hooks.MESSAGE_PUBLISH, _nothing))
        if self._sampler.clientids:
            self._hook(hooks.CLIENT_CONNECTED, self.on_client_connected)
            for clientid in self._sampler.clientids:
                self._mark(clientid)

    def on_client_connected(self, client: ClientInfo, _connect: Connect, _accumulator: object) -> None:
        if client.clientid in self._sampler.clientids:
            self._mark(client.clientid)

    def _mark(self, clientid: str) -> None:
        session = self._context.sessions.held(clientid)
        if session is not None:
            session.sender.is_traced = True

    def _join_tracer(self, tracer: Tracer) -> None:
        self._tracers.append(tracer)
        self._broker.join_tracer(tracer, True)

    def _hook(self, name: str, callback: Callback) -> None:
        self._broker.hooks.point(name).add(callback, TRACES)
        self._hooked.append((name, callback))


def _nothing(_message: Message) -> None:
    """Callback of `message.publish`, so that topics on the list are hooked."""

"""Spans of what clients do besides publishing: they connect and disconnect, subscribe and unsubscribe."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from time import time_ns
from typing import Final

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import Callback
from heliograph.broker.pubsub import Broker
from heliograph.broker.tracer import Tracer
from heliograph.config.opentelemetry import E2eTracingOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.properties import REASON_STRING, Properties
from heliograph.tracing.contained import contained
from heliograph.tracing.packet_fields import short
from heliograph.tracing.spans import span as names
from heliograph.tracing.spans.attributes import of_client, of_codes, of_connect, of_filters
from heliograph.tracing.spans.sampling import Sampler
from heliograph.tracing.spans.span import Attributes, TraceSpan, new_span_id, new_trace_id

_BEGUN_MAX: Final = 4096  # that are not answered yet
_BY_CLIENT: Final = frozenset(("normal", "tcp_closed"))  # how connections end that the client ends


class _Begun:
    """A CONNECT, SUBSCRIBE or UNSUBSCRIBE that is not answered yet."""

    __slots__ = ("attributes", "authn_id", "began_ns", "checked_ns", "span_id", "trace_id")

    def __init__(self, attributes: Attributes) -> None:
        self.trace_id = new_trace_id()
        self.span_id = new_span_id()
        self.authn_id = new_span_id()  # the span of its authentication
        self.began_ns = time_ns()
        self.checked_ns = 0  # when its rights were known
        self.attributes = attributes


class ClientSpans(Tracer):
    """Makes spans of what clients do besides publishing; owned by `NodeSpans`."""

    def __init__(
        self, broker: Broker, options: E2eTracingOptions, sampler: Sampler, put: Callable[[TraceSpan], object]
    ) -> None:
        super().__init__()
        self._broker = broker
        self._options = options
        self._sampler = sampler
        self._put = put
        self._begun: OrderedDict[ClientInfo, _Begun] = OrderedDict()

    def callbacks(self) -> Mapping[str, Callback]:
        found: dict[str, Callback] = {}
        if self._options.client_connect_disconnect:
            found |= {
                hooks.CLIENT_CONNECT: self.on_client_connect,
                hooks.CLIENT_CHECK_AUTHN_COMPLETE: self.on_authenticated,
                hooks.CLIENT_CONNACK: self.on_client_connack,
                hooks.CLIENT_DISCONNECTED: self.on_client_disconnected,
            }
        if self._options.client_subscribe_unsubscribe:
            found[hooks.CLIENT_SUBSCRIBE] = self.on_client_subscribe
        return found

    def contain(self, error: Exception) -> None:
        self._broker.faults.contain("opentelemetry", error)

    # --- connections

    @contained
    def on_client_connect(self, client: ClientInfo, connect: p.Connect, _code: int) -> None:
        if self._sampler.picks(client.clientid):
            self._begin(client, of_connect(client, connect))

    @contained
    def on_authenticated(
        self, client: ClientInfo, code: int, is_superuser: bool, _is_anonymous: bool, _accumulator: object
    ) -> None:
        begun = self._begun.get(client)
        if begun is None:
            return
        result: Attributes = {
            "client.connect.authn.result": "success" if code == rc.SUCCESS else "failure",
            "client.connect.authn.is_superuser": is_superuser,
        }
        if code != rc.SUCCESS:
            result["client.connect.authn.failure_reason"] = rc.name_of(code)
        elif client.expires_at_us:
            result["client.connect.authn.expire_at"] = int(client.expires_at_us) // 1_000_000
        begun.attributes |= result
        error = rc.name_of(code) if code != rc.SUCCESS else ""
        own: Attributes = {"client.clientid": short(client.clientid)}
        times = begun.began_ns, max(begun.began_ns, time_ns())
        ids = begun.trace_id, begun.authn_id, begun.span_id
        self._put(TraceSpan(*ids, names.CLIENT_AUTHN, names.INTERNAL, *times, own | result, error))

    @contained
    def on_authenticator(self, client: ClientInfo, authenticator: str, result: str, took_us: int) -> None:
        begun = self._begun.get(client)
        if begun is None:
            return
        now_ns = time_ns()
        attributes: Attributes = {
            "client.clientid": short(client.clientid),
            "authn.chain": client.listener,
            "authn.authenticator": authenticator,
            "authn.result": result,
        }
        ids = begun.trace_id, new_span_id(), begun.authn_id
        error = result if result == "error" else ""
        times = now_ns - took_us * 1000, now_ns
        self._put(TraceSpan(*ids, names.CLIENT_AUTHN_BACKEND, names.CLIENT, *times, attributes, error))

    @contained
    def on_client_connack(self, client: ClientInfo, code: int, _properties: Properties) -> None:
        begun = self._begun.pop(client, None)
        if begun is not None:
            begun.attributes["client.connack.reason_code"] = int(code)
            self._add(begun, names.CLIENT_CONNECT, rc.name_of(code) if code != rc.SUCCESS else "")

    @contained
    def on_client_disconnected(
        self, client: ClientInfo, reason: str, properties: Properties, _accumulator: object
    ) -> None:
        self._begun.pop(client, None)
        if not self._sampler.picks(client.clientid):
            return
        attributes = of_client(client) | {
            "client.disconnect.reason": reason,
            "client.disconnect.reason_desc": short(properties.strings.get(REASON_STRING, "")),
        }
        name = names.CLIENT_DISCONNECT if reason in _BY_CLIENT else names.BROKER_DISCONNECT
        self._add(_Begun(attributes), name)

    # --- subscriptions

    @contained
    def on_filters(self, client: ClientInfo, packet: p.Packet) -> None:
        if self._options.client_subscribe_unsubscribe and self._sampler.picks(client.clientid):
            self._begin(client, of_client(client))

    @contained
    def on_client_subscribe(self, client: ClientInfo, _properties: Properties, _entries: object) -> None:
        begun = self._begun.get(client)
        if begun is not None:
            begun.checked_ns = time_ns()

    @contained
    def on_filters_done(self, client: ClientInfo, packet: p.Packet, codes: list[int]) -> None:
        begun = self._begun.pop(client, None)
        if begun is None or not isinstance(packet, p.Subscribe | p.Unsubscribe):
            return
        filters, is_theirs = of_filters(packet), packet.packet_id != 0
        begun.attributes |= filters
        if isinstance(packet, p.Unsubscribe):
            self._add(begun, names.CLIENT_UNSUBSCRIBE if is_theirs else names.BROKER_UNSUBSCRIBE)
            return
        if is_theirs and begun.checked_ns and self._broker.rights.is_checked:
            own: Attributes = {
                "client.clientid": short(client.clientid),
                "authz.action_type": "subscribe",
                "authz.subscribe.topics": filters["client.subscribe.topics"],
                "authz.subscribe.reason_codes": of_codes(codes),
            }
            self._add_child(begun, names.CLIENT_AUTHZ, begun.checked_ns, own)
        self._add(begun, names.CLIENT_SUBSCRIBE if is_theirs else names.BROKER_SUBSCRIBE)

    # --- inside

    def _begin(self, client: ClientInfo, attributes: Attributes) -> None:
        self._begun[client] = _Begun(attributes)
        if len(self._begun) > _BEGUN_MAX:
            self._begun.popitem(last=False)

    def _add(self, begun: _Begun, name: str, error: str = "") -> None:
        times = begun.began_ns, max(begun.began_ns, time_ns())
        self._put(TraceSpan(begun.trace_id, begun.span_id, 0, name, names.SERVER, *times, begun.attributes, error))

    def _add_child(self, begun: _Begun, name: str, ended_ns: int, attributes: Attributes) -> None:
        times = begun.began_ns, max(begun.began_ns, ended_ns)
        ids = begun.trace_id, new_span_id(), begun.span_id
        self._put(TraceSpan(*ids, name, names.INTERNAL, *times, attributes))

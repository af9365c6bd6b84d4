"""Spans of clients of a kernel: which there are, whose children they are, what they say, and which of it is traced."""

from dataclasses import replace
from typing import Any

import pytest

from heliograph.broker.actions import DENIED_BY_DEFAULT
from heliograph.broker.message import Message
from heliograph.config.opentelemetry import E2eTracingOptions, OtelTraceFilter, OtelTracesConfig
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.settings.units import Rate
from heliograph.tracing.spans.node_spans import NodeSpans
from heliograph.tracing.spans.span import TraceSpan
from support.kernel import Kernel
from support.packets import properties_of

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{PARENT}-01"
UNSAMPLED = f"00-{TRACE}-{PARENT}-00"
ALL = E2eTracingOptions(
    sample_ratio=1.0,
    msg_trace_level=2,
    client_connect_disconnect=True,
    client_subscribe_unsubscribe=True,
    client_messaging=True,
)


class World:
    """A kernel whose clients are traced."""

    def __init__(self, kernel: Kernel | None = None) -> None:
        self.kernel = kernel or Kernel()
        self.spans = NodeSpans(self.kernel.context, 2048)
        self._seen = 0

    def trace(self, options: E2eTracingOptions = ALL, **named: Any) -> None:
        self.spans.use(OtelTracesConfig(filter=OtelTraceFilter("e2e", e2e_tracing_options=replace(options, **named))))

    def take(self) -> list[TraceSpan]:
        """The spans that came since the last call."""
        found = list(self.spans.after(self._seen, 2048))
        self._seen = found[-1][0] if found else self._seen
        return [span for _, span in found]

    def names(self) -> list[str]:
        return [span.name for span in self.take()]


@pytest.fixture
def world() -> World:
    return World()


def named(spans: list[TraceSpan], name: str) -> TraceSpan:
    (span,) = [one for one in spans if one.name == name]
    return span


def traceparents(packet: p.Publish) -> list[str]:
    found = properties_of(packet).get("User-Property", [])
    assert isinstance(found, list)
    return [value for name, value in found if name == "traceparent"]


def test_a_message_is_followed_from_its_publish_to_the_last_acknowledgement(world: World) -> None:
    reader, publisher = world.kernel.connect("reader"), world.kernel.connect("publisher")
    reader.subscribe("room/+", 1)
    world.trace(client_connect_disconnect=False)
    publisher.publish("room/1", b"21.5", 1)
    packet = reader.take(p.Publish)
    reader.ack(p.PUBACK, packet.packet_id)
    spans = world.take()
    assert {one.name for one in spans} == {
        *("client.publish", "message.route", "broker.publish", "broker.puback", "client.puback")
    }
    root, route, sent = (named(spans, name) for name in ("client.publish", "message.route", "broker.publish"))
    assert len({one.trace_id for one in spans}) == 1
    assert (root.parent_id, route.parent_id, sent.parent_id) == (0, root.span_id, route.span_id)
    assert named(spans, "client.puback").parent_id == sent.span_id
    assert named(spans, "broker.puback").parent_id == root.span_id
    assert root.started_ns <= route.started_ns <= sent.started_ns <= sent.ended_ns <= route.ended_ns <= root.ended_ns
    assert traceparents(packet) == [f"00-{root.trace_id:032x}-{root.span_id:016x}-01"]
    wanted = {
        "cluster.id": "emqxcl",
        "client.clientid": "publisher",
        "message.topic": "room/1",
        "message.qos": 1,
        "message.payload_size": 4,
        "message.from": "publisher",
        "message.retain": False,
    }
    assert wanted.items() <= root.attributes.items()
    assert (sent.attributes["client.clientid"], sent.attributes["message.qos"]) == ("reader", 1)
    assert sent.attributes["message.msgid"] == root.attributes["message.msgid"]
    assert "21.5" not in str(spans)


def test_the_context_of_its_publisher_goes_on_unaltered(world: World) -> None:
    reader, publisher = world.kernel.connect("reader"), world.kernel.connect("publisher")
    reader.subscribe("t")
    world.trace(sample_ratio=0.0)
    publisher.publish("t", b"x", user_property=[("a", "b"), ("traceparent", SAMPLED), ("tracestate", "k=v")])
    root = named(world.take(), "client.publish")
    assert (f"{root.trace_id:032x}", f"{root.parent_id:016x}", root.state) == (TRACE, PARENT, "k=v")
    assert traceparents(reader.take(p.Publish)) == [SAMPLED]


def test_what_is_no_context_begins_a_trace_of_its_own_and_is_left_as_it_is(world: World) -> None:
    reader, publisher = world.kernel.connect("reader"), world.kernel.connect("publisher")
    reader.subscribe("t")
    world.trace(client_connect_disconnect=False)
    broken = (f"00-{TRACE}-{PARENT}", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", "", "00-x")
    for text in broken:
        publisher.publish("t", b"x", user_property=[("traceparent", text)])
        assert named(world.take(), "client.publish").parent_id == 0
        assert traceparents(reader.take(p.Publish)) == [text]


def test_an_unsampled_context_and_one_that_is_not_followed_count_like_none(world: World) -> None:
    publisher = world.kernel.connect("publisher")
    world.trace(sample_ratio=0.0)
    publisher.publish("t", b"x", user_property=[("traceparent", UNSAMPLED)])
    world.trace(sample_ratio=0.0, follow_traceparent=False)
    publisher.publish("t", b"x", user_property=[("traceparent", SAMPLED)])
    assert world.names() == []


def test_no_more_contexts_are_followed_than_allowed(world: World) -> None:
    publisher = world.kernel.connect("publisher")
    world.trace(sample_ratio=0.0, follow_rate=Rate(2, 1.0))
    for _ in range(5):
        publisher.publish("t", b"x", user_property=[("traceparent", SAMPLED)])
    assert world.names().count("client.publish") == 2
    world.kernel.advance(0.5)
    for _ in range(5):
        publisher.publish("t", b"x", user_property=[("traceparent", SAMPLED)])
    assert world.names().count("client.publish") == 1


def test_receivers_of_mqtt_3_get_messages_as_they_were_published(world: World) -> None:
    kernel = world.kernel
    reader, old, publisher = (
        kernel.connect("new"),
        kernel.connect("old", version=p.V3_1_1),
        kernel.connect("p", version=4),
    )
    reader.subscribe("t", 1)
    old.subscribe("t", 1)
    world.trace()
    publisher.publish("t", b"x", 1)
    assert len(traceparents(reader.take(p.Publish))) == 1
    packet = old.take(p.Publish)
    assert (packet.payload, packet.property_bytes, packet.topic) == (b"x", b"", b"t")


def test_a_message_is_not_too_large_for_being_traced(world: World) -> None:
    kernel = world.kernel
    publisher = kernel.connect("p")
    small = [kernel.connect(f"s{qos}", maximum_packet_size=60) for qos in (0, 1)]
    for qos, reader in enumerate(small):
        reader.subscribe("t", qos)
    other = kernel.connect("other")
    other.subscribe("t", 1)
    world.trace(client_connect_disconnect=False)
    publisher.publish("t", b"x" * 40, 1)
    for reader in small:
        packet = reader.take(p.Publish)
        assert (packet.payload, traceparents(packet)) == (b"x" * 40, [])
    assert len(traceparents(other.take(p.Publish))) == 1
    publisher.publish("t", b"x" * 60, 1)
    assert small[0].received() == []
    errors = [one.error for one in world.take() if one.name == "broker.publish"]
    assert sorted(errors) == ["", "", "", "", "too_large", "too_large"]


def test_the_flow_of_qos_2_has_spans_at_level_2(world: World) -> None:
    reader, publisher = world.kernel.connect("reader"), world.kernel.connect("publisher")
    reader.subscribe("t", 2)
    world.trace(client_connect_disconnect=False)
    publisher.publish("t", b"x", 2)
    publisher.ack(p.PUBREL, publisher.take(p.Ack).packet_id)
    packet_id = reader.take(p.Publish).packet_id
    reader.ack(p.PUBREC, packet_id)
    reader.ack(p.PUBCOMP, packet_id)
    flow = [name for name in world.names() if "pub" in name and not name.endswith("publish")]
    assert flow == [
        *("broker.pubrec", "client.pubrel", "broker.pubcomp", "client.pubrec", "broker.pubrel", "client.pubcomp")
    ]


def test_acknowledgements_have_no_spans_at_level_0(world: World) -> None:
    reader, publisher = world.kernel.connect("reader"), world.kernel.connect("publisher")
    reader.subscribe("t", 1)
    world.trace(msg_trace_level=0)
    publisher.publish("t", b"x", 1)
    reader.ack(p.PUBACK, reader.take(p.Publish).packet_id)
    assert sorted(world.names()) == ["broker.publish", "client.publish", "message.route"]


def test_a_stored_message_is_acknowledged_with_its_commit() -> None:
    world = World(Kernel(stored=("t",)))
    publisher = world.kernel.connect("publisher")
    world.trace(client_connect_disconnect=False)
    publisher.publish("t", b"x", 1)
    assert sorted(world.names()) == ["client.publish", "message.route"]
    world.kernel.commit()
    stored, answered = world.take()
    assert (stored.name, answered.name, stored.error) == ("message.store", "broker.puback", "")
    publisher.publish("t", b"x", 1)
    world.take()
    world.kernel.commit(rc.QUOTA_EXCEEDED)
    assert [one.error for one in world.take()] == ["quota_exceeded", "quota_exceeded"]


def test_rights_have_a_span_and_a_denied_message_says_so(world: World) -> None:
    world.kernel.broker.rights.set_no_match(DENIED_BY_DEFAULT)
    publisher = world.kernel.connect("publisher")
    world.trace(client_connect_disconnect=False)
    publisher.publish("t", b"x", 1)
    spans = world.take()
    asked = named(spans, "client.authz")
    assert asked.attributes["authz.publish.result"] == "deny"
    assert (asked.parent_id, named(spans, "client.publish").error) == (
        named(spans, "client.publish").span_id,
        "not_authorized",
    )
    assert named(spans, "broker.puback").attributes["message.reason_code"] == rc.NOT_AUTHORIZED


def test_callbacks_properties_and_the_reason_of_a_drop_are_told_when_spans_are_fetched(world: World) -> None:
    def look(_message: Message) -> None:
        """Callback of `message.publish`, which lets it pass."""

    publisher = world.kernel.connect("publisher")
    world.kernel.broker.hooks.message_publish.add(look)
    world.trace(client_connect_disconnect=False)
    publisher.publish("t", b"x", user_property=[("a", "b")])
    spans = world.take()
    assert str(named(spans, "message.hook").attributes["hook.callback"]).endswith("look")
    root = named(spans, "client.publish")
    assert root.attributes["message.pub_props"] == '{"User-Property": [["a", "b"]]}'
    assert root.attributes["message.dropped_reason"] == "no_subscribers"
    assert root.attributes["message.msgid"] == named(spans, "message.hook").attributes["message.msgid"]


def test_clients_have_spans_of_what_they_do(world: World) -> None:
    world.trace()
    client = world.kernel.connect("c", username="u", keepalive_s=30, user_property=[("a", "b")])
    spans = world.take()
    connect, authn = (named(spans, name) for name in ("client.connect", "client.authn"))
    assert len(spans) == 2
    assert authn.parent_id == connect.span_id
    wanted = {"client.username": "u", "client.keepalive": 30, "client.connack.reason_code": 0, "client.proto_ver": 5}
    assert wanted.items() <= connect.attributes.items()
    client.subscribe("a/+", 1)
    subscribed = named(world.take(), "client.subscribe")
    assert subscribed.attributes["client.subscribe.topics"] == ["a/+"]
    client.unsubscribe("a/+")
    assert named(world.take(), "client.unsubscribe").attributes["client.unsubscribe.topics"] == ["a/+"]
    client.disconnect()
    assert named(world.take(), "client.disconnect").attributes["client.disconnect.reason"] == "normal"


def test_a_client_that_the_broker_sends_away(world: World) -> None:
    world.kernel.connect("c")
    world.trace()
    world.kernel.connect("c")
    assert named(world.take(), "broker.disconnect").attributes["client.disconnect.reason"] == "discarded"


def test_lists_name_clients_and_topics_that_are_always_traced(world: World) -> None:
    kernel = world.kernel
    here, other = kernel.connect("here"), kernel.connect("other")
    kernel.connect("reader").subscribe("#")
    world.trace(sample_ratio=0.0, client_connect_disconnect=False)
    world.spans.list_only(["here", "later"], ["room/+"])
    later = kernel.connect("later")
    for client in (here, other, later):
        client.publish("hall", b"x")
    assert [one.attributes["client.clientid"] for one in world.take() if one.name == "client.publish"] == [
        *("here", "later")
    ]
    other.publish("room/1", b"x")
    assert "client.publish" in world.names()
    world.spans.list_only([], [])
    here.publish("room/1", b"x")
    assert world.names() == []


def test_a_tenth_is_a_tenth(world: World) -> None:
    publisher = world.kernel.connect("publisher")
    world.trace(sample_ratio=0.1)
    count = 3000
    for _ in range(count):
        publisher.publish("t", b"x")
    found = world.names().count("client.publish")
    assert count * 0.1 - 100 < found < count * 0.1 + 100  # six times its standard deviation


def test_legacy_mode_has_two_kinds_of_spans(world: World) -> None:
    reader, publisher = world.kernel.connect("reader"), world.kernel.connect("publisher")
    reader.subscribe("t")
    world.spans.use(OtelTracesConfig())
    publisher.publish("t", b"x")
    assert traceparents(reader.take(p.Publish)) == []
    publisher.publish("t", b"x", user_property=[("traceparent", SAMPLED)])
    sent, processed = world.take()
    assert traceparents(reader.take(p.Publish)) == [SAMPLED]
    assert (sent.name, processed.name) == ("send_published_message", "process_message")
    assert (sent.parent_id, f"{processed.parent_id:016x}") == (processed.span_id, PARENT)
    assert processed.attributes == {"messaging.client_id": "publisher", "messaging.destination.name": "t"}
    world.spans.use(OtelTracesConfig(filter=OtelTraceFilter(trace_all=True)))
    publisher.publish("t", b"x")
    assert len(world.take()) == 2
    assert len(traceparents(reader.take(p.Publish))) == 1


def test_the_oldest_spans_give_way_and_are_counted(world: World) -> None:
    publisher = world.kernel.connect("publisher")
    world.trace()
    for _ in range(2000):
        publisher.publish("t", b"x")
    spans = world.take()
    assert (len(spans), spans[-1].name) == (2048, "client.publish")
    assert world.spans.ring.dropped_count == 2000 * 2 - 2048


def test_nothing_is_traced_any_more_when_it_is_switched_off(world: World) -> None:
    publisher = world.kernel.connect("publisher")
    world.trace()
    world.spans.stop()
    publisher.publish("t", b"x", user_property=[("traceparent", SAMPLED)])
    world.kernel.connect("c").disconnect()
    assert world.names() == []
    assert world.kernel.broker.tracer is None

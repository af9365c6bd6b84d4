"""What is recorded of messages in a kernel under a virtual clock: what needs time, crowds or refusals."""

from dataclasses import replace

import pytest

from heliograph.broker import hooks
from heliograph.broker.actions import DENIED_BY_DEFAULT
from heliograph.broker.hooks import STOP
from heliograph.broker.message import Message
from heliograph.config.opentelemetry import E2eTracingOptions, OtelTraceFilter, OtelTracesConfig
from heliograph.control.proto_v1.message_ways import MessageWay, WayReceiver
from heliograph.control.way_texts import WayText
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.tracing.reasons import why_dropped, why_queued
from heliograph.tracing.spans.node_spans import NodeSpans
from heliograph.tracing.ways.chunks import encoded, header_of, record_of, records_of
from heliograph.tracing.ways.query import WayQuery, joined
from heliograph.tracing.ways.recorder import WayRecorder
from heliograph.tracing.ways.scope import WayScope
from heliograph.tracing.ways.under_way import WaysUnderWay
from heliograph.tracing.ways.way import STEPS_MAX, Way
from support.kernel import Kernel
from support.options import CHANNEL, SESSION
from support.packets import properties

SETTLE_US = 60_000_000


class World:
    """A kernel of whose messages the ways are recorded."""

    def __init__(self, kernel: Kernel | None = None, rate: float = 0.0, burst: int = 0) -> None:
        self.kernel = kernel = kernel or Kernel()
        self.done: list[Way] = []
        self.scope = WayScope(("#",), (), rate, burst, 1 << 30)
        self.ways = WaysUnderWay(kernel.broker, kernel.context.commits, self.scope, self.done.extend)
        self.recorder = WayRecorder(kernel.broker, self.scope, self.ways, self._why)
        kernel.broker.join_tracer(self.recorder, True, (hooks.MESSAGE_PUBLISH,))

    def _why(self, clientid: str, reason: str) -> str:
        session = self.kernel.sessions.held(clientid)
        if reason:
            return why_dropped(reason, session)
        return "" if session is None else why_queued(session)

    def way(self, topic: str) -> MessageWay:
        """The way of the one message to a topic."""
        self.ways.tick(SETTLE_US)
        found = [record_of(one) for one in (*self.done, *self.ways.waiting()) if one.topic == topic]
        assert len({record.id for record in found}) == 1
        return WayText(joined(found)).whole("")

    def receiver(self, topic: str, clientid: str) -> WayReceiver:
        (found,) = [one for one in self.way(topic).receivers if one.clientid == clientid]
        return found


@pytest.fixture
def world() -> World:
    return World()


def test_ways_that_are_under_way_count_what_they_hold(world: World) -> None:
    publisher = world.kernel.connect("p")
    for number in range(50):
        away = world.kernel.connect(f"away{number}", session_expiry_interval=3600)
        away.subscribe("t", 1)
        away.drop()
    publisher.publish("t", b"x", 1)
    assert len(world.ways) == 1
    assert world.scope.held_bytes > 50 * 2 * 160
    world.ways.tick(SETTLE_US)
    world.ways.close()
    taken = [*world.done, *world.ways.take_finished()]
    assert world.scope.held_bytes == sum(way.held_bytes for way in taken)


def test_long_topics_are_found_though_no_header_names_them() -> None:
    long, short = "x" * 40_000, "y" * 40_000
    ways = [Way(1, number, 1, topic, "c", None, 0, False, 1, -1, True) for number, topic in enumerate((long, short))]
    header = header_of(encoded(ways)[0])
    assert header.topics is None
    assert header.size_bytes < 1000
    found = records_of(header, encoded(ways)[1], WayQuery(long).is_met_by)
    assert [record.topic for record in found] == [long]


def test_a_message_that_waited_too_long(world: World) -> None:
    away, publisher = world.kernel.connect("away", session_expiry_interval=3600), world.kernel.connect("p")
    away.subscribe("t", 1)
    away.drop()
    publisher.publish("t", b"x", 1, message_expiry_interval=10)
    assert world.receiver("t", "away").why.startswith("the client is away")
    world.kernel.advance(61)
    world.ways.tick(SETTLE_US)  # what comes now is joined to it
    back = world.kernel.peer()
    back.connect("away", clean_start=False, session_expiry_interval=3600)
    way, told = world.way("t"), world.receiver("t", "away")
    assert (way.outcome, told.state, told.reason) == ("not_delivered", "dropped", "expired")
    assert told.dropped_after_us >= 61_000_000


def test_a_reader_that_does_not_read_what_it_is_sent(world: World) -> None:
    slow, publisher = world.kernel.connect("slow"), world.kernel.connect("p")
    slow.subscribe("t")
    slow.congest()
    publisher.publish("t", b"x")
    told = world.receiver("t", "slow")
    assert (told.reason, told.why) == ("qos0_msg", "QoS 0 does not wait: the client does not read what it is sent")


def test_the_whole_flow_of_qos_2(world: World) -> None:
    reader, publisher = world.kernel.connect("r"), world.kernel.connect("p")
    reader.subscribe("t", 2)
    publisher.publish("t", b"x", 2, 7)
    packet_id = reader.take(p.Publish).packet_id
    world.kernel.advance(1)
    reader.ack(p.PUBREC, packet_id)
    assert world.receiver("t", "r").state == "unacknowledged"
    world.kernel.advance(1)
    reader.ack(p.PUBCOMP, packet_id)
    told = world.receiver("t", "r")
    assert (told.state, told.qos) == ("acknowledged", 2)
    assert told.sent_after_us < told.received_after_us < told.acknowledged_after_us
    assert len(world.ways) == 0


def test_storage_that_refuses_before_and_behind_the_commit() -> None:
    world = World(Kernel(stored=["kept/#"]))
    publisher = world.kernel.connect("p")
    publisher.publish("kept/1", b"x", 1)
    assert not world.way("kept/1").steps[-1].is_bad
    world.kernel.commit(rc.QUOTA_EXCEEDED)
    way = world.way("kept/1")
    assert [step.text for step in way.steps[-2:]] == [
        "the disk refused it: quota exceeded",
        "its publisher was answered: quota exceeded",
    ]
    world.kernel.sink.refusal_code = rc.QUOTA_EXCEEDED
    world.kernel.broker.is_refusing = True
    publisher.publish("kept/2", b"x", 1)
    assert (world.way("kept/2").outcome, world.way("kept/2").reason) == ("refused", "quota_exceeded")


def test_a_hook_that_takes_it(world: World) -> None:
    def take(message: Message) -> object:
        return STOP, None

    world.kernel.broker.hooks.message_publish.add(take, 0, lambda topic: topic == "taken")
    publisher = world.kernel.connect("p")
    publisher.publish("taken", b"x", 1)
    way = world.way("taken")
    assert (way.outcome, way.steps[1].stage, way.steps[1].text) == ("taken", "hook", "taken")


def test_a_client_that_may_not_and_a_will() -> None:
    world = World(Kernel(replace(CHANNEL, authz_disconnects=True)))
    world.kernel.broker.hooks.client_authorize.add(
        lambda client, action, topic, decision: (STOP, DENIED_BY_DEFAULT) if topic == "secret" else None
    )
    reader = world.kernel.connect("r")
    reader.subscribe("gone/#")
    publisher = world.kernel.connect("p", will=p.Will("gone/p", b"x", 0, False, properties()))
    publisher.publish("secret", b"x", 1)
    assert publisher.closed()
    way = world.way("secret")
    assert (way.outcome, way.reason) == ("refused", "not_authorized")
    assert way.steps[-1].text.startswith("its PUBLISH was refused: may not publish")
    assert world.receiver("gone/p", "r").state == "sent"


def test_what_is_beyond_the_rate_is_counted_and_what_is_dropped_is_kept() -> None:
    world = World(rate=1.0, burst=2)
    publisher, reader = world.kernel.connect("p"), world.kernel.connect("r")
    reader.subscribe("heard/#")
    for number in range(5):
        publisher.publish(f"heard/{number}")
    publisher.publish("$SYS/not/ours", b"x", 1)
    tracers = world.kernel.broker.tracer
    assert tracers is not None
    tracers.sync()
    world.recorder.resume()
    tracers.renew()
    assert world.scope.missed_count >= 3
    world.scope.refill(1_000_000)
    publisher.publish("heard/5")
    world.ways.tick(SETTLE_US)
    topics = [one.topic for one in (*world.done, *world.ways.waiting())]
    assert [topic for topic in topics if topic.startswith("heard")] == ["heard/0", "heard/1", "heard/5"]


def test_a_message_to_very_many_is_bounded() -> None:
    world = World(Kernel(session_options=replace(SESSION, max_inflight=1)))
    readers = [world.kernel.connect(f"r{number}") for number in range(STEPS_MAX + 10)]
    for reader in readers:
        reader.subscribe("all", 1)
    world.kernel.connect("p").publish("all", b"x", 1)
    for reader in readers:
        reader.ack(p.PUBACK, reader.take(p.Publish).packet_id)
    way = world.way("all")
    assert len(way.receivers) <= STEPS_MAX
    assert way.left_out > 0
    assert len(world.ways) == 1
    world.kernel.advance(SETTLE_US / 1e6 + 1)
    world.ways.tick(SETTLE_US)
    assert len(world.ways) == 0


def test_ways_are_recorded_while_messages_are_traced() -> None:
    world = World()
    spans = NodeSpans(world.kernel.context, 2048)
    options = E2eTracingOptions(sample_ratio=1.0, client_messaging=True)
    spans.use(OtelTracesConfig(filter=OtelTraceFilter("e2e", e2e_tracing_options=options)))
    reader, publisher = world.kernel.connect("r"), world.kernel.connect("p")
    reader.subscribe("#")
    for number in range(3):
        publisher.publish(f"t/{number}", b"x")
        assert world.receiver(f"t/{number}", "r").state == "sent"
    assert [span.name for _, span in spans.after(0, 2048)].count("client.publish") == 3
    spans.stop()
    publisher.publish("t/4", b"x")
    assert world.way("t/4").outcome == "delivered"

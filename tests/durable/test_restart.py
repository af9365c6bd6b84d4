"""What a client finds after the broker was killed."""

from pathlib import Path

from heliograph.mqtt import packets as p
from support.cases import cases
from support.durable import DurableKernel


def test_a_subscription_survives_and_what_was_published_meanwhile_comes_in_order(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = kernel.come("sub")
    assert sub.heard() == ["CONNACK 0x00"]
    sub.subscribe("t/#", 1)
    sub.drop()
    pub = kernel.connect("pub")
    for number in range(3):
        pub.publish("t/a", b"%d" % number, 1)
    kernel = kernel.crash()
    kernel.connect("pub").publish("t/b", b"after", 1)
    sub = kernel.come("sub")
    assert sub.heard() == [
        "CONNACK 0x00 present",
        "PUBLISH t/a '0' q1 #1",
        "PUBLISH t/a '1' q1 #2",
        "PUBLISH t/a '2' q1 #3",
        "PUBLISH t/b 'after' q1 #4",
    ]


def test_a_session_in_memory_does_not_survive(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = kernel.come("sub", expiry_s=0)
    sub.skip()
    sub.subscribe("t", 1)
    kernel.connect("pub").publish("t", b"x", 1)
    assert kernel.disk.keys() <= {b"w"}
    assert kernel.crash().come("sub").heard() == ["CONNACK 0x00"]


@cases("version", [p.V3_1_1, p.V5])
def test_messages_for_a_client_that_is_away_cost_no_memory_and_come_when_it_comes(tmp_path: Path, version: int) -> None:
    kernel = DurableKernel(tmp_path)
    sub = kernel.come("sub", version=version)
    sub.skip()
    sub.subscribe("t", 1)
    sub.drop()
    pub = kernel.connect("pub")
    for number in range(5_000):
        pub.publish("t", b"%d" % number, 1)
    session = kernel.sessions.find("sub")
    assert session is not None
    assert session.statistics()["mqueue_len"] == 0
    again = kernel.come("sub", version=version)
    got: list[str] = []
    while len(got) < 5_000:
        packets = [packet for packet in again.received() if isinstance(packet, p.Publish)]
        assert packets, f"only {len(got)} came"
        got += [packet.payload.decode() for packet in packets]
        again.send(*[p.Ack(p.PUBACK, packet.packet_id, 0) for packet in packets])
    assert got == [str(number) for number in range(5_000)]
    pub.publish("t", b"live", 1)
    assert [packet.payload for packet in again.received() if isinstance(packet, p.Publish)] == [b"live"]


def test_a_session_ends_while_the_broker_is_down(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = kernel.come("sub", expiry_s=10)
    sub.skip()
    sub.subscribe("t", 1)
    sub.drop()
    kernel = kernel.crash(5.0)
    assert kernel.sessions.find("sub") is not None
    later = kernel.crash(6.0)
    assert later.sessions.find("sub") is None
    assert later.broker.router.statistics()["subscriptions.count"] == 0
    assert later.disk.keys() <= {b"w"}


def test_a_session_ends_after_the_rest_of_its_time(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = kernel.come("sub", expiry_s=10)
    sub.skip()
    sub.drop()
    kernel = kernel.crash(5.0)
    kernel.advance(4)
    assert kernel.sessions.find("sub") is not None
    kernel.advance(2)
    assert kernel.sessions.find("sub") is None
    assert kernel.crash().come("sub").heard() == ["CONNACK 0x00"]


def test_a_clean_start_ends_the_session_for_good(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = kernel.come("sub")
    sub.skip()
    sub.subscribe("t", 1)
    sub.drop()
    clean = kernel.come("sub", clean_start=True)
    assert clean.heard() == ["CONNACK 0x00"]
    kernel = kernel.crash()
    again = kernel.come("sub")
    assert again.heard() == ["CONNACK 0x00 present"]
    kernel.connect("pub").publish("t", b"x", 1)
    assert again.heard() == []


def test_options_of_subscriptions_survive(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = kernel.come("sub")
    sub.skip()
    sub.subscribe("t", 2, no_local=True, retain_as_published=True, subscription_identifier=[7])
    sub.subscribe("u", 2)
    sub.subscribe("u", 1)
    kernel = kernel.crash()
    sub = kernel.come("sub")
    sub.skip()
    sub.publish("t", b"own", 1)
    sub.received()
    pub = kernel.connect("pub")
    pub.publish("t", b"x", 1, retain=True)
    publish = sub.take(p.Publish)
    assert publish.retain
    pub.publish("u", b"x", 2)
    assert sub.heard() == ["PUBLISH u 'x' q1 #2"]


def test_an_unsubscription_survives(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = kernel.come("sub")
    sub.skip()
    sub.subscribe("t", 1)
    sub.unsubscribe("t")
    kernel = kernel.crash()
    kernel.connect("pub").publish("t", b"x", 1)
    assert kernel.come("sub").heard() == ["CONNACK 0x00 present"]


@cases("topic_filter", ["t", "$share/g/t"])  # asleep, and awake from the start on
def test_a_session_ends_though_the_broker_restarts_more_often_than_that(tmp_path: Path, topic_filter: str) -> None:
    kernel = DurableKernel(tmp_path)
    sub = kernel.come("sub", expiry_s=10)
    sub.skip()
    sub.subscribe(topic_filter, 1)
    kernel = kernel.crash(6.0)  # it left at this start, as far as anybody knows
    kernel.advance(2)
    kernel = kernel.crash(6.0)
    kernel.advance(2)
    kernel = kernel.crash(6.0)
    assert kernel.come("sub").heard() == ["CONNACK 0x00"]

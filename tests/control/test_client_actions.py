"""What is done with clients one by one: keepalive, remembered decisions, messages that wait, kicking many."""

from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.broker import hooks
from heliograph.control import client_actions
from heliograph.control.proto_v1.clients import ClientId, ClientIds, NewKeepalive, QueuedMessage, QueueWanted
from heliograph.mqtt import packets as p
from heliograph.rpc.methods import RpcError
from support.asking import Asker
from support.durable import DurableKernel
from support.kernel import Kernel
from support.options import SESSION


def asker_of(kernel: Kernel) -> Asker:
    return Asker(client_actions.methods(kernel.context), kernel.run)


def queued(asker: Asker, wanted: QueueWanted) -> list[QueuedMessage]:
    return asker.streamed("clients.queue", wanted)


def test_messages_that_wait_are_read_page_by_page_while_others_leave_the_queue() -> None:
    kernel = Kernel(session_options=replace(SESSION, max_inflight=3))
    slow = kernel.connect("slow", session_expiry_interval=600)
    slow.subscribe("t/#", 1)
    pub = kernel.connect("pub", username="ann")
    for number in range(40):
        pub.publish(f"t/{number}", b"x" * 10, 1)
    asker = asker_of(kernel)
    inflight = queued(asker, QueueWanted("slow", inflight=True))
    assert [row.topic for row in inflight] == ["t/0", "t/1", "t/2"]
    assert (inflight[0].from_clientid, inflight[0].from_username, inflight[0].payload) == ("pub", "ann", b"x" * 10)
    rest = queued(asker, QueueWanted("slow", inflight=True, position=inflight[0].position))
    assert [row.topic for row in rest] == ["t/1", "t/2"]
    first = queued(asker, QueueWanted("slow", limit=10))
    assert [row.topic for row in first] == [f"t/{number}" for number in range(3, 13)]
    assert kernel.now_us - 1_000_000 <= first[0].inserted_at <= kernel.now_us + 1000
    for packet_id in (1, 2, 3):
        slow.ack(p.PUBACK, packet_id)  # so that those that were read first leave the queue
    then = queued(asker, QueueWanted("slow", position=first[-1].position, limit=10))
    assert [row.topic for row in then] == [f"t/{number}" for number in range(13, 23)]
    cut = queued(asker, QueueWanted("slow", payload_max=25))
    assert len(cut) == 2
    assert [row.payload for row in queued(asker, QueueWanted("slow", payload_max=4, limit=1))] == [b"xxxx"]
    assert queued(asker, QueueWanted("slow", position=then[-1].position, limit=0)) == []
    with pytest.raises(RpcError, match="is no position"):
        queued(asker, QueueWanted("slow", position="x"))
    with pytest.raises(RpcError, match="no client"):
        queued(asker, QueueWanted("nobody"))


def test_topics_with_priorities_are_read_in_the_order_in_which_they_leave() -> None:
    options = replace(SESSION, mqueue_priorities={"high": 10}, mqueue_default_priority=1)
    kernel = Kernel(session_options=options)
    away = kernel.connect("away", session_expiry_interval=600)
    for topic in ("high", "low"):
        away.subscribe(topic, 1)
    away.drop()
    pub = kernel.connect("pub")
    for number in range(3):
        pub.publish("low", b"%d" % number, 1)
        pub.publish("high", b"%d" % number, 1)
    asker, position, told = asker_of(kernel), "", []
    while rows := queued(asker, QueueWanted("away", position=position, limit=2)):
        told += [(row.topic, row.priority, row.payload) for row in rows]
        position = rows[-1].position
    assert told == [("high", 10, b"%d" % n) for n in range(3)] + [("low", 1, b"%d" % n) for n in range(3)]


def test_what_is_in_flight_to_a_client_that_is_away_is_read_from_the_disk(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    peer = kernel.come("sleeper", expiry_s=6000)
    peer.skip()
    peer.subscribe("t/#", 1)
    kernel.come("pub", expiry_s=0).publish("t/1", b"unacknowledged", 1, 1)
    kernel.run()
    assert peer.take(p.Publish).payload == b"unacknowledged"
    peer.drop()
    kernel.run()
    kernel = kernel.crash()
    rows = queued(asker_of(kernel), QueueWanted("sleeper", inflight=True))
    assert [(row.topic, row.payload) for row in rows] == [("t/1", b"unacknowledged")]
    with pytest.raises(RpcError, match="stored streams"):
        queued(asker_of(kernel), QueueWanted("sleeper"))
    back = kernel.come("sleeper", clean_start=False, expiry_s=6000)
    assert [packet.payload for packet in back.received() if isinstance(packet, p.Publish)] == [b"unacknowledged"]


def test_another_keepalive_holds_from_now_on() -> None:
    kernel = Kernel()
    peer = kernel.connect("c", keepalive_s=10)
    asker = asker_of(kernel)
    asker.ask("clients.keepalive", NewKeepalive("c", 100))
    kernel.advance(100)
    assert peer.heard() == []
    asker.ask("clients.keepalive", NewKeepalive("c", 1))
    kernel.advance(1)
    assert peer.heard() == ["DISCONNECT 0x8d"]
    with pytest.raises(RpcError, match="no client"):
        asker.ask("clients.keepalive", NewKeepalive("c", 5))
    with pytest.raises(RpcError, match="0 to 65535"):
        asker.ask("clients.keepalive", NewKeepalive("c", -1))


def test_remembered_decisions_are_told_and_forgotten() -> None:
    kernel = Kernel()
    asked: list[str] = []

    def on_authorize(client: object, action: object, topic: str, outcome: object) -> tuple[str, object]:
        asked.append(topic)
        return hooks.OK, "deny" if topic == "secret" else "allow"

    kernel.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(on_authorize)
    peer = kernel.connect("c")
    peer.publish("open", b"", 1, retain=True)
    peer.publish("secret", b"", 1)
    asker = asker_of(kernel)
    rows = asker.rows("clients.decisions", ClientId("c"))
    found = {(row.access, row.qos, row.retain, row.topic, row.result) for row in rows}
    assert found == {("publish", 1, True, "open", "allow"), ("publish", 1, False, "secret", "deny")}
    assert all(abs(row.updated_at - kernel.now_us) < 60_000_000 for row in rows)
    asker.ask("clients.forget_decisions", ClientId("c"))
    assert asker.rows("clients.decisions", ClientId("c")) == []
    peer.publish("open", b"", 1, retain=True)
    assert asked == ["open", "secret", "open"]


def test_many_clients_are_kicked_and_unknown_ones_are_no_error() -> None:
    kernel = Kernel()
    peers = [kernel.connect(f"c{number}") for number in range(3)]
    rows = asker_of(kernel).rows("clients.kick_all", ClientIds(["c0", "nobody", "c2"]))
    kernel.run()
    assert [row.clientid for row in rows] == ["c0", "c2"]
    assert [peer.heard() for peer in peers] == [["DISCONNECT 0x98"], [], ["DISCONNECT 0x98"]]

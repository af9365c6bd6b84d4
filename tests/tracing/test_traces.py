"""What traces record of clients of a kernel: why a message did or did not reach a receiver, and nothing of others."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heliograph.broker import hooks
from heliograph.broker.actions import DENIED_BY_DEFAULT
from heliograph.broker.hook_order import VALIDATION
from heliograph.broker.hooks import Refusal
from heliograph.broker.message import Message
from heliograph.channel.channel import Channel
from heliograph.channel.taps import TappedConversation
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.properties import Properties
from heliograph.session.options import SessionOptions
from heliograph.tracing.stored import lines_of
from heliograph.tracing.trace import Trace, TraceOrder
from heliograph.tracing.traces import TraceError, TraceExistsError, TraceNotFoundError, Traces
from support.durable import DurableKernel
from support.kernel import Kernel
from support.options import SESSION

Record = dict[str, Any]
SMALL = replace(SESSION, max_mqueue_len=2, max_inflight=1)


class World:
    """A kernel with traces."""

    def __init__(
        self,
        folder: Path,
        session_options: SessionOptions | None = None,
        stored: tuple[str, ...] = (),
        kernel: Kernel | None = None,
    ) -> None:
        self.kernel = kernel or Kernel(session_options=session_options, stored=stored)
        self.told: list[str] = []
        self.folder = folder / "trace"
        self.traces = Traces(self.folder, self.kernel.context, 1 << 20, self.told.append)

    async def start(self, name: str, kind: str, value: str, **named: Any) -> None:
        await self.traces.start(TraceOrder(name, kind, value, **named))

    async def records(self, name: str) -> list[Record]:
        """End a trace, and what it recorded between its first and last record."""
        stored = await self.traces.stop(name)
        records = [json.loads(line) for line in stored.path.read_text().splitlines()]
        assert records[0]["event"] == "trace_started"
        assert records[-1]["event"] == "trace_ended"
        return records[1:-1]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    yield world
    await world.traces.close()


def of(records: list[Record], event: str, **wanted: object) -> list[Record]:
    """The records of an event that have these values."""
    return [one for one in records if one["event"] == event and wanted.items() <= one.items()]


def deliveries(records: list[Record]) -> list[tuple[str, str, str]]:
    """Receivers and outcomes, with the reason of drops."""
    return [(one["to"], one["outcome"], one.get("reason", "")) for one in of(records, "delivery")]


async def test_a_message_is_followed_from_its_publisher_to_its_receivers(world: World) -> None:
    kernel = world.kernel
    reader, other, publisher = kernel.connect("reader"), kernel.connect("other"), kernel.connect("publisher")
    reader.subscribe("room/+", 1)
    other.subscribe("hall/#", 1)
    await world.start("t", "topic", "room/#", payload="text")
    publisher.publish("room/1", b"21.5", 1)
    reader.ack(p.PUBACK, reader.take(p.Publish).packet_id)
    publisher.publish("hall/1", b"secret", 1)
    records = await world.records("t")
    assert [one["event"] for one in records] == ["message", "routed", "delivery", "acknowledged"]
    message, routed, delivery, _ = records
    assert (message["from"], message["qos"], message["payload"]) == ("publisher", 1, "21.5")
    assert routed["filters"] == [{"filter": "room/+", "receivers": ["reader"]}]
    assert (delivery["to"], delivery["outcome"], delivery["filter"]) == ("reader", "sent", "room/+")
    assert len({one["message"] for one in records}) == 1
    assert "hall" not in json.dumps(records)


async def test_no_subscriber_is_told(world: World) -> None:
    await world.start("t", "topic", "a")
    world.kernel.connect("p").publish("a", b"x", 1)
    (dropped,) = of(await world.records("t"), "message_dropped")
    assert (dropped["reason"], dropped["why"]) == ("no_subscribers", "no subscription matches its topic")


async def test_a_full_queue_says_whose_and_how_full(tmp_path: Path) -> None:
    world = World(tmp_path, SMALL)
    kernel = world.kernel
    reader, publisher = kernel.connect("reader"), kernel.connect("p")
    reader.subscribe("a", 1)
    await world.start("t", "topic", "a")
    for number in range(4):
        publisher.publish("a", b"%d" % number, 1)
    records = await world.records("t")
    assert [outcome for _, outcome, _ in deliveries(records)] == ["sent", "queued", "queued", "queued", "dropped"]
    (dropped,) = of(records, "delivery", outcome="dropped")
    assert dropped["reason"] == "queue_full"
    assert dropped["why"] == ("the message queue is full: 2 of 2 wait, 1 message is unacknowledged, which is its limit")
    assert dropped["message"] == of(records, "message")[1]["message"]  # the oldest one that waited


async def test_a_client_that_is_away_queues_and_gets_what_waited(world: World) -> None:
    kernel = world.kernel
    reader = kernel.connect("reader", session_expiry_interval=100)
    reader.subscribe("a", 1)
    reader.drop()
    publisher = kernel.connect("p")
    await world.start("t", "topic", "a")
    publisher.publish("a", b"1", 1)
    publisher.publish("a", b"2", 1, message_expiry_interval=5)
    kernel.advance(10)
    again = kernel.peer(p.V5)
    again.connect("reader", clean_start=False, session_expiry_interval=100)
    records = await world.records("t")
    assert deliveries(records) == [
        ("reader", "queued", ""),
        ("reader", "queued", ""),
        ("reader", "sent", ""),
        ("reader", "dropped", "expired"),
    ]
    assert of(records, "delivery", outcome="queued")[0]["why"] == "the client is away; 1 of 1000 wait"


async def test_refused_by_authorization_names_the_callback(world: World) -> None:
    kernel = world.kernel
    kernel.broker.rights.set_no_match(DENIED_BY_DEFAULT)
    publisher = kernel.connect("p")
    await world.start("t", "topic", "a")
    await world.start("c", "client", "p")
    publisher.publish("a", b"x", 1)
    records = await world.records("t")
    (verdict,) = of(records, "verdict")
    assert (verdict["callback"], verdict["verdict"], verdict["says"]) == ("authorization.no_match", "stop", "deny")
    assert of(records, "message_dropped", reason="not_authorized")
    of_client = await world.records("c")
    assert of(of_client, "packet_sent", packet="PUBACK", reason="not_authorized")
    publisher.publish("a", b"x", 1)  # nothing is on


async def test_no_local_and_rights_of_the_receiver(world: World) -> None:
    kernel = world.kernel
    kernel.broker.hooks.client_authorize.add(
        lambda _client, action, topic, _: (
            hooks.STOP,
            "deny" if (action.kind, topic) == ("subscribe", "a/x") else "allow",
        )
    )
    one, two = kernel.connect("one"), kernel.connect("two")
    one.subscribe("+/y", 1, no_local=True)
    two.subscribe("a/+", 1)
    await world.start("t", "topic", "a/#")
    one.publish("a/y", b"", 1)
    one.publish("a/x", b"", 1)
    records = await world.records("t")
    assert set(deliveries(records)) == {
        ("one", "dropped", "no_local"),
        ("two", "sent", ""),
        ("two", "dropped", "not_authorized"),
    }


async def test_qos_2_is_told_packet_by_packet(world: World) -> None:
    kernel = world.kernel
    reader, publisher = kernel.connect("reader"), kernel.connect("p")
    reader.subscribe("a", 2)
    await world.start("r", "client", "reader")
    publisher.publish("a", b"x", 2, 9)
    publisher.ack(p.PUBREL, 9)
    packet_id = reader.take(p.Publish).packet_id
    reader.ack(p.PUBREC, packet_id)
    reader.ack(p.PUBCOMP, packet_id)
    records = await world.records("r")
    told = [f"{one['event']} {one.get('packet', one.get('outcome', ''))}".strip() for one in records]
    assert told == [
        "delivery sent",
        "packet_sent PUBLISH",
        "packet_received PUBREC",
        "packet_sent PUBREL",
        "packet_received PUBCOMP",
        "acknowledged",
    ]


async def test_retained_messages_and_subscriptions(world: World) -> None:
    kernel = world.kernel
    kernel.connect("p").publish("a", b"kept", 1, retain=True)
    reader = kernel.connect("reader")
    await world.start("t", "topic", "a")
    await world.start("r", "client", "reader")
    reader.send_subscribe(p.SubscribeEntry("#", 1, False, False, 0))
    assert deliveries(await world.records("t")) == [("reader", "sent", "")]
    records = await world.records("r")
    assert of(records, "subscribed", filter="#", qos=1)
    assert of(records, "packet_sent", packet="PUBLISH", retain=True)


async def test_a_shared_group_says_which_member_took_it_and_that_none_did(world: World) -> None:
    kernel = world.kernel
    one, publisher = kernel.connect("one"), kernel.connect("p")
    one.subscribe("$share/g/a", 0)
    await world.start("t", "topic", "a")
    publisher.publish("a", b"x")
    one.congest()
    publisher.publish("a", b"y")
    records = await world.records("t")
    assert of(records, "routed")[0]["filters"] == [{"filter": "a", "receivers": ["group g/a (1 members)"]}]
    taken, lost = of(records, "delivery")
    assert (taken["to"], taken["outcome"], taken["group"]) == ("one", "sent", "g")
    assert lost["outcome"] == "dropped"


async def test_a_callback_that_refuses_changes_or_takes_a_message_is_named(world: World) -> None:
    kernel = world.kernel

    def rewrite(message: Message) -> object:
        if message.topic != "raw":
            return None
        again = p.Publish(message.publish.data, 5, message.qos, False, False, b"cooked", 0, 0, 0)
        changed = Message(message.id_high, message.id_low, "cooked", again, message.clientid, None, -1)
        return hooks.OK, changed

    kernel.broker.hooks.message_publish.add(rewrite, 5)
    kernel.broker.hooks.message_publish.add(
        lambda message: (
            (hooks.STOP, Refusal("invalid", rc.PAYLOAD_FORMAT_INVALID, False)) if message.topic == "bad" else None
        ),
        VALIDATION,
    )
    publisher = kernel.connect("p")
    await world.start("t", "topic", "raw")
    await world.start("b", "topic", "bad")
    publisher.publish("raw", b"x")
    publisher.publish("bad", b"x", 1)
    records = await world.records("t")
    (changed,) = of(records, "changed")
    assert (changed["topic"], changed["was"]["topic"]) == ("cooked", "raw")
    assert of(records, "message_dropped", topic="cooked", reason="no_subscribers")
    records = await world.records("b")
    assert of(records, "verdict", callback="schema validation", says="refused", reason="invalid")
    assert of(records, "message_dropped", reason="invalid")


async def test_a_stored_message_tells_its_ticket_and_commit(tmp_path: Path) -> None:
    world = World(tmp_path, stored=("kept/#",))
    publisher = world.kernel.connect("p")
    await world.start("t", "topic", "kept/+")
    publisher.publish("kept/1", b"x", 1)
    world.kernel.commit()
    publisher.publish("kept/1", b"x", 1)
    world.kernel.commit(rc.QUOTA_EXCEEDED)
    records = await world.records("t")
    first, second = of(records, "committed")
    assert (first["ticket"], "refused" in first) == (of(records, "routed")[0]["ticket"], False)
    assert second["refused"] == rc.name_of(rc.QUOTA_EXCEEDED)


async def test_a_durable_session_that_is_behind_gets_it_from_storage(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, session_options=SMALL)
    world = World(tmp_path, kernel=kernel)
    reader = kernel.come("reader")
    reader.skip()
    reader.subscribe("a", 1)
    publisher = kernel.connect("p")
    await world.start("t", "topic", "a")
    for number in range(4):
        publisher.publish("a", b"%d" % number, 1)
    packet_ids = [reader.take(p.Publish).packet_id]
    while packet_ids:
        reader.ack(p.PUBACK, packet_ids.pop())
        packet_ids += [packet.packet_id for packet in reader.received() if isinstance(packet, p.Publish)]
    records = await world.records("t")
    outcomes = [outcome for _, outcome, _ in deliveries(records)]
    assert outcomes.count("sent") == 4
    assert "left_to_replay" in outcomes
    assert "dropped" not in outcomes
    assert len(of(records, "message")) == len(of(records, "acknowledged")) == len(of(records, "committed")) == 4


async def test_a_client_is_traced_from_its_connect_to_its_will(world: World) -> None:
    kernel = world.kernel
    await world.start("c", "client", "c", payload="hex")
    peer = kernel.peer(p.V5)
    will = p.Will("gone", b"bye", 1, False, Properties())
    peer.connect("c", will=will, username="u", password=b"never shown", session_expiry_interval=60)
    stranger = kernel.connect("stranger")
    stranger.subscribe("gone", 1)
    peer.publish("from/c", b"\x00\xff", 1)
    kernel.connect("c", clean_start=True)
    peer.drop()
    records = await world.records("c")
    text = json.dumps(records)
    (connect, *_) = of(records, "packet_received")
    assert (connect["packet"], connect["username"], connect["password"]) == ("CONNECT", "u", "******")
    assert "never shown" not in text
    assert b"never shown".hex() not in text
    assert of(records, "packet_received", packet="PUBLISH", payload="00ff")
    assert [of(records, event) != [] for event in ("session_created", "client_connected", "session_discarded")] == [
        True
    ] * 3
    assert of(records, "client_disconnected", reason="discarded")
    assert of(records, "will", step="published")
    assert of(records, "delivery", to="stranger", topic="gone")  # its will
    assert {one.get("client", "c") for one in records} == {"c"}


async def test_a_client_that_is_refused_shows_why(world: World) -> None:
    kernel = world.kernel
    kernel.broker.hooks.client_authenticate.add(lambda *_: (hooks.STOP, rc.BAD_USERNAME_OR_PASSWORD))
    await world.start("c", "client", "c")
    kernel.peer(p.V5).connect("c", username="u", password=b"guess")
    kernel.peer(p.V5).connect("d", username="u", password=b"guess")
    records = await world.records("c")
    (verdict,) = of(records, "verdict", hook="client.authenticate")
    assert verdict["says"] == rc.name_of(rc.BAD_USERNAME_OR_PASSWORD)
    assert len(of(records, "refused")) == 1
    assert "guess" not in json.dumps(records)


async def test_a_session_expires_and_is_taken_over(world: World) -> None:
    kernel = world.kernel
    first = kernel.connect("c", session_expiry_interval=10)
    await world.start("c", "client", "c")
    again = kernel.peer(p.V5)
    again.connect("c", clean_start=False, session_expiry_interval=10)
    first.drop()
    again.drop()
    kernel.advance(20)
    events = [one["event"] for one in await world.records("c")]
    assert [event for event in events if event.startswith("session")] == [
        "session_taken_over",
        "session_resumed",
        "session_terminated",
    ]


async def test_an_address_or_network_is_traced(world: World) -> None:
    kernel = world.kernel  # its clients come from 192.0.2.1
    old = kernel.connect("old")
    await world.start("net", "ip_address", "192.0.2.0/24")
    await world.start("other", "ip_address", "198.51.100.7")
    new = kernel.connect("new")
    old.subscribe("a")
    new.publish("a", b"x")
    records = await world.records("net")
    assert {one["client"] for one in of(records, "packet_received")} == {"old", "new"}
    assert deliveries(records) == [("old", "sent", "")]
    assert await world.records("other") == []


async def test_a_trace_that_ends_while_it_begins_leaves_no_connection_tapped(world: World) -> None:
    for number in range(300):  # more than are looked at in one turn
        world.kernel.connect(f"c{number}")
    channels = [one for one in world.kernel.context.channels.all() if isinstance(one, Channel)]
    starting = asyncio.create_task(world.start("net", "ip_address", "192.0.2.0/24"))
    await asyncio.sleep(0)
    assert any(isinstance(one.reader.conversation, TappedConversation) for one in channels)
    await world.traces.stop("net")
    await starting
    assert not any(isinstance(one.reader.conversation, TappedConversation) for one in channels)


async def test_a_trace_ends_where_who_begins_it_gives_up_meanwhile(world: World) -> None:
    for number in range(300):
        world.kernel.connect(f"c{number}")
    starting = asyncio.create_task(world.start("net", "ip_address", "192.0.2.0/24"))
    await asyncio.sleep(0)
    starting.cancel()
    with suppress(asyncio.CancelledError):
        await starting
    with pytest.raises(TraceNotFoundError):
        await world.traces.stop("net")


async def test_two_traces_at_once_have_their_own_records(world: World) -> None:
    kernel = world.kernel
    publisher = kernel.connect("p")
    await world.start("a", "topic", "a")
    await world.start("b", "topic", "b")
    publisher.publish("a", b"x")
    publisher.publish("b", b"x")
    publisher.publish("a", b"y")
    assert {one["topic"] for one in await world.records("a")} == {"a"}
    assert len(of(await world.records("b"), "message")) == 1


async def test_a_trace_ends_at_its_bound_and_says_so(world: World) -> None:
    publisher = world.kernel.connect("p")
    await world.start("t", "topic", "a", size_max=8192)
    for _ in range(200):
        publisher.publish("a", b"x")
    world.kernel.run()
    (listed,) = await world.traces.listed()
    assert listed.state == "its file has reached max_size"
    assert listed.path.stat().st_size <= 8192
    assert json.loads(listed.path.read_text().splitlines()[-1])["event"] == "trace_ended"
    assert any("max_size" in line for line in world.told)
    assert world.kernel.broker.tracer is None


async def test_a_trace_ends_after_its_duration(world: World) -> None:
    await world.start("t", "client", "c", duration_s=60)
    world.kernel.advance(59)
    world.traces.tick(world.kernel.now_us)
    assert world.traces.statistics()["traces.count"] == 1
    world.kernel.advance(2)
    world.traces.tick(world.kernel.now_us)
    assert world.traces.statistics()["traces.count"] == 0
    (listed,) = await world.traces.listed()
    assert listed.name == "t"


async def test_a_file_of_a_node_that_was_killed_is_listed_and_shown(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    head = {"at": "2026-11-22T22:00:00Z", "event": "trace_started", "name": "old", "about": "topic", "value": "a"}
    (folder / "old.jsonl").write_text(json.dumps(head) + '\n{"event": "message"}\n{"event": "rou')
    (row,) = await world.traces.listed()
    assert (row.name, row.kind, row.value, row.state) == ("old", "topic", "a", "interrupted")
    lines = [line async for some in world.traces.lines("old", follows=True) for line in some]
    assert [json.loads(line)["event"] for line in lines] == ["trace_started", "message"]
    await world.traces.delete("old")
    assert await world.traces.listed() == []


async def test_following_tells_what_comes_until_the_end(world: World) -> None:
    publisher = world.kernel.connect("p")
    await world.start("t", "topic", "a")
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def follow() -> None:
        async for lines in world.traces.lines("t", follows=True):
            for line in lines:
                seen.put_nowait(json.loads(line)["event"])

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(follow())
        assert await seen.get() == "trace_started"
        publisher.publish("a", b"x")
        assert [await seen.get() for _ in range(3)] == ["message", "routed", "message_dropped"]
        await world.traces.stop("t")
        assert await seen.get() == "trace_ended"


async def test_what_cannot_be_traced_says_what_is_valid(world: World) -> None:
    for order, said in (
        (TraceOrder("../x", "client", "c"), "beginning with a letter or digit"),
        (TraceOrder("x", "ruleid", "c"), "one of client, topic, ip_address, rule, not 'ruleid'"),
        (TraceOrder("x", "topic", "a/#/b"), "'a/#/b' is no topic filter"),
        (TraceOrder("x", "ip_address", "here"), "192.0.2.0/24"),
        (TraceOrder("x", "client", "c", duration_s=0), "1 to 86400 seconds"),
        (TraceOrder("x", "client", "c", size_max=1), "4096 bytes at least"),
        (TraceOrder("x", "client", "c", payload="all"), "hidden, text, hex"),
        (TraceOrder("x", "client", "c", file="/etc/passwd"), "no file of a trace"),
    ):
        with pytest.raises(TraceError, match=r"expected|valid|trace|no ") as caught:
            await world.traces.start(order)
        assert said in str(caught.value)
    await world.start("x", "client", "c")
    with pytest.raises(TraceExistsError):
        await world.start("x", "topic", "a")
    for number in range(29):
        await world.start(f"n{number}", "client", f"c{number}")
    with pytest.raises(TraceError, match="30 traces are on"):
        await world.start("y", "client", "c")
    with pytest.raises(TraceNotFoundError, match="no trace 'z' is on"):
        await world.traces.stop("z")
    await world.traces.stop("x")
    with pytest.raises(TraceExistsError, match="trace delete x"):
        await world.start("x", "client", "c")
    await world.traces.delete("x")
    await world.start("x", "client", "c")
    with pytest.raises(TraceNotFoundError):
        await world.traces.delete("z")


async def test_what_is_large_or_comes_in_pieces_is_cut_into_packets(world: World) -> None:
    kernel = world.kernel
    reader, publisher = kernel.connect("reader", session_expiry_interval=60), kernel.connect("p")
    reader.subscribe("a", 1)
    reader.congest()
    publisher.publish("a", b"before the trace", 1)
    await world.start("r", "client", "reader")
    publisher.publish("a", bytes(400_000), 1)
    publisher.publish("a", b"small", 1)
    reader.congest(False)
    sent = of(await world.records("r"), "packet_sent", packet="PUBLISH")
    assert [one["payload_bytes"] for one in sent][-1] == 5
    assert sent[-2]["bytes"] > 400_000
    assert sent[-2]["topic"] == "a"


async def test_a_disk_that_refuses_is_counted_and_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = world.kernel.connect("p")
    real, refused = os.pwrite, threading.Event()

    def pwrite(fd: int, data: bytes, at: int) -> int:
        if not refused.is_set():
            refused.set()
            raise OSError(28, "No space left on device")
        return real(fd, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    await world.start("t", "topic", "a")
    publisher.publish("a", b"x")
    assert await asyncio.to_thread(refused.wait, 60)
    publisher.publish("a", b"x")
    stored = await world.traces.stop("t")
    records = [json.loads(line) for line in stored.path.read_text().splitlines()]
    (told,) = of(records, "records_dropped")
    assert (told["count"], told["reason"]) == (4, "No space left on device")
    assert [one["event"] for one in records[1:]] == ["message", "routed", "message_dropped", "trace_ended"]


async def test_a_message_to_very_many_has_a_bounded_number_of_records(world: World) -> None:
    kernel = world.kernel
    for number in range(510):
        kernel.connect(f"c{number}").subscribe("a", 0)
    await world.start("t", "topic", "a")
    await world.start("c", "client", "c509")
    kernel.connect("p").publish("a", b"x")
    records = await world.records("t")
    assert len(of(records, "delivery")) == 500
    assert len(of(records, "deliveries_left_out")) == 1
    (routed,) = of(records, "routed")
    assert (len(routed["filters"][0]["receivers"]), routed["filters"][0]["more"]) == (50, 460)
    assert deliveries(await world.records("c")) == [("c509", "sent", "")]


async def test_a_fault_of_a_trace_disturbs_no_client(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = world.kernel.contain_faults()
    reader, publisher = world.kernel.connect("reader"), world.kernel.connect("p")
    reader.subscribe("a", 0)
    await world.start("t", "client", "p")

    def put(*given: object) -> None:
        raise RuntimeError("not today")

    monkeypatch.setattr(Trace, "put", put)
    publisher.publish("a", b"x", 1)
    assert publisher.heard() == ["PUBACK #1"]
    assert reader.heard() == ["PUBLISH a 'x' q0"]
    assert {boundary for boundary, _ in faults} == {"tracing"}
    monkeypatch.undo()


async def test_a_trace_that_begins_while_traces_are_listed_is_on(world: World) -> None:
    loop, may_look = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    looking = loop.run_in_executor(None, may_look.wait)  # the list waits for this before it looks into the folder
    listing = asyncio.create_task(world.traces.listed())
    await asyncio.sleep(0)
    await world.start("t", "topic", "a")
    may_look.set()
    await looking
    assert [(one.name, one.state) for one in await listing] == [("t", "running")]


async def test_a_trace_ends_whole_also_where_nobody_waits_for_its_end(world: World) -> None:
    await world.start("t", "topic", "a")
    (file,) = (one.path for one in await world.traces.listed())
    assert str(file) in open_files()
    stopping = asyncio.create_task(world.traces.stop("t"))
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.wait([stopping])
    (listed,) = await world.traces.listed()
    assert listed.state == "stopped"
    assert str(file) not in open_files()


def open_files() -> set[str]:
    """The paths of all files that this process has open."""
    found = set()
    for one in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it was that of the folder itself
            found.add(str(one.readlink()))
    return found


async def test_a_trace_that_is_deleted_while_it_ends_is_not_found(world: World) -> None:
    await world.start("t", "topic", "a")
    (file,) = (one.path for one in await world.traces.listed())
    stopping = asyncio.create_task(world.traces.stop("t"))
    await asyncio.sleep(0)  # it waits for the file to be written
    file.unlink()
    with pytest.raises(TraceNotFoundError, match="deleted meanwhile"):
        await stopping
    assert lines_of(file, 0) == ([], 0)


async def test_the_oldest_files_make_room_for_the_newest(world: World) -> None:
    world.traces.bytes_max = 10_000
    for number in range(5):
        await world.start(f"t{number}", "topic", "room/#")
        for stored in world.folder.glob("*.jsonl"):
            if stored.stem != f"t{number}":
                os.utime(stored, (int(stored.stem[1:]), int(stored.stem[1:])))
        await world.traces.stop(f"t{number}")
        with (world.folder / f"t{number}.jsonl").open("a") as file:
            file.write(" " * 4_000)
    await world.start("on", "topic", "hall/#")
    await world.start("last", "topic", "room/#")
    await world.traces.stop("last")
    assert [one.name for one in await world.traces.listed()] == ["last", "on", "t3", "t4"]
    lines = [line for line in world.told if "max_bytes" in line]
    assert lines[-1].endswith("(diagnose.traces.max_bytes): removed are the oldest, t2.jsonl")
    world.traces.bytes_max = 1
    await world.traces.stop("on")
    assert [one.name for one in await world.traces.listed()] == ["on"]

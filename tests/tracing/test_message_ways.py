"""`heliograph ctl message explain` against a node with real clients: what became of their messages is told truly."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from heliograph.broker.client import ClientInfo
from heliograph.broker.tracer import Tracer
from heliograph.cli.main import main
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.message_ways import MessageWaysPart
from heliograph.storage.state.local import LocalState
from heliograph.tracing.ways.chunks import ChunkHeader
from heliograph.tracing.ways.query import WayQuery
from heliograph.tracing.ways.store import WayStore
from support.alarms import unheard_alarms
from support.kernel import Kernel
from support.packets import properties
from support.running import MqttClient, RunningNode
from support.waiting import until

SETTINGS = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage.messages.topics = ["kept/#"]
durable_sessions.enable = true
mqtt { max_mqueue_len = 1, max_inflight = 1, max_qos_allowed = 1 }
authorization { no_match = allow, sources = [{ type = file, path = "FOLDER/acl.conf" }] }
schema_validation.validations = [{ name = hot, topics = "checked/#", strategy = all_pass, failure_action = drop
  checks = [{ type = sql, sql = "SELECT * WHERE payload.t > 30" }] }]
rewrite = [{ action = publish, source_topic = "old/#", dest_topic = "new/$1", re = "^old/(.+)$" }]
rule_engine.rules.relay { sql = "SELECT payload FROM \\"relay/#\\""
  actions = [{ function = republish, args = { topic = "relayed", payload = "x", qos = 1 } }] }
"""
ON = "diagnose.messages.enable = true"

Row = dict[str, Any]
Ctl = Callable[..., Awaitable[tuple[int, str, str]]]
pytestmark = pytest.mark.service


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    (tmp_path / "acl.conf").write_text('{deny, all, publish, ["secret/#"]}.\n')
    async with RunningNode(tmp_path, SETTINGS.replace("FOLDER", str(tmp_path)), ON) as node:
        yield node


@pytest.fixture
def ctl(node: RunningNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ctl:
    return explained(tmp_path, capsys)


def explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ctl:
    """The command, asking the node of that directory."""

    async def run(*words: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(
            main, ["ctl", "message", "explain", *words, "--data-dir", str(tmp_path / "data")]
        )
        return code, *capsys.readouterr()

    return run


async def rows(ctl: Ctl, *words: str) -> list[Row]:
    code, out, said = await ctl(*words, "--json")
    assert code == 0, said
    return [json.loads(line) for line in out.splitlines()]


async def way_of(ctl: Ctl, topic: str, *words: str) -> Row:
    """The way of the newest message to a topic."""
    newest = (await rows(ctl, "--topic", topic))[0]
    return (await rows(ctl, newest["message_id"], *words))[0]


def receiver(way: Row, clientid: str) -> Row:
    receivers: list[Row] = way["receivers"]
    (found,) = [one for one in receivers if one["clientid"] == clientid]
    return found


async def acknowledge(client: MqttClient) -> None:
    client.acknowledge(await client.take(p.Publish))
    await client.ping()


async def test_what_receivers_get_and_do_not_get(node: RunningNode, ctl: Ctl) -> None:
    publisher = await node.connect("p", username="ann")
    reader, slow = await node.connect("reader"), await node.connect("slow")
    away = await node.connect("away", session_expiry_interval=3600)
    await reader.subscribe("room/#", 1)
    await slow.subscribe("room/#", 1)
    await away.subscribe("room/#", 1)
    await away.leave()

    await publisher.publish("room/1", b"21.5", 1)
    await acknowledge(reader)
    await publisher.publish("room/2", b"22", 1)
    await acknowledge(reader)
    await publisher.publish("room/3", b"23", 1)
    first, last = await way_of(ctl, "room/1", "--client", "nobody"), await way_of(ctl, "room/3")
    assert (first["clientid"], first["username"], first["qos"], first["payload_bytes"]) == ("p", "ann", 1, 4)
    got = receiver(first, "reader")
    assert (got["state"], got["topic_filter"]) == ("acknowledged", "room/#")
    assert got["acknowledged_after_us"] >= got["sent_after_us"] >= 0
    assert receiver(first, "slow")["state"] == "unacknowledged"
    waiting = receiver(await way_of(ctl, "room/2"), "slow")
    assert (waiting["state"], waiting["reason"]) == ("dropped", "queue_full")  # the third one took its place
    assert "the message queue is full: 1 of 1 wait, 1 message is unacknowledged" in waiting["why"]
    assert receiver(last, "slow")["state"] == "waiting"
    assert "1 message is unacknowledged, which is its limit" in receiver(last, "slow")["why"]
    assert receiver(last, "away")["why"].startswith("the client is away")
    assert (last["outcome"], first["asked"]) == (
        "waiting",
        "nobody was not among its receivers, and has no session now",
    )
    answered = [step for step in first["steps"] if step["stage"] == "answer"]
    assert answered[0]["text"] == "its publisher was answered: success"

    await acknowledge(slow)
    await acknowledge(slow)
    assert receiver(await way_of(ctl, "room/3"), "slow")["state"] == "acknowledged"
    code, out, _ = await ctl("--client", "slow")
    assert code == 0
    assert out.count("room/") == 3
    code, out, _ = await ctl(last["message_id"])
    assert "receiver slow: acknowledged (room/#, QoS 1); waited " in out


async def test_why_nobody_gets_a_message(node: RunningNode, ctl: Ctl) -> None:
    publisher, reader = await node.connect("p"), await node.connect("reader")
    await reader.subscribe("#", 1)
    assert await publisher.publish("secret/1", b"x", 1) == rc.NOT_AUTHORIZED
    way = await way_of(ctl, "secret/1")
    assert (way["outcome"], way["reason"]) == ("refused", "not_authorized")
    assert "its publisher may not publish to this topic" in way["summary"]

    await publisher.publish("checked/1", b'{"t": 20}', 1)
    way = await way_of(ctl, "checked/1")
    assert (way["outcome"], way["reason"]) == ("refused", "schema_validation_failed")
    verdict = next(step for step in way["steps"] if step["what"] == "hook_verdict")
    assert (verdict["who"], verdict["policy"]) == ("schema validation", "hot")
    assert verdict["text"] == "refused by hot: schema_validation_failed"
    assert way["summary"] == "Not published: schema validation: refused by hot: schema_validation_failed."

    await publisher.publish("$delayed/3600/later", b"x", 1)
    assert (await way_of(ctl, "later"))["outcome"] == "delayed"

    reader.send(p.Unsubscribe(9, ["#"], properties()))
    await reader.ping()
    assert await publisher.publish("empty", b"x", 1) == rc.NO_MATCHING_SUBSCRIBERS
    way = await way_of(ctl, "empty", "--client", "reader")
    assert (way["outcome"], way["reason"]) == ("no_receiver", "no_subscribers")
    assert way["asked"] == "reader was not among its receivers: it has no subscription that matches empty"

    selfish = p.SubscribeEntry("own", 1, True, False, 0)  # no local
    publisher.send(p.Subscribe(10, [selfish], properties()))
    await publisher.take(p.Suback)
    await publisher.publish("own", b"x", 1)
    way = await way_of(ctl, "own")
    assert (way["outcome"], receiver(way, "p")["reason"]) == ("no_receiver", "no_local")

    small = await node.connect("small", maximum_packet_size=30)
    await small.subscribe("large", 1)
    await publisher.publish("large", b"x" * 100, 1)
    assert receiver(await way_of(ctl, "large"), "small")["reason"] == "too_large"

    await publisher.publish("kept/1", b"x", 1)
    way = await way_of(ctl, "kept/1")
    assert way["outcome"] == "no_receiver"
    assert "it is on the disk" in [step["text"] for step in way["steps"]]

    offender = await node.connect("offender")
    offender.send_bytes(b"\x34\x0a\x00\x04room\x00\x01\x00x")  # at QoS 2, which is not allowed
    await offender.until_closed()
    (way,) = await rows(ctl, "--client", "offender")
    assert way["outcome"] == "refused"
    assert "PUBLISH at QoS 2; 1 is allowed" in way["why"]


async def test_rules_rewritten_topics_and_what_comes_later(node: RunningNode, ctl: Ctl) -> None:
    publisher = await node.connect("p")
    reader = await node.connect("reader")
    await reader.subscribe("relayed", 1)
    await reader.subscribe("new/#", 1)
    await publisher.publish("relay/1", b"x", 1)
    await acknowledge(reader)
    way = await way_of(ctl, "relay/1")
    evaluated, carried_out = [(step["who"], step["text"]) for step in way["steps"] if step["stage"] == "rule"]
    assert (evaluated, carried_out) == (("relay", "1 row"), ("relay", "republish: done"))
    relayed = await way_of(ctl, "relayed")
    assert (relayed["made_by"], receiver(relayed, "reader")["state"]) == (["relay"], "acknowledged")

    await publisher.publish("old/1", b"x", 1)
    await acknowledge(reader)
    way = await way_of(ctl, "new/1")
    assert way["topic"] == "old/1"
    assert receiver(way, "reader")["state"] == "acknowledged"

    await publisher.publish("kept/retained", b"x", 1, retain=True)
    durable = await node.connect("durable", clean_start=False, session_expiry_interval=3600)
    await durable.subscribe("kept/#", 1)
    await acknowledge(durable)
    way = await way_of(ctl, "kept/retained")
    assert (way["outcome"], receiver(way, "durable")["state"]) == ("delivered", "acknowledged")
    assert way["retained"] == "it is the retained message of its topic now"
    await publisher.publish("kept/retained", b"y", 1, retain=True)
    await acknowledge(durable)
    newest, first = await rows(ctl, "--topic", "kept/retained")
    way = (await rows(ctl, first["message_id"]))[0]
    assert way["retained"] == f"message {newest['message_id']} has taken its place as the retained message of its topic"
    await durable.leave()
    await publisher.publish("kept/2", b"x", 1)
    assert (await way_of(ctl, "kept/2"))["outcome"] in ("stored", "waiting")
    durable = await node.connect("durable", clean_start=False, session_expiry_interval=3600)
    await acknowledge(durable)
    way = await way_of(ctl, "kept/2")
    assert (way["is_begun"], receiver(way, "durable")["state"]) == (True, "acknowledged")


async def test_they_are_kept_and_only_those_that_are_wanted(node: RunningNode, ctl: Ctl) -> None:
    publisher = await node.connect("p")
    await publisher.publish("before", b"x", 1)
    only = 'diagnose.messages { enable = true, topics = ["a/#"], clients = [p], rate = "2/1h" }'
    assert await node.change(only)  # what was recorded is written now
    other = await node.connect("other")
    await other.publish("a/1", b"x", 1)
    for number in range(4):
        await publisher.publish(f"a/{number}", b"x")
    await publisher.publish("b/1", b"x", 1)
    found = await rows(ctl)
    assert [one["topic"] for one in found] == ["a/1", "a/0", "before"]
    assert [one["topic"] for one in await rows(ctl, "--limit", "1")] == ["a/1"]
    assert [one["topic"] for one in await rows(ctl, "--topic", "before", "--since", "1h")] == ["before"]
    assert await node.change("diagnose.messages.enable = false")
    await publisher.publish("a/9", b"x", 1)
    assert len(await rows(ctl)) == 3
    code, _, said = await ctl("0" * 32)
    assert code == 1
    assert "diagnose.messages.enable is false" in said
    code, _, said = await ctl("nonsense")
    assert code == 1
    assert "'nonsense' is no message id" in said


async def test_what_is_written_while_it_is_looked_for_is_found_once(node: RunningNode) -> None:
    publisher = await node.connect("p")
    await publisher.publish("a/1", b"x", 1)
    part = node.node.parts.get(MessageWaysPart)
    ways = part.ways
    assert ways is not None
    search = ways.search(WayQuery("a/#"))
    _, found = await anext(search)
    ways.use(part.settings)  # which has those before written
    await until(lambda: ways.store.added_count)
    async for _, more in search:
        found += more
    assert [record.topic for record in found] == ["a/1"]
    assert [record.topic async for _, some in ways.search(WayQuery("a/#")) for record in some] == ["a/1"]


async def test_they_outlast_the_node_and_go_on_after_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "acl.conf").write_text("{allow, all}.\n")
    settings = SETTINGS.replace("FOLDER", str(tmp_path))
    async with RunningNode(tmp_path, settings, ON) as node:
        durable = await node.connect("durable", clean_start=False, session_expiry_interval=3600)
        await durable.subscribe("kept/#", 1)
        await durable.leave()
        publisher = await node.connect("p")
        await publisher.publish("kept/1", b"x", 1)
    async with RunningNode(tmp_path, settings, ON) as node:
        durable = await node.connect("durable", clean_start=False, session_expiry_interval=3600)
        await acknowledge(durable)
        ctl = explained(tmp_path, capsys)
        way = await way_of(ctl, "kept/1")
        assert (way["is_begun"], way["clientid"], receiver(way, "durable")["state"]) == (True, "p", "acknowledged")
        assert "it comes from storage, to a durable session" in [step["text"] for step in way["steps"]]


async def test_the_oldest_go_by_age_and_by_size(tmp_path: Path) -> None:
    state = LocalState(tmp_path, "message_ways", fsync=False)
    store = WayStore(state, unheard_alarms())
    store.open()
    header = msgspec.msgpack.encode(ChunkHeader(1, 2, (), 1, 0, 1000, None, None))
    for at_us in (100, 200, 300):
        store.add(header, b"x" * 1000, at_us)
    store.drop(150, 1 << 20)
    assert (len(store), store.oldest_us) == (2, 200)
    store.drop(0, 1500)
    assert (len(store), store.oldest_us) == (1, 300)
    await state.close()
    again = WayStore(LocalState(tmp_path, "message_ways", fsync=False), unheard_alarms())
    again.open()
    assert [len(again) for _ in again.load()] == []
    assert (len(again), again.oldest_us) == (1, 300)
    await again.close()


class Picker(Tracer):
    """Picks one PUBLISH of so many."""

    def __init__(self, of: int) -> None:
        super().__init__()
        self.skipped = self.countdown = of - 1
        self.picked: list[str] = []

    def begin(self, client: ClientInfo, publish: p.Publish, topic: str) -> p.Publish:
        if self.countdown < 0:
            self.picked.append(topic)
            self.countdown = self.skipped
        return publish


def test_each_tracer_counts_its_own_messages() -> None:
    kernel = Kernel()
    every, third = Picker(1), Picker(3)
    publisher = kernel.connect("p")
    kernel.broker.join_tracer(third, True)
    publisher.publish("0")
    kernel.broker.join_tracer(every, True)
    for number in range(1, 9):
        publisher.publish(str(number))
    assert every.picked == [str(number) for number in range(1, 9)]
    assert third.picked == ["2", "5", "8"]

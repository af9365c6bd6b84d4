"""Why a message did not arrive: one node, many cases, each asked of `ctl message explain` and of the HTTP API.

What is told must be true: a wrong reason is worse than none.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from heliograph.access.bans.ban_table import Ban
from heliograph.cli.main import main
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.delayed import DelayedPart
from heliograph.node.kernel import KernelPart
from heliograph.processes.programs import Programs
from heliograph.session.durable import DurableSession
from support.api_node import manage_here
from support.management import KEY, SECRET
from support.packets import properties
from support.python_copies import python
from support.running import WAIT_S, MqttClient, RunningNode
from support.waiting import until

pytestmark = pytest.mark.service

SETTINGS: Final = """
listeners.tcp.default.bind = "127.0.0.1:0"
listeners.tcp.mounted { bind = "127.0.0.1:0", mountpoint = "tenant/" }
dashboard.listeners.http.bind = "127.0.0.1:0"
api_key.bootstrap_file = "FOLDER/api_keys"
durable_storage.messages.topics = ["kept/#"]
durable_sessions.enable = true
diagnose.messages.enable = true
mqtt { max_mqueue_len = 2, max_inflight = 1, max_qos_allowed = 1
  exclusive_subscription = true, mqueue_priorities = { "prio/high" = 9 } }
retainer { max_payload_size = 8B, stop_publish_clear_msg = true }
authorization { no_match = allow, sources = [{ type = file, path = "FOLDER/acl.conf" }] }
schema_validation.validations = [{ name = hot, topics = "checked/#", strategy = all_pass, failure_action = drop
  checks = [{ type = sql, sql = "SELECT * WHERE payload.t > 30" }] }]
rewrite = [{ action = publish, source_topic = "old/#", dest_topic = "new/$1", re = "^old/(.+)$" }]
rule_engine.rules.relay { sql = "SELECT payload FROM \\"relay/#\\""
  actions = [{ function = republish, args = { topic = "relayed", payload = "x", qos = 1 } }] }
"""
ACL: Final = '{deny, all, publish, ["secret/#"]}.\n{deny, all, subscribe, ["private/#"]}.\n'

Row = dict[str, Any]


@dataclass
class Desk:
    """What cases need: a node, its clients, and the questions."""

    node: RunningNode
    data_dir: str
    capsys: pytest.CaptureFixture[str]
    publisher: MqttClient
    api: httpx.AsyncClient

    async def explain(self, *words: str) -> list[Row]:
        """The rows of `ctl message explain`."""
        code = await asyncio.to_thread(
            main, ["ctl", "message", "explain", *words, "--json", "--data-dir", self.data_dir]
        )
        out, said = self.capsys.readouterr()
        assert code == 0, said
        return [json.loads(line) for line in out.splitlines()]

    async def way(self, topic: str, clientid: str = "") -> Row:
        """The way of the oldest message to a topic, and why a client did not get it."""
        oldest = (await self.explain("--topic", topic))[-1]
        return await self.whole(oldest["message_id"], clientid)

    async def whole(self, message_id: str, clientid: str = "") -> Row:
        """The way of a message as ctl tells it; the API says the same."""
        (way,) = await self.explain(message_id, *(["--client", clientid] if clientid else []))
        answer = await self.api.get(f"/heliograph/message_ways/{message_id}", params={"clientid": clientid})
        assert answer.status_code == 200, answer.text
        served: Row = answer.json()
        same = way.keys() & served.keys()
        assert {name: served[name] for name in same} == {name: way[name] for name in same}
        assert {"outcome", "reason", "summary", "asked", "retained", "later", "receivers", "steps"} <= same
        return way

    async def reader(
        self,
        clientid: str,
        topic_filter: str,
        qos: int = 1,
        *,
        session_expiry_interval: int = 0,
        receive_maximum: int = 100,
        maximum_packet_size: int = 1000,
    ) -> MqttClient:
        """A client with a subscription."""
        client = await self.node.connect(
            clientid,
            session_expiry_interval=session_expiry_interval,
            receive_maximum=receive_maximum,
            maximum_packet_size=maximum_packet_size,
        )
        assert await client.subscribe(topic_filter, qos) <= 2
        return client

    async def sleeper(self, clientid: str, topic_filter: str, qos: int = 1) -> None:
        """A durable session that is on the disk only."""
        client = await self.reader(clientid, topic_filter, qos, session_expiry_interval=3600)
        await client.leave()
        await self.fall_asleep(clientid)

    async def fall_asleep(self, clientid: str) -> None:
        """Let a session whose client is away go from memory, as a minute does."""
        session = self.held(clientid)
        await until(session.may_sleep)
        sessions = self.node.node.parts.get(KernelPart).context.sessions
        sessions.let_sleep(session)
        assert sessions.held(clientid) is None

    def held(self, clientid: str) -> DurableSession:
        """A durable session that is in memory."""
        session = self.node.node.parts.get(KernelPart).context.sessions.held(clientid)
        assert isinstance(session, DurableSession)
        return session


Case = Callable[[Desk], Awaitable[tuple[Row, str, str]]]  # the way, the outcome, and what it says of the client
CASES: Final[list[Case]] = []


def case(function: Case) -> Case:
    """One of the cases."""
    CASES.append(function)
    return function


@pytest.fixture
async def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Desk]:
    (tmp_path / "acl.conf").write_text(ACL)
    (tmp_path / "api_keys").write_text(f"{KEY}:{SECRET}\n")
    (tmp_path / "api_keys").chmod(0o600)
    running = RunningNode(tmp_path, SETTINGS.replace("FOLDER", str(tmp_path)))
    said: asyncio.Queue[Row] = asyncio.Queue()
    manage_here(running.node, said.put_nowait, Programs(python))
    async with running as node:
        node.node.begin_management()
        publisher = await node.connect("p", username="ann")
        url = (await asyncio.wait_for(said.get(), WAIT_S))["serving"][0]
        async with httpx.AsyncClient(base_url=f"{url}/api/v5", auth=(KEY, SECRET), timeout=WAIT_S) as api:
            yield Desk(node, str(tmp_path / "data"), capsys, publisher, api)


async def test_every_case_is_told_as_it_was(desk: Desk) -> None:
    wrong = []
    for one in CASES:
        way, outcome, expected = await one(desk)
        told = f"{way['asked']} | {way['summary']} | {way['retained']}"
        if way["outcome"] != outcome or expected not in told:
            wrong.append(f"{one.__name__}: expected {outcome}: {expected}\n    {way['outcome']}: {told}")
    assert not wrong, "\n".join(wrong)


async def test_qos_0_does_not_wait_for_a_session_that_is_away_where_the_settings_say_so(desk: Desk) -> None:
    await desk.sleeper("asleep", "kept/calm/#", 0)
    client = await desk.reader("away", "kept/calm/#", 0, session_expiry_interval=3600)
    await client.leave()
    assert await desk.node.change("mqtt.mqueue_store_qos0 = false")
    await until(lambda: not desk.held("away").options.mqueue_store_qos0)
    await desk.publisher.publish("kept/calm/1", b"x", 1)
    way = await desk.way("kept/calm/1", "asleep")
    assert (way["outcome"], way["reason"]) == ("not_delivered", "qos0_msg")
    assert way["summary"] == "Not delivered: QoS 0 does not wait for asleep, away (mqtt.mqueue_store_qos0)."
    assert way["asked"].startswith("asleep does not get it: QoS 0 does not wait for it (mqtt.mqueue_store_qos0, unless")
    way = await desk.way("kept/calm/1", "away")
    assert way["asked"] == "away does not get it: QoS 0 does not wait for it (mqtt.mqueue_store_qos0)"
    await desk.sleeper("firm", "kept/calm/#", 1)
    await desk.publisher.publish("kept/calm/2", b"x", 1)
    way = await desk.way("kept/calm/2", "asleep")
    assert (way["outcome"], way["asked"].partition(":")[0]) == ("stored", "asleep does not get it")
    assert "it waits in storage for firm, away or behind" in way["summary"]


async def test_messages_are_found_by_outcome_and_reason(desk: Desk) -> None:
    reader = await desk.reader("r", "a")
    await desk.publisher.publish("a", b"x", 1)
    reader.acknowledge(await reader.take(p.Publish))
    await reader.ping()
    await desk.publisher.publish("nobody", b"x", 1)
    await desk.publisher.publish("secret/1", b"x", 1)
    await desk.publisher.publish("kept/nobody", b"x", 1)
    found = await desk.explain("--outcome", "dropped", "--since", "1h")
    assert [row["topic"] for row in found] == ["kept/nobody", "secret/1", "nobody"]
    found = await desk.explain("--outcome", "no_receiver", "--limit", "1")
    assert [row["topic"] for row in found] == ["kept/nobody"]
    found = await desk.explain("--outcome", "refused", "--outcome", "delivered")
    assert [row["topic"] for row in found] == ["secret/1", "a"]
    assert [row["topic"] for row in await desk.explain("--reason", "not_authorized")] == ["secret/1"]
    code = await asyncio.to_thread(
        main, ["ctl", "message", "explain", "--outcome", "lost", "--data-dir", desk.data_dir]
    )
    said = desk.capsys.readouterr().err
    assert code != 0
    assert "outcome: 'lost' is no outcome; delivered, " in said


# --- sessions that are away


@case
async def a_session_on_the_disk_gets_it_when_it_is_back(desk: Desk) -> tuple[Row, str, str]:
    await desk.sleeper("zz", "kept/zz/#")
    await desk.publisher.publish("kept/zz/1", b"x", 1)
    way = await desk.way("kept/zz/1", "zz")
    assert "it waits in storage for zz, away or behind" in way["summary"]
    return way, "stored", "zz gets it when it is back: it waits in storage, and the subscription kept/zz/# matches"


@case
async def a_session_on_the_disk_subscribed_later(desk: Desk) -> tuple[Row, str, str]:
    await desk.publisher.publish("kept/later/1", b"x", 1)
    await desk.sleeper("late", "kept/later/#")
    way = await desk.way("kept/later/1", "late")
    return way, "no_receiver", "its subscription kept/later/# matches, but was made later"


@case
async def a_session_on_the_disk_has_another_subscription(desk: Desk) -> tuple[Row, str, str]:
    await desk.sleeper("elsewhere", "kept/elsewhere/#")
    await desk.publisher.publish("kept/typo/1", b"x", 1)
    way = await desk.way("kept/typo/1", "elsewhere")
    return way, "no_receiver", "it has no subscription that matches kept/typo/1"


@case
async def nobody_subscribes_to_what_is_stored(desk: Desk) -> tuple[Row, str, str]:
    await desk.publisher.publish("kept/nobody/1", b"x", 1)
    way = await desk.way("kept/nobody/1")
    return way, "no_receiver", "neither of a session that was there nor of one that is away"


@case
async def it_expired_while_its_session_slept(desk: Desk) -> tuple[Row, str, str]:
    await desk.sleeper("old", "kept/old/#")
    await desk.publisher.publish("kept/old/1", b"x", 1, message_expiry_interval=0)
    way = await desk.way("kept/old/1", "old")
    return way, "not_delivered", "old does not get it: its expiry interval passed while it waited in storage"


@case
async def a_session_that_is_away_in_memory(desk: Desk) -> tuple[Row, str, str]:
    client = await desk.reader("away", "kept/away/#", session_expiry_interval=3600)
    await client.leave()
    await desk.publisher.publish("kept/away/1", b"x", 1)
    way = await desk.way("kept/away/1", "away")
    return way, "stored", "away gets it when it is back: it waits in storage"


@case
async def it_waits_in_a_queue(desk: Desk) -> tuple[Row, str, str]:
    client = await desk.reader("queued", "queue/#", session_expiry_interval=3600)
    await client.leave()
    await desk.publisher.publish("queue/1", b"x", 1)
    return await desk.way("queue/1", "queued"), "waiting", "queued: waiting: the client is away"


@case
async def qos_0_to_a_session_that_is_away(desk: Desk) -> tuple[Row, str, str]:
    client = await desk.reader("zero", "zero/#", 0, session_expiry_interval=3600)
    await client.leave()
    await desk.publisher.publish("zero/1", b"x", 1)
    return await desk.way("zero/1", "zero"), "waiting", "zero: waiting: the client is away"


@case
async def qos_0_to_a_session_on_the_disk(desk: Desk) -> tuple[Row, str, str]:
    await desk.sleeper("calm", "kept/calm/#", 0)
    await desk.publisher.publish("kept/calm/1", b"x", 1)
    return await desk.way("kept/calm/1", "calm"), "stored", "calm gets it when it is back: it waits in storage"


@case
async def it_is_in_flight(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("busy", "flight/#")
    await desk.publisher.publish("flight/1", b"x", 1)
    way = await desk.way("flight/1", "busy")
    assert way["asked"] == "busy: unacknowledged: it is in flight: sent, and not acknowledged so far"
    return way, "unacknowledged", "Sent, and acknowledged by 0 of 1 receiver: busy: it is in flight"


@case
async def its_session_ended_while_it_was_in_flight(desk: Desk) -> tuple[Row, str, str]:
    client = await desk.reader("hasty", "hasty/#")
    await desk.publisher.publish("hasty/1", b"x", 1)
    await client.leave()
    way = await desk.way("hasty/1", "hasty")
    return way, "unacknowledged", "hasty: it was sent, and its session ended before it was acknowledged"


@case
async def a_clean_start_dropped_what_waited(desk: Desk) -> tuple[Row, str, str]:
    client = await desk.reader("clean", "clean/#", session_expiry_interval=3600)
    await client.leave()
    await desk.publisher.publish("clean/1", b"x", 1)
    await (await desk.node.connect("clean")).ping()
    return await desk.way("clean/1", "clean"), "not_delivered", "its session ended while it waited"


@case
async def its_session_has_ended(desk: Desk) -> tuple[Row, str, str]:
    client = await desk.reader("ended", "ended/#")
    await client.leave()
    await desk.publisher.publish("ended/1", b"x", 1)
    return (
        await desk.way("ended/1", "ended"),
        "no_receiver",
        "ended was not among its receivers, and has no session now",
    )


# --- receivers that do not take it


@case
async def the_queue_is_full(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("full", "full/#")
    for number in range(1, 5):
        await desk.publisher.publish(f"full/{number}", b"x", 1)
    way = await desk.way("full/2", "full")
    return way, "not_delivered", "full: dropped: the message queue is full: 2 of 2 wait, 1 message is unacknowledged"


@case
async def the_receive_maximum_is_used_up(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("slow", "slow/#", receive_maximum=1)
    await desk.publisher.publish("slow/1", b"x", 1)
    await desk.publisher.publish("slow/2", b"x", 1)
    return await desk.way("slow/2", "slow"), "waiting", "1 message is unacknowledged, which is its limit"


@case
async def what_has_a_lower_priority_is_dropped(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("prio", "prio/#")
    for topic in ("prio/first", "prio/low", "prio/low2", "prio/high", "prio/low3"):
        await desk.publisher.publish(topic, b"x", 1)
    return await desk.way("prio/low", "prio"), "not_delivered", "the message queue is full"


@case
async def it_is_too_large_for_its_receiver(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("small", "large", maximum_packet_size=30)
    await desk.publisher.publish("large", b"x" * 100, 1)
    way = await desk.way("large", "small")
    return way, "not_delivered", "small: dropped: it is larger than the packets that the receiver takes"


@case
async def its_publisher_wants_no_own_messages(desk: Desk) -> tuple[Row, str, str]:
    desk.publisher.send(p.Subscribe(900, [p.SubscribeEntry("own", 1, True, False, 0)], properties()))
    await desk.publisher.take(p.Suback)
    await desk.publisher.publish("own", b"x", 1)
    return await desk.way("own", "p"), "no_receiver", "p: dropped: the receiver published it itself"


@case
async def another_member_of_its_group_has_it(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("m1", "$share/g/jobs/#")
    await desk.reader("m2", "$share/g/jobs/#")
    await desk.publisher.publish("jobs/1", b"x", 1)
    way = await desk.way("jobs/1")
    (chosen,) = [one["clientid"] for one in way["receivers"]]
    other = "m2" if chosen == "m1" else "m1"
    return await desk.way("jobs/1", other), "unacknowledged", f"of its group $share/g/jobs/#, {chosen} was chosen"


@case
async def overlapping_filters_send_it_once_or_more(desk: Desk) -> tuple[Row, str, str]:
    reader = await desk.reader("overlap", "over/#")
    await reader.subscribe("over/+", 1)
    await desk.publisher.publish("over/1", b"x", 0)
    return await desk.way("over/1", "overlap"), "delivered", "overlap: sent"


@case
async def a_session_that_was_taken_over_goes_on(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("taken", "over2/#", session_expiry_interval=3600)
    second = await desk.node.connect("taken", clean_start=False, session_expiry_interval=3600)
    await desk.publisher.publish("over2/1", b"x", 1)
    second.acknowledge(await second.take(p.Publish))
    await second.ping()
    return await desk.way("over2/1", "taken"), "delivered", "taken: acknowledged"


@case
async def it_subscribed_after_the_message(desk: Desk) -> tuple[Row, str, str]:
    await desk.publisher.publish("early/1", b"x", 1)
    await desk.reader("after", "early/#")
    return await desk.way("early/1", "after"), "no_receiver", "its subscription early/# matches, but was made later"


@case
async def it_is_subscribed_behind_a_mountpoint(desk: Desk) -> tuple[Row, str, str]:
    client = await desk.node.connect("tenant", listener="tcp:mounted")
    await client.subscribe("mount/#", 1)
    await desk.publisher.publish("mount/1", b"x", 1)
    return await desk.way("mount/1", "tenant"), "no_receiver", "it has no subscription that matches mount/1"


@case
async def it_is_published_behind_a_mountpoint(desk: Desk) -> tuple[Row, str, str]:
    client = await desk.node.connect("tenant2", listener="tcp:mounted")
    await client.subscribe("own/#", 0)
    await client.publish("own/1", b"x", 1)
    return await desk.way("tenant/own/1", "tenant2"), "delivered", "tenant2: sent"


@case
async def it_has_a_topic_alias(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("alias", "aliased/#", 0)
    await desk.publisher.publish("aliased/1", b"x", 1, topic_alias=1)
    return await desk.way("aliased/1", "alias"), "delivered", "alias: sent"


# --- messages that nobody gets


@case
async def its_publisher_may_not(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("spy", "secret/#", 1)
    await desk.publisher.publish("secret/1", b"x", 1)
    way = await desk.way("secret/1", "spy")
    return way, "refused", "spy does not get it, nor does any other client: its publisher may not publish to this topic"


@case
async def a_validation_refused_it(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("val", "checked/#")
    await desk.publisher.publish("checked/1", b'{"t": 20}', 1)
    way = await desk.way("checked/1", "val")
    return way, "refused", "val does not get it, nor does any other client: schema validation: refused by hot"


@case
async def nobody_subscribes(desk: Desk) -> tuple[Row, str, str]:
    await desk.publisher.publish("nobody/1", b"x", 1)
    return await desk.way("nobody/1"), "no_receiver", "no subscription matches its topic"


@case
async def its_publish_broke_a_rule(desk: Desk) -> tuple[Row, str, str]:
    offender = await desk.node.connect("offender")
    offender.send_bytes(b"\x34\x0a\x00\x04room\x00\x01\x00x")  # at QoS 2, which is not allowed
    await offender.until_closed()
    (row,) = await desk.explain("--client", "offender")
    way = await desk.whole(row["message_id"])
    return way, "refused", "PUBLISH at QoS 2; 1 is allowed"


# --- messages that go another way


@case
async def its_topic_was_rewritten(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("before", "old/#")
    await desk.reader("behind", "new/#", 0)
    await desk.publisher.publish("old/1", b"x", 1)
    return await desk.way("new/1", "before"), "delivered", "it has no subscription that matches new/1"


@case
async def a_rule_made_another_message_of_it(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("ruled", "relayed", 0)
    await desk.publisher.publish("relay/1", b"x", 1)
    assert (await desk.way("relayed"))["made_by"] == ["relay"]
    return await desk.way("relay/1", "ruled"), "no_receiver", "it has no subscription that matches relay/1"


@case
async def it_is_delayed(desk: Desk) -> tuple[Row, str, str]:
    await desk.publisher.publish("$delayed/3600/held/1", b"x", 1)
    way = await desk.way("held/1", "p")
    return way, "delayed", "p does not get it, nor does any other client: it is delayed until 2"


@case
async def it_was_delayed_and_is_another_message_since(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("patient", "due/#", 0)
    await desk.publisher.publish("$delayed/0/due/1", b"x", 1)
    held = desk.node.node.parts.get(DelayedPart).messages
    await until(lambda: held.statistics()["delayed.published"])
    later, first = await desk.explain("--topic", "due/1")
    assert later["outcome"] == "delivered"
    way = await desk.whole(first["message_id"])
    assert way["later"] == later["message_id"]
    return way, "delayed", f"and is message {later['message_id']} since then"


@case
async def a_delayed_message_of_a_banned_client(desk: Desk) -> tuple[Row, str, str]:
    sinner = await desk.node.connect("sinner")
    desk.node.bans.add(Ban("clientid", "sinner"))
    await sinner.publish("$delayed/0/sin/1", b"x", 1)
    held = desk.node.node.parts.get(DelayedPart).messages
    await until(lambda: held.statistics()["delayed.dropped.banned"])
    return await desk.way("sin/1"), "refused", "and is not published: its client is banned"


@case
async def it_is_a_will(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("heir", "will/#", 0)
    will = p.Will("will/1", b"x", 1, False, properties())
    dying = await desk.node.connect("dying", will=will)
    await dying.leave()
    return await desk.way("will/1", "heir"), "delivered", "heir: sent"


# --- what is retained


@case
async def it_is_retained(desk: Desk) -> tuple[Row, str, str]:
    await desk.publisher.publish("state/1", b"x", 1, retain=True)
    return await desk.way("state/1"), "kept", "it is the retained message of its topic now"


@case
async def it_is_too_large_to_be_retained(desk: Desk) -> tuple[Row, str, str]:
    await desk.publisher.publish("state/2", b"x" * 9, 1, retain=True)
    way = await desk.way("state/2")
    assert [step["text"] for step in way["steps"] if step["stage"] == "store"] == [way["retained"]]
    return way, "no_receiver", "it is not retained: its payload is larger than retainer.max_payload_size"


@case
async def another_message_is_retained_now(desk: Desk) -> tuple[Row, str, str]:
    await desk.publisher.publish("state/3", b"x", 1, retain=True)
    await desk.publisher.publish("state/3", b"y", 1, retain=True)
    return await desk.way("state/3"), "kept", "has taken its place as the retained message of its topic"


@case
async def it_cleared_what_was_retained(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("clearing", "state/4")
    await desk.publisher.publish("state/4", b"", 1, retain=True)
    return (
        await desk.way("state/4", "clearing"),
        "kept",
        "clearing does not get it, nor does any other client: it cleared",
    )


@case
async def a_subscription_that_wants_nothing_retained(desk: Desk) -> tuple[Row, str, str]:
    await desk.publisher.publish("state/5", b"x", 1, retain=True)
    client = await desk.node.connect("never")
    client.send(p.Subscribe(1, [p.SubscribeEntry("state/5", 1, False, False, 2)], properties()))
    await client.take(p.Suback)
    return await desk.way("state/5", "never"), "kept", "its subscription state/5 matches, but was made later"


# --- what a page shows as well


@case
async def authorization_allowed_it(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("allowed", "allowed/1", 0)
    await desk.publisher.publish("allowed/1", b"x", 1)
    way = await desk.way("allowed/1")
    assert [step["text"] for step in way["steps"] if step["stage"] == "access"] == ["access: allowed"]
    return way, "delivered", "Delivered to 1 receiver"


@case
async def a_subscription_was_refused(desk: Desk) -> tuple[Row, str, str]:
    client = await desk.node.connect("denied")
    assert await client.subscribe("private/#", 1) == rc.NOT_AUTHORIZED
    await desk.publisher.publish("private/1", b"x", 1)
    return (
        await desk.way("private/1", "denied"),
        "no_receiver",
        "matches private/1: its SUBSCRIBE to 'private/#' was refused, at 2",
    )


@case
async def its_exclusive_subscription_is_taken(desk: Desk) -> tuple[Row, str, str]:
    await desk.reader("first", "$exclusive/door/1", 0)
    second = await desk.node.connect("second")
    assert await second.subscribe("$exclusive/door/1", 1) == rc.QUOTA_EXCEEDED
    assert await second.subscribe("$exclusive/door/1", 1) == rc.QUOTA_EXCEEDED
    await desk.publisher.publish("door/1", b"x", 1)
    way = await desk.way("door/1", "second")
    assert way["asked"].endswith(": exclusive_taken")
    return way, "delivered", "its SUBSCRIBE to '$exclusive/door/1' was refused 2 times, last at 2"


@case
async def its_client_is_banned(desk: Desk) -> tuple[Row, str, str]:
    desk.node.bans.add(Ban("clientid", "thief", "stole a lamp", "ann"))
    assert await desk.node.connack("thief") == rc.BANNED
    await desk.publisher.publish("stolen/1", b"x", 1)
    way = await desk.way("stolen/1", "thief")
    assert "was refused, at 2" in way["asked"]
    return way, "no_receiver", "has no session now: it is banned as clientid 'thief' since 1970-01-01T00:00:00Z by ann"


async def test_what_keeps_a_client_out_is_said_where_one_looks(desk: Desk) -> None:
    desk.node.bans.add(Ban("clientid", "thief", "stole a lamp", "ann"))
    assert await desk.node.connack("thief", "bob") == rc.BANNED
    await desk.node.connack("thief", "bob")
    expected = "it is banned as clientid 'thief' since 1970-01-01T00:00:00Z by ann (stole a lamp)"
    for words in (("clients", "show", "thief"), ("authz", "explain", "thief", "publish", "a")):
        assert await asyncio.to_thread(main, ["ctl", *words, "--data-dir", desk.data_dir]) != 0
        said = desk.capsys.readouterr().err
        assert expected in said
        assert "its CONNECT as user 'bob' from 127.0.0.1 was refused 2 times, last at 2" in said
    client = await desk.node.connect("denied")
    assert await client.subscribe("private/#", 1) == rc.NOT_AUTHORIZED
    assert await asyncio.to_thread(main, ["ctl", "clients", "show", "denied", "--data-dir", desk.data_dir]) == 0
    assert "its SUBSCRIBE to 'private/#' was refused, at 2" in desk.capsys.readouterr().out

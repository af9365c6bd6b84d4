"""Parts behind the kernel change while the node runs, and clients see it: retainer, delayed, storage, events, rules."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow.flight as flight
import pytest

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.kernel import KernelPart
from heliograph.node.pipeline import PipelinePart
from heliograph.node.reader import ReaderPart
from support.certificates import Authority
from support.packets import say
from support.running import MqttClient, RunningNode
from support.waiting import wait_until

OPEN = 'listeners.tcp.default.bind = "127.0.0.1:0"\ndurable_storage { messages.topics = [], flight.enable = false }\n'

pytestmark = pytest.mark.service

RETAINER_OFF = "retainer.enable = false\n"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningNode]:
    """A node that keeps nothing but what a test switches on."""
    rules = tmp_path / "acl.conf"
    rules.write_text('{allow, {client, "watcher"}, subscribe, ["$events/#", "$SYS/#"]}.')
    sources = f'authorization.sources = [{{ type = file, path = "{rules}" }}]\n'
    async with RunningNode(tmp_path, OPEN + sources, RETAINER_OFF) as running:
        yield running


async def said(client: MqttClient) -> str:
    """The next message, as people read it."""
    return say(await client.take(p.Publish))


async def test_the_retainer_comes_and_goes_and_its_limits_change(running: RunningNode) -> None:
    client = await running.connect("c")
    await client.publish("r/1", b"before", 1, retain=True)
    assert await running.change("")  # on the disk: the databases are opened now
    await client.publish("r/2", b"kept", 1, retain=True)
    assert running.node.statistics()["retained.count"] == 1
    assert await client.subscribe("r/#", 1) == 1
    assert await said(client) == "PUBLISH r/2 'kept' q1 #1 retain"
    assert await running.change("retainer.max_payload_size = 1\nretainer.backend.max_retained_messages = 1\n")
    other = await running.connect("d")
    await other.publish("s/1", b"xx", 1, retain=True)  # too large
    await other.publish("s/2", b"x", 1, retain=True)  # one too many
    assert await other.subscribe("s/#", 1) == 1
    assert await running.change(RETAINER_OFF)
    third = await running.connect("e")
    assert await third.subscribe("r/#", 1) == 1
    assert await running.change("")
    fourth = await running.connect("f")
    assert await fourth.subscribe("r/#", 1) == 1
    assert await said(fourth) == "PUBLISH r/2 'kept' q1 #1 retain"  # what there was is found again
    assert await third.payloads() == await other.payloads() == []


async def test_delayed_messages_come_and_go_and_are_limited(running: RunningNode) -> None:
    client = await running.connect("c")
    assert await running.change("delayed.max_delayed_messages = 1\n")
    assert await client.publish("$delayed/3600/t", b"", 1) != rc.QUOTA_EXCEEDED
    assert await client.publish("$delayed/3600/t", b"", 1) == rc.QUOTA_EXCEEDED
    assert await running.change("delayed.max_delayed_messages = 2\n")
    assert await client.publish("$delayed/3600/t", b"", 1) != rc.QUOTA_EXCEEDED
    assert await running.change("delayed.max_delayed_bytes = 1024\n")
    assert await client.publish("$delayed/3600/t", b"", 1) == rc.QUOTA_EXCEEDED
    assert await running.change("delayed.enable = false\n")
    other = await running.connect("d")
    assert await other.subscribe("$delayed/#", 1) == 1
    assert await client.publish("$delayed/3600/t", b"", 1) == rc.SUCCESS  # a topic like any other
    assert running.node.statistics()["delayed.count"] == 2


async def test_events_begin_and_end_also_for_clients_that_were_connected(running: RunningNode) -> None:
    client = await running.connect("watcher")
    assert await client.subscribe("$events/#", 1) == 1
    assert await client.subscribe("$SYS/brokers/+/clients/#", 1) == 1
    settings = "event_message.message_dropped = true\nsys_topics.sys_event_messages.client_subscribed = true\n"
    assert await running.change(settings)
    other = await running.connect("e")
    assert "clients/e/connected" in await said(client)
    assert await other.publish("nobody", b"", 1) == rc.NO_MATCHING_SUBSCRIBERS
    assert "$events/message_dropped" in await said(client)
    assert await client.subscribe("more", 1) == 1
    assert "clients/watcher/subscribed" in await said(client)
    assert await running.change("")
    assert await other.publish("nobody", b"", 1) == rc.NO_MATCHING_SUBSCRIBERS
    assert await other.publish("more", b"next", 1) == rc.SUCCESS
    assert "PUBLISH more 'next'" in await said(client)


async def test_topics_are_stored_and_databases_come_and_go(running: RunningNode) -> None:
    client = await running.connect("c")
    await client.publish("a/1", b"", 1)
    stored = 'durable_storage.messages { topics = ["a/#"], retention = 1d }\n'
    more = 'durable_storage.databases.long { topics = ["a/#", "b/#"], retention = infinity }\n'
    assert await running.change(stored)
    await client.publish("a/1", b"", 1)
    await client.publish("b/1", b"", 1)
    assert running.node.statistics()["storage.messages"] == 1
    assert await running.change(stored + more)
    await client.publish("a/1", b"", 1)
    await client.publish("b/1", b"", 1)
    numbers = running.node.statistics()
    assert (numbers["storage.messages"], numbers["storage.long.messages"]) == (2, 2)
    assert await running.change(stored + more.replace("b/#", "c/#") + "durable_storage.messages.fsync = false\n")
    await client.publish("b/1", b"", 1)
    await client.publish("c/1", b"", 1)
    numbers = running.node.statistics()
    assert (numbers["storage.messages"], numbers["storage.long.messages"]) == (2, 3)
    assert await running.change("durable_storage.messages.topics = []\n")  # `long` is closed in the background
    await client.publish("a/1", b"", 1)
    assert await running.change(stored + more)  # and opened again when it is
    await client.publish("b/1", b"", 1)
    numbers = running.node.statistics()
    assert (numbers["storage.messages"], numbers["storage.long.messages"]) == (2, 1)


async def test_a_database_that_cannot_be_opened_refuses_the_change(
    running: RunningNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await running.change('durable_storage.messages.topics = ["a"]\n')
    (tmp_path / "data" / "storage" / "broken").write_text("no directory")
    assert not await running.change('durable_storage { messages.topics = ["b"], databases.broken.topics = ["c"] }\n')
    client = await running.connect("c")
    await client.publish("a", b"", 1)
    await client.publish("b", b"", 1)
    assert running.node.statistics()["storage.messages"] == 1
    assert running.node.parts.health() == {}
    # What was opened beside it is gone again, but what was on the disk before stays.
    stored = tmp_path / "data" / "storage"
    assert await running.change('durable_storage { messages.topics = ["a"], databases.there.topics = ["c"] }\n')
    await client.publish("c", b"", 1)
    assert await running.change('durable_storage.messages.topics = ["a"]\n')
    names = "fine", "there", "broken"
    more = ", ".join(f'databases.{name}.topics = ["c"]' for name in names)
    assert not await running.change(f'durable_storage {{ messages.topics = ["a"], {more} }}\n')
    await asyncio.to_thread(wait_until, lambda: not (stored / "fine").exists(), "what was made is removed")
    assert await running.change('durable_storage { messages.topics = ["a"], databases.there.topics = ["c"] }\n')
    assert running.node.statistics()["storage.there.messages"] == 0  # since it was opened
    assert (stored / "there").is_dir()


async def test_clients_that_are_away_miss_nothing_when_stored_topics_change(tmp_path: Path) -> None:
    always = OPEN + 'durable_storage.messages.topics = ["a/#", "b/#"]\n'

    async def leave(running: RunningNode, clientid: str) -> None:
        client = await running.connect(clientid, clean_start=False, session_expiry_interval=3600)
        assert await client.subscribe("b/#", 1) == 1
        await client.leave()

    async with RunningNode(tmp_path, always) as running:
        await leave(running, "asleep")
    async with RunningNode(tmp_path, always) as running:  # whose session lies on the disk only now
        await leave(running, "away")
        publisher = await running.connect("p")
        for topics in ("a/#", "b/#", "c/#"):
            await publisher.publish("b/1", f"before {topics}".encode(), 1)
            assert await running.change(f'durable_storage.messages.topics = ["{topics}"]')
            await publisher.publish("b/1", f"after {topics}".encode(), 1)
        for clientid in ("asleep", "away"):
            client = await running.connect(clientid, clean_start=False, session_expiry_interval=3600)
            payloads = {(await client.take(p.Publish)).payload.decode() for _ in range(6)}
            assert payloads == {f"{when} {topics}" for topics in ("a/#", "b/#", "c/#") for when in ("before", "after")}
            assert await client.payloads() == []


async def test_options_of_sessions_and_groups_change(tmp_path: Path) -> None:
    settings = "durable_sessions { batch_size = 1, checkpoint_interval = 1h }\n"
    settings += "durable_shared_groups { checkpoint_interval = 1h, stall_timeout = 1s, revoke_timeout = 1s }\n"
    settings += "durable_storage { sessions.fsync = false, shared_groups.fsync = false }\n"
    async with RunningNode(tmp_path, OPEN + 'durable_storage.messages.topics = ["#"]\n') as running:
        assert await running.change(settings)
        client = await running.connect("c", clean_start=False, session_expiry_interval=3600)
        assert await client.subscribe("t", 1) == 1
        await client.leave()
        publisher = await running.connect("p")
        for number in range(3):
            await publisher.publish("t", str(number).encode(), 1)
        client = await running.connect("c", clean_start=False, session_expiry_interval=3600)
        assert [(await client.take(p.Publish)).payload for _ in range(3)] == [b"0", b"1", b"2"]


def place(running: RunningNode) -> str:
    """Where the storage reader serves; empty where there is none."""
    return running.node.ready_line().partition("flight grpc://")[2].partition(",")[0]


async def until_read(bind: str, token: str = "") -> None:
    """Wait until the storage reader answers to a token; the process that takes the place of another cannot say when."""
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    ask = flight.Action("get_streams", json.dumps({"database": "messages", "topics": ["#"]}).encode())

    def answers() -> bool:
        with flight.FlightClient(f"grpc://{bind}") as client:
            try:
                return len(list(client.do_action(ask, flight.FlightCallOptions(headers=headers, timeout=20)))) == 1
            except flight.FlightError:
                return False

    await asyncio.to_thread(wait_until, answers, f"the reader answers to {token or 'all'}")


async def test_the_storage_reader_comes_moves_and_goes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def reader(settings: str) -> str:
        return f'durable_storage.flight {{ enable = true, bind = "127.0.0.1:0", {settings} }}\n'

    token = tmp_path / "token"
    token.write_text("a" * 20)
    with_file = reader(f'tokens = [{{ token = "file://{token}" }}]')
    async with RunningNode(tmp_path, OPEN + 'durable_storage.messages.topics = ["#"]\n') as running:
        assert place(running) == ""
        assert await running.change(reader("require_token = false"))
        first = place(running)
        await until_read(first)
        assert await running.change(with_file)
        assert place(running) == first
        await until_read(first, "a" * 20)
        token.write_text("b" * 20)
        assert await running.change(with_file)  # the file changed, no setting did
        await until_read(first, "b" * 20)
        token.write_text("short")
        assert not await running.change(with_file)
        assert "it holds 5 characters" in "\n".join(caplog.messages)
        await until_read(first, "b" * 20)
        assert await running.change()
        assert place(running) == ""


async def test_the_alarm_of_a_storage_reader_ends_with_it(tmp_path: Path) -> None:
    settings = 'durable_storage.flight { enable = true, bind = "127.0.0.1:0" }\n'
    async with RunningNode(tmp_path, OPEN, settings) as running:
        reader, alarms = running.node.parts.get(ReaderPart), running.node.parts.get(KernelPart).alarms
        assert reader.pid is not None
        os.kill(reader.pid, signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: any(one.name == "storage_reader_down" for one in alarms.active()))
        assert await running.change()
        await asyncio.to_thread(wait_until, lambda: alarms.active() == [], "the alarm ends")


async def test_the_alarm_of_an_offload_that_is_refused_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "cold").write_text("in the way")
    offload = f'offload {{ enable = true, after = 0s, target = "{tmp_path / "cold"}" }}'
    stored = 'durable_storage.messages { topics = ["#"], generation_interval = 1s }\n'
    always = 'listeners.tcp.default.bind = "127.0.0.1:0"\ndurable_storage.flight.enable = false\n' + stored
    async with RunningNode(tmp_path, always, f"durable_storage.messages.{offload}\n") as running:
        alarms = running.node.parts.get(KernelPart).alarms
        await (await running.connect("c")).publish("t", b"one", 1)
        await asyncio.to_thread(wait_until, lambda: [one.name for one in alarms.active()] == ["storage_cannot_offload"])
        assert await running.change()
        assert alarms.active() == []


RULE = """
rule_engine { rules.one { sql = "SELECT jq('. + 1', payload) as r FROM \\"in\\"", actions = [
  { function = republish, args { topic = "out", payload = "${r}" } }] } }
schema_registry.schemas.s { type = json, source = "SOURCE" }
"""


async def test_what_waits_for_a_rule_outlives_a_change_of_schemas(tmp_path: Path) -> None:
    before = OPEN + RETAINER_OFF + RULE.replace("SOURCE", "{}")
    async with RunningNode(tmp_path, "", before) as running:
        client, publisher = await running.connect("c"), await running.connect("p")
        assert await client.subscribe("out", 1) == 1
        for number in range(50):
            await publisher.publish("in", str(number).encode())
        await publisher.ping()
        assert await running.change(before.replace('"{}"', '"true"') + "rule_engine.blocking_threads = 1\n")
        found = [(await client.take(p.Publish)).payload for _ in range(50)]
        assert found == [f"[{number + 1}]".encode() for number in range(50)]
        assert running.node.statistics()["rules.failed"] == 0
        for number in range(50):
            await publisher.publish("in", str(number).encode())
        await publisher.ping()
        assert await running.change(before.replace(". + 1", ". + 2"))  # another rule: what waits for this one is lost
        await publisher.publish("in", b"100")
        while (await client.take(p.Publish)).payload != b"[102]":
            pass
        numbers = running.node.statistics()
        assert numbers["rules.one.failed.out_of_service"] + numbers["rules.one.passed"] == 101


async def test_a_pipeline_whose_file_is_not_valid_refuses_the_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("pyspark")
    file = tmp_path / "pipeline.conf"
    file.write_text("rules.one { nonsense = 1 }")
    always = (
        'listeners.tcp.default.bind = "127.0.0.1:0"\ndurable_storage.flight { enable = true, bind = "127.0.0.1:0" }\n'
    )
    async with RunningNode(tmp_path, always) as running:
        assert not await running.change(f'pipeline {{ enable = true, file = "{file}" }}\n')
        assert "nothing is applied [pipeline_refused]: the pipeline: " in "\n".join(caplog.messages)
        assert "nonsense" in "\n".join(caplog.messages)


@pytest.mark.slow
async def test_the_pipeline_comes_changes_and_goes(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    file = tmp_path / "pipeline.conf"
    file.write_text('rules.obs { sql = "SELECT payload.n AS n FROM \\"a/#\\"", sink { type = parquet, path = obs } }')
    settings = f'pipeline {{ enable = true, file = "{file}", master = "local[1]", trigger = TRIGGER }}\n'
    always = (
        'listeners.tcp.default.bind = "127.0.0.1:0"\ndurable_storage.flight { enable = true, bind = "127.0.0.1:0" }\n'
    )
    async with RunningNode(tmp_path, always) as running:
        part = running.node.parts.get(PipelinePart)

        async def pid_but(other: int | None) -> int | None:
            """The driver that runs, when it is another one than that."""
            process = part.process
            await asyncio.to_thread(wait_until, lambda: process is None or process.pid not in (None, other))
            return None if process is None else process.pid

        assert part.process is None
        assert await running.change(settings.replace("TRIGGER", "1s"))
        first = await pid_but(None)
        assert await running.change(settings.replace("TRIGGER", "1s") + "mqtt.max_inflight = 9\n")
        assert await pid_but(None) == first  # nothing of the pipeline has changed
        assert await running.change(settings.replace("TRIGGER", "2s"))
        second = await pid_but(first)
        assert second not in (None, first)
        assert await running.change()
        assert part.process is None


async def test_the_storage_reader_shows_a_certificate_that_was_renewed(tmp_path: Path) -> None:
    certificate = Authority(tmp_path).server()
    tls = f'tls {{ enable = true, certfile = "{certificate}" }}'
    settings = f'durable_storage.flight {{ enable = true, bind = "127.0.0.1:0", require_token = false, {tls} }}\n'
    async with RunningNode(tmp_path, OPEN, settings) as running:
        reader = running.node.parts.get(ReaderPart)
        before, bind = reader.pid, reader.bind
        assert await running.change(settings)
        assert reader.pid == before
        certificate.write_bytes(Authority(tmp_path).server().read_bytes())
        assert await running.change(settings)
        await asyncio.to_thread(wait_until, lambda: reader.pid not in (None, before))
        assert reader.bind == bind
        certificate.write_text("nonsense")
        assert not await running.change(settings)
        assert reader.pid not in (None, before)

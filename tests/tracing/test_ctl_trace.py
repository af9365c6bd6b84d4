"""`heliograph ctl trace` against a node with real clients: why a message did not arrive, as a person sees it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from heliograph.cli.main import main
from heliograph.config.loading import load_config
from heliograph.node import Node

SETTINGS = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage { messages.topics = ["kept/#"], flight.enable = false }
durable_sessions.enable = true
schema_validation.validations = [{ name = hot, topics = "checked/#", strategy = all_pass, failure_action = drop
  checks = [{ type = sql, sql = "SELECT * WHERE payload.t > 30" }] }]
"""

Ctl = Callable[..., Awaitable[tuple[int, str, str]]]
pytestmark = pytest.mark.service


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    file = tmp_path / "node.conf"
    file.write_text(SETTINGS)
    node = Node(load_config(file, {}, {"node.data_dir": str(tmp_path / "data")}))
    await node.start()
    yield node
    await node.stop()


@pytest.fixture
def ctl(node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ctl:
    async def run(*words: str) -> tuple[int, str, str]:
        try:
            code = await asyncio.to_thread(main, ["ctl", "trace", *words, "--data-dir", str(tmp_path / "data")])
        except SystemExit as error:  # argparse
            code = int(str(error.code))
        return code, *capsys.readouterr()

    return run


def client(node: Node, clientid: str, expiry_s: int = 0, *, clean: bool = True) -> aiomqtt.Client:
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has no types here
    properties.SessionExpiryInterval = expiry_s
    port = int(node.ready_line().partition("tcp://127.0.0.1:")[2].partition(",")[0])
    return aiomqtt.Client(
        "127.0.0.1",
        port,
        identifier=clientid,
        protocol=aiomqtt.ProtocolVersion.V5,
        clean_start=clean,
        properties=properties,
        username="someone",
        password="never to be seen",
    )


async def test_the_whole_way_of_messages_in_words(node: Node, ctl: Ctl, tmp_path: Path) -> None:
    async with client(node, "durable", 3600) as durable:
        await durable.subscribe("kept/#", 1)
    code, out, _ = await ctl("start", "why", "topic", "#", "--payload", "text")
    assert code == 0
    assert "trace/why.jsonl" in out
    assert (await ctl("start", "who", "client", "p", "who.log", "--json"))[0] == 0
    async with client(node, "p") as publisher, client(node, "other") as other:
        await other.subscribe("$share/g/checked/#", 1)
        await publisher.publish("nobody", b"listens", 1)
        await publisher.publish("checked/a", b'{"t": 20}', 1)
        await publisher.publish("checked/a", b'{"t": 31}', 1)
        await publisher.publish("$delayed/3600/checked/later", b"x", 1)
        await publisher.publish("kept/1", b"stays", 1)
        async with client(node, "durable", 3600, clean=False) as durable:
            message = await anext(aiter(durable.messages))
            assert message.payload == b"stays"
    code, out, _ = await ctl("stop", "why")
    assert (code, "stopped" in out) == (0, True)
    code, out, _ = await ctl("show", "why")
    assert code == 0
    for said in (
        "message dropped     #",
        "reason=no_subscribers topic=nobody (no subscription matches its topic)",
        "hook=message.publish callback='schema validation' verdict=stop says=refused reason=schema_validation_failed",
        "payload='{\"t\": 31}'",
        "to=other sent topic=checked/a filter=checked/# qos=1 group=g",
        "hook=message.publish callback='delayed publishing' verdict=stop",
        "topic=kept/1 filters=[] ticket=",
        "committed           #",
        "to=durable sent topic=kept/1 filter=kept/#",
        "acknowledged        #",
        "trace ended",
    ):
        assert said in out, out
    code, out, _ = await ctl("list", "--json")
    rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
    assert (rows["why"]["state"], rows["who"]["state"], rows["who"]["about"]) == ("stopped", "running", "client")
    assert rows["who"]["file"].endswith("trace/who.log")
    code, out, _ = await ctl("show", "who", "--json")
    records = [json.loads(line) for line in out.splitlines()]
    connect = next(one for one in records if one.get("packet") == "CONNECT")
    assert (connect["client"], connect["username"], connect["password"]) == ("p", "someone", "******")
    assert "never to be seen" not in out
    assert {one["client"] for one in records if "client" in one} == {"p"}
    assert (await ctl("delete", "why"))[:2] == (0, "trace why is deleted\n")
    assert not (tmp_path / "data/trace/why.jsonl").exists()


async def test_following_ends_with_the_trace(ctl: Ctl) -> None:
    code, out, _ = await ctl("start", "f", "client", "c", "--follow", "--duration", "1s")
    assert code == 0
    assert "its duration is over" in out


async def test_the_node_ends_its_traces_and_files_stay(node: Node, ctl: Ctl, tmp_path: Path) -> None:
    await ctl("start", "t", "topic", "a")
    await node.stop()
    (line,) = [line for line in (tmp_path / "data/trace/t.jsonl").read_text().splitlines() if "trace_ended" in line]
    assert json.loads(line)["why"] == "the node stops"


async def test_a_wrong_argument_is_told_with_what_is_valid(ctl: Ctl) -> None:
    for words, code, said in (
        (("start", "x", "topic", "a/#/b"), 1, "[trace] 'a/#/b' is no topic filter"),
        (("start", "x", "ip_address", "localhost"), 1, "192.0.2.0/24"),
        (("start", "x", "ruleid", "r"), 2, "invalid choice: 'ruleid'"),
        (("start", "x", "client", "c", "--duration", "ten"), 2, "expected one such as 30s, 10m or 1h"),
        (("start", "x", "client", "c", "--max-size", "1"), 2, "expected one such as 500KB or 16MB"),
        (("start", "x", "client", "c", "../file"), 1, "'../file' is no file of a trace"),
        (("stop", "x"), 1, "[trace_not_found] no trace 'x' is on; on are: none"),
        (("show", "x"), 1, "[trace_not_found] there is no trace 'x'"),
        (("delete", "x"), 1, "trace list"),
    ):
        got, _, err = await ctl(*words)
        assert (got, said in err) == (code, True), err

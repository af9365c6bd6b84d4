"""`heliograph ctl` about clients, as a user types it, against a node with real clients."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.config.loading import load_config
from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from heliograph.node import Node
from support.packets import decode_all, properties

SETTINGS = (
    'listeners.tcp.default.bind = "127.0.0.1:0"\ndurable_storage { messages.topics = [], flight.enable = false }\n'
    "mqtt.exclusive_subscription = true\n"
)


class World:
    """A node, its clients, and the command."""

    def __init__(self, node: Node, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._port = int(node.ready_line().rpartition(":")[2])
        self._data = data
        self._capsys = capsys
        self._clients: list[Client] = []

    async def ctl(self, *words: str, code: int = 0) -> str:
        """What a command prints; to stderr if it fails."""
        found = await asyncio.to_thread(main, ["ctl", *words, "--data-dir", str(self._data)])
        out, err = self._capsys.readouterr()
        assert found == code, out + err
        return out if code == 0 else err

    async def rows(self, *words: str) -> list[dict[str, object]]:
        """The rows of a list."""
        return [json.loads(line) for line in (await self.ctl(*words, "--json")).splitlines()]

    async def connect(self, clientid: str, username: str | None = None, expiry_s: int = 600) -> "Client":
        """A client that is connected."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self._port))
        options = properties(session_expiry_interval=expiry_s)
        client.send(p.Connect(p.V5, clientid, True, 0, None, username, None, options))
        self._clients.append(client)
        assert isinstance(await client.next(), p.Connack)
        return client

    async def close(self) -> None:
        """Close the connections of all clients."""
        for client in self._clients:
            await client.close()


class Client:
    """A client of MQTT 5."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._heard: list[p.Packet] = []

    def send(self, packet: p.Packet) -> None:
        """Send a packet."""
        self._writer.write(encode_packet(packet, p.V5))

    async def next(self) -> p.Packet:
        """The next packet that it hears."""
        while not self._heard:
            data = await self._reader.read(65536)
            assert data, "the connection has ended"
            self._heard += decode_all(data, p.V5)
        return self._heard.pop(0)

    async def subscribe(self, topic_filter: str, qos: int = 1) -> None:
        """Subscribe to a filter."""
        self.send(p.Subscribe(1, [p.SubscribeEntry(topic_filter, qos, False, False, 0)], properties()))
        packet = await self.next()
        assert isinstance(packet, p.Suback)
        assert packet.codes == [qos]

    async def close(self) -> None:
        """Close the connection, without a word."""
        self._writer.close()
        await self._writer.wait_closed()


@pytest.fixture
async def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[World]:
    file = tmp_path / "node.conf"
    file.write_text(SETTINGS)
    node = Node(load_config(file, {}, {"node.data_dir": str(tmp_path / "data")}))
    await node.start()
    world = World(node, tmp_path / "data", capsys)
    yield world
    await world.close()
    await node.stop()


async def test_clients_are_listed_shown_and_kicked(world: World) -> None:
    one = await world.connect("sensor-1", "ann")
    await world.connect("sensor-2", "bob")
    await (await world.connect("away-1")).close()
    await one.subscribe("t/#")
    table = (await world.ctl("clients", "list", "--sort", "clientid")).splitlines()
    assert [line.split()[0] for line in table] == ["CLIENTID", "away-1", "sensor-1", "sensor-2"]
    rows = await world.rows("clients", "list", "--connected", "--sort", "subscriptions_cnt", "--limit", "1")
    assert [(row["clientid"], row["subscriptions_cnt"], row["durable"]) for row in rows] == [("sensor-1", 1, False)]
    assert [row["clientid"] for row in await world.rows("clients", "list", "--away")] == ["away-1"]
    assert (await world.ctl("clients", "list", "--username", "bob", "--columns", "clientid,port")).split()[
        2
    ] == "sensor-2"
    assert "there is no column 'colour'" in await world.ctl("clients", "list", "--columns", "colour", code=2)
    assert "--min-queue is -1; 0 or more is valid" in await world.ctl("clients", "list", "--min-queue", "-1", code=2)
    shown = await world.ctl("clients", "show", "sensor-1")
    assert "mqueue_max" in shown.replace(" ", "_")
    assert json.loads(await world.ctl("clients", "show", "sensor-1", "--json"))["username"] == "ann"
    assert "[not_found] no client has the id 'nobody'" in await world.ctl("clients", "show", "nobody", code=1)
    assert "connection and session have ended" in await world.ctl("clients", "kick", "sensor-1")
    packet = await one.next()
    assert isinstance(packet, p.Disconnect)
    assert packet.code == 0x98
    assert "session has ended" in await world.ctl("clients", "kick", "away-1")
    assert [row["clientid"] for row in await world.rows("clients", "list")] == ["sensor-2"]
    assert "no client has the id" in await world.ctl("clients", "kick", "away-1", code=1)


async def test_subscriptions_topics_and_exclusive_topics(world: World) -> None:
    one = await world.connect("one")
    await one.subscribe("t/+")
    await one.subscribe("$exclusive/door")
    assert "subscribed to u/# at QoS 1" in await world.ctl("subscriptions", "add", "one", "u/#", "1")
    rows = await world.rows("subscriptions", "list", "--matches", "t/1")
    assert [(row["clientid"], row["topic"], row["qos"]) for row in rows] == [("one", "t/+", 1)]
    rows = await world.rows("subscriptions", "list", "--match-topic", "u/#", "--qos", "1")
    assert [(row["clientid"], row["topic"]) for row in rows] == [("one", "u/#")]
    shown = await world.ctl("subscriptions", "show", "one")
    assert [line.split()[1] for line in shown.splitlines()] == ["TOPIC", "t/+", "$exclusive/door", "u/#"]
    too_deep = "/".join("a" * 200)
    assert "[subscription_refused]" in await world.ctl("subscriptions", "add", "one", too_deep, "0", code=1)
    assert "not subscribed to u/# any more" in await world.ctl("subscriptions", "del", "one", "u/#")
    assert {row["topic"] for row in await world.rows("topics", "list")} == {"t/+", "door"}
    assert (await world.ctl("topics", "show", "t/1")).splitlines()[1].split()[:2] == ["t/+", "1"]
    assert await world.rows("exclusive", "list") == [{"topic": "door", "clientid": "one"}]
    assert "door is free" in await world.ctl("exclusive", "delete", "door")
    assert "[not_found]" in await world.ctl("exclusive", "delete", "door", code=1)


async def test_what_is_no_topic_address_or_text_is_told(world: World) -> None:
    await world.connect("one")
    for words, told in (
        (("subscriptions", "add", "one", "a/#/b", "0"), "'a/#/b' is no topic filter: '#' must stand alone and last"),
        (("subscriptions", "add", "one", "a" * 65_536, "0"), "65,536 bytes; at most 65,535 are valid"),
        (("subscriptions", "list", "--topic", "$share/+/a"), "the group '+' holds a wildcard"),
        (("subscriptions", "list", "--matches", "a/+"), "the topic name 'a/+' holds a wildcard"),
        (("topics", "show", ""), "the topic name is empty"),
        (("topics", "show", "a+"), "'+' must stand alone"),
        (("clients", "list", "--ip", "local"), "'local' is no IP address; valid is one such as 192.0.2.7"),
        (("clients", "show", "a\udcff"), r"'a\udcff' is not valid UTF-8"),
    ):
        said = await world.ctl(*words, code=1)
        assert said.startswith("heliograph: [bad_arguments] ")
        assert told in said
    assert "KIND:NAME" in await world.ctl("clients", "list", "--listener", "default", code=2)


async def test_bans(world: World) -> None:
    one = await world.connect("one")
    assert "clientid one is banned for ever; it was kicked" in await world.ctl("banned", "add", "clientid", "one")
    assert isinstance(await one.next(), p.Disconnect)
    made = await world.ctl(
        "banned", "add", "peerhost_net", "198.51.100.0/24", "--until", "2100-01-01", "--reason", "rude"
    )
    assert "until 2100-01-01T00:00:00Z" in made
    assert {(row["as"], row["who"]) for row in await world.rows("banned", "list")} == {
        ("clientid", "one"),
        ("peerhost_net", "198.51.100.0/24"),
    }
    assert "rude" in await world.ctl("banned", "show", "peerhost_net", "198.51.100.0/24")
    assert "[already_exists]" in await world.ctl("banned", "add", "clientid", "one", "--for", "1h", code=1)
    assert "[ban_invalid] 'x' is no address" in await world.ctl("banned", "add", "peerhost", "x", code=1)
    for who, long in (("two", "99999999d"), ("three", "99999999999999d")):  # later than any date
        assert "is banned until" in await world.ctl("banned", "add", "clientid", who, "--for", long)
        assert "s after 1970" in await world.ctl("banned", "show", "clientid", who)
        await world.ctl("banned", "delete", "clientid", who)
    assert "not banned any more" in await world.ctl("banned", "delete", "clientid", "one")
    assert "1 ban is lifted" in await world.ctl("banned", "clear")

"""A configuration that is read again while the node runs: what changes at once, what waits, what is refused."""

import asyncio
import logging
import os
import re
import signal
import socket
import threading
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest

from heliograph.access.bans.ban_list import BanList
from heliograph.access.bans.bootstrap import load_bans
from heliograph.broker.hook_order import PLUGINS
from heliograph.config.description import every_setting
from heliograph.config.loading import load_config
from heliograph.config.settings import Config
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.properties import Properties
from heliograph.node import Node
from heliograph.parts.changes import covers
from support.certificates import Authority
from support.packets import decode_all, publish, say
from support.process import NodeProcess
from support.waiting import wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
OPEN = 'listeners.tcp.default.bind = "127.0.0.1:0"\ndurable_storage { messages.topics = [], flight.enable = false }\n'


class Running:
    """A node in this process whose configuration file a test writes anew."""

    def __init__(self, tmp_path: Path, settings: str = "") -> None:
        self._file = tmp_path / "node.conf"
        self._data_dir = str(tmp_path / "data")
        self.node = Node(self._load(settings))
        self._clients: list[Client] = []

    def _load(self, settings: str) -> Config:
        self._file.write_text(OPEN + settings)
        return load_config(self._file, {}, {"node.data_dir": self._data_dir})

    async def reload(self, settings: str) -> bool:
        return await self.node.reload(self._load(settings))

    async def connect(self, clientid: str = "c") -> "Client":
        port = int(self.node.ready_line().partition("tcp://127.0.0.1:")[2].partition(",")[0])
        client = Client(*await asyncio.open_connection("127.0.0.1", port), clientid)
        self._clients.append(client)
        return client

    async def stop(self) -> None:
        await self.node.stop()
        for client in self._clients:
            client.writer.close()


class Client:
    """A client that speaks MQTT 5 by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clientid: str) -> None:
        self._reader = reader
        self.writer = writer
        self._send(p.Connect(p.V5, clientid, True, 0, None, None, None, Properties()))

    def _send(self, packet: p.Packet) -> None:
        self.writer.write(encode_packet(packet, p.V5))

    async def packet(self) -> p.Packet:
        data = await self._reader.readexactly(2)
        (packet,) = decode_all(data + await self._reader.readexactly(data[1]), p.V5)
        return packet

    async def connack(self) -> p.Connack:
        packet = await self.packet()
        assert isinstance(packet, p.Connack)
        return packet

    async def subscribe(self, topic_filter: str) -> int:
        self._send(p.Subscribe(1, [p.SubscribeEntry(topic_filter, 1, False, False, 0)], Properties()))
        packet = await self.packet()
        assert isinstance(packet, p.Suback)
        return packet.codes[0]

    async def publish(self, topic: str, payload: bytes) -> int:
        self.writer.write(publish(topic, payload, 1, 7).data)
        packet = await self.packet()
        assert isinstance(packet, p.Ack)
        return packet.code


def test_every_setting_belongs_to_a_part(tmp_path: Path) -> None:
    file = tmp_path / "node.conf"
    file.write_text("pipeline.enable = true, pipeline.file = p")
    parts = Node(load_config(file)).parts.all()
    settings = re.findall(r"^\| `([^`]+)`", "\n".join(every_setting()), re.MULTILINE)
    assert len(settings) > 300
    assert [name for name in settings if not any(covers(part.roots, name) for part in parts)] == []
    roots = {path.partition(".")[0] for part in parts for path in part.roots}
    assert roots == {field.name for field in fields(Config)}


@pytest.mark.service
async def test_settings_change_back_to_those_of_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = Running(tmp_path, "sys_topics.sys_msg_interval = 1h\nlog.console.level = warning\n")
    logging.getLogger().setLevel(logging.WARNING)
    await running.node.start()
    (sys_topics,) = (part for part in running.node.parts.all() if part.name == "sys_topics")
    assert await running.reload("sys_topics.sys_msg_interval = 1s\nlog.console.level = info\n")
    assert "client 'c' connected" not in "\n".join(caplog.messages)
    client = await running.connect()
    await client.connack()
    assert "client 'c' connected" in "\n".join(caplog.messages)
    changed = load_config(tmp_path / "node.conf", {}, {"node.data_dir": str(tmp_path / "data")})
    assert await sys_topics.check(changed) is None
    assert await running.reload("sys_topics.sys_msg_interval = 1h\nlog.console.level = warning\n")
    await (await running.connect("d")).connack()
    assert "client 'd' connected" not in "\n".join(caplog.messages)
    assert await sys_topics.check(changed) is not None
    await running.stop()


@pytest.mark.service
async def test_rules_policies_and_limits_change_while_clients_are_connected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = Running(tmp_path)
    await running.node.start()
    client = await running.connect()
    assert (await client.connack()).code == rc.SUCCESS
    assert await client.subscribe("out/#") == 1
    rule = 'rule_engine.rules.one { sql = "SELECT payload FROM \\"in\\"", actions = [{ function = republish'
    rule += ', args { topic = "TOPIC", payload = "${payload}", qos = 0 } }] }\n'
    with caplog.at_level(logging.INFO):
        assert await running.reload(rule.replace("TOPIC", "out/1"))
    assert "changed: rule_engine.rules.one" in "\n".join(caplog.messages)
    assert [one.rule_id for one in running.node.rules] == ["one"]
    matched = running.node.statistics
    await client.publish("in", b"x")
    assert say(await client.packet()) == "PUBLISH out/1 'x' q0"
    assert matched()["rules.one.matched"] == 1

    validation = 'schema_validation.validations = [{ name = v, topics = "t", strategy = all_pass, failure_action = drop'
    validation += ', checks = [{ type = sql, sql = "SELECT * WHERE payload.ok = 1" }] }]\n'
    more = "mqtt.max_qos_allowed = 1\nlisteners.tcp.default.max_connections = 2\nnode.name = other@host\n"
    with caplog.at_level(logging.INFO):
        assert await running.reload(rule.replace("TOPIC", "out/2") + validation + more)
    assert "again: node.name" in "\n".join(caplog.messages)  # what needs a restart
    await client.publish("in", b"x")
    assert say(await client.packet()) == "PUBLISH out/2 'x' q0"
    assert matched()["rules.one.matched"] == 2  # a rule's counts go on
    assert await client.publish("t", b"{}") == rc.IMPLEMENTATION_SPECIFIC_ERROR
    second = await running.connect("d")
    assert (await second.connack()).properties.named()["Maximum-QoS"] == 1
    third = await running.connect("e")
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):  # as the system reads it
        await third.connack()

    assert await running.reload("")
    assert list(running.node.rules) == []
    assert await client.publish("t", b"{}") == rc.NO_MATCHING_SUBSCRIBERS
    await running.stop()


@pytest.mark.service
async def test_nothing_of_a_configuration_is_applied_that_one_part_refuses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = Running(tmp_path)
    await running.node.start()
    wrong = "mqtt.max_qos_allowed = 1\nauthorization.no_match = deny\n"
    assert not await running.reload(wrong + 'rule_engine.rules.one.sql = "SELECT nonsense"\n')
    assert "nothing is applied [rule_syntax]" in "\n".join(caplog.messages)
    client = await running.connect()
    assert "Maximum-QoS" not in (await client.connack()).properties.named()
    assert await client.subscribe("t") == 1
    assert not await running.reload('banned.bootstrap_file = "/nowhere"\n')
    assert "nothing is applied [banned_bootstrap_file]" in "\n".join(caplog.messages)
    await running.stop()


@pytest.mark.service
async def test_a_certificate_that_is_gone_keeps_a_configuration_from_being_applied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = Authority(tmp_path).server()
    secure = f'listeners.ssl.default {{ bind = "127.0.0.1:0", ssl_options.certfile = "{certificate}" }}\n'
    running = Running(tmp_path, secure)
    await running.node.start()
    certificate.rename(tmp_path / "elsewhere.pem")
    assert not await running.reload(secure + "mqtt.max_qos_allowed = 1\n")
    assert "nothing is applied [listener_certificate]: listeners.ssl.default.ssl_options.certfile" in "\n".join(
        caplog.messages
    )
    assert "Maximum-QoS" not in (await (await running.connect()).connack()).properties.named()
    (tmp_path / "elsewhere.pem").rename(certificate)
    assert await running.reload(secure + "mqtt.max_qos_allowed = 1\n")
    assert (await (await running.connect("d")).connack()).properties.named()["Maximum-QoS"] == 1
    await running.stop()


@pytest.mark.service
async def test_every_certificate_that_cannot_be_used_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority(tmp_path)
    files = [authority.server(file=f"{number}.pem") for number in range(3)]
    settings = "".join(
        f'listeners.ssl.{name} {{ bind = "127.0.0.1:0", ssl_options.certfile = "{file}" }}\n'
        for name, file in zip("ab", files, strict=False)
    )
    settings += f'listeners.ssl.b.ssl_options.sni = [{{ server_name = x, certfile = "{files[2]}" }}]\n'
    running = Running(tmp_path, settings)
    await running.node.start()
    for file in files:
        file.write_text("no certificate")
    assert not await running.reload(settings)
    said = "\n".join(message for message in caplog.messages if "nothing is applied" in message)
    assert [str(file) in said for file in files] == [True, True, True]
    await running.stop()


@pytest.mark.service
async def test_schemas_change_with_the_rules_and_validations_that_name_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = Running(tmp_path)
    await running.node.start()
    client = await running.connect()
    await client.connack()
    assert await client.subscribe("out") == 1
    schema = 'schema_registry.schemas.s { type = json, source = """{"type": "KIND"}""" }\n'
    validation = "schema_validation.validations = [{ name = v, topics = in, strategy = all_pass, failure_action = drop"
    validation += ", checks = [{ type = json, schema = s }] }]\n"
    rule = 'rule_engine.rules.one { sql = "SELECT schema_check(\'s\', payload) AS good FROM \\"in\\""'
    rule += ', actions = [{ function = republish, args { topic = out, payload = "${good}", qos = 0 } }] }\n'
    assert await running.reload(schema.replace("KIND", "object") + validation + rule)
    assert await client.publish("in", b"1") == rc.IMPLEMENTATION_SPECIFIC_ERROR
    await client.publish("in", b"{}")
    assert say(await client.packet()) == "PUBLISH out 'true' q0"
    assert await running.reload(schema.replace("KIND", "number") + validation + rule)
    assert await client.publish("in", b"{}") == rc.IMPLEMENTATION_SPECIFIC_ERROR

    broken = 'rule_engine.rules.two.sql = "SELECT nonsense"\n'  # refused, so the schema stays a number
    assert not await running.reload(schema.replace("KIND", "object") + validation + rule + broken)
    assert "[rule_syntax]" in "\n".join(caplog.messages)
    assert await client.publish("in", b"{}") == rc.IMPLEMENTATION_SPECIFIC_ERROR
    assert await running.reload("")
    assert await client.publish("in", b"{}") == rc.NO_MATCHING_SUBSCRIBERS
    await running.stop()


@pytest.mark.service
async def test_rewriting_automatic_subscriptions_and_flapping_change(tmp_path: Path) -> None:
    running = Running(tmp_path)
    await running.node.start()
    client = await running.connect()
    await client.connack()
    receiver = await running.connect("r")
    await receiver.connack()
    assert await receiver.subscribe("to") == 1
    rewrite = 'rewrite = [{ action = publish, source_topic = in, re = "^in$", dest_topic = DEST }]\n'
    settings = 'auto_subscribe.topics = [{ topic = "own/${clientid}" }]\n'
    settings += "flapping_detect { enable = true, max_count = 2 }\nsys_topics.sys_msg_interval = 1s\n"
    assert await running.reload(rewrite.replace("DEST", "to") + settings)
    assert await client.publish("in", b"x") == rc.SUCCESS
    assert "PUBLISH to 'x'" in say(await receiver.packet())
    second = await running.connect("d")
    await second.connack()
    assert await client.publish("own/d", b"y") == rc.SUCCESS
    assert "PUBLISH own/d 'y'" in say(await second.packet())
    assert await running.reload(rewrite.replace("DEST", "elsewhere") + settings)
    assert await client.publish("in", b"x") == rc.NO_MATCHING_SUBSCRIBERS
    assert running.node.statistics()["rewrite.rewritten"] == 2  # its counts go on
    gone = asyncio.Event()
    running.node.broker.hooks.client_disconnected.add(lambda *told: gone.set(), PLUGINS)
    second.writer.close()
    await gone.wait()
    assert (await (await running.connect("d")).connack()).code == rc.SUCCESS
    assert (await (await running.connect("d")).connack()).code == rc.BANNED
    assert await running.reload("")
    third = await running.connect("e")
    await third.connack()
    assert await client.publish("own/e", b"y") == rc.NO_MATCHING_SUBSCRIBERS
    assert await client.publish("in", b"x") == rc.NO_MATCHING_SUBSCRIBERS
    assert running.node.statistics()["rewrite.rewritten"] == 2
    await running.stop()


@pytest.mark.service
async def test_bans_and_the_last_word_on_access_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(tmp_path)
    await running.node.start()

    def load(bans: BanList, file: str, now_s: int) -> int:
        assert threading.current_thread() is not threading.main_thread()  # clients do not wait for a large file
        return load_bans(bans, file, now_s)

    monkeypatch.setattr("heliograph.access.bans.parts.load_bans", load)
    file = tmp_path / "bans.csv"
    file.write_text("as,who\nclientid,bad\n")
    settings = f'banned.bootstrap_file = "{file}"\nauthorization.no_match = deny\n'
    assert await running.reload(settings)
    assert (await (await running.connect("bad")).connack()).code == rc.BANNED
    good = await running.connect("good")
    await good.connack()
    assert await good.subscribe("t") == rc.NOT_AUTHORIZED
    file.write_text("as,who\nclientid,worse\n")
    assert await running.reload(settings.replace("deny", "allow"))  # the file changed, its setting did not
    bad = await running.connect("bad")
    assert (await bad.connack()).code == rc.SUCCESS
    assert await bad.subscribe("t") == 1
    assert (await (await running.connect("worse")).connack()).code == rc.BANNED
    await running.stop()


def _has_logged(node: NodeProcess, told: str) -> bool:
    return told in node.log.read_text()


@pytest.mark.service
@pytest.mark.slow
def test_sighup_reads_the_file_again_and_names_what_is_wrong_in_it(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, "durable_storage.flight.enable = false") as node:
        file = tmp_path / "heliograph.conf"
        before = file.read_text()
        for settings, told in (
            ("log.console.level = debug\nretainer.backend.storage_type = ram", "again: retainer.backend"),
            ("mqtt.max_inflight = 0", "nothing is applied"),
        ):
            file.write_text(before + settings + "\n")
            os.kill(node.pid, signal.SIGHUP)
            with socket.create_connection(("127.0.0.1", node.port), timeout=10) as client:
                client.sendall(encode_packet(p.Connect(p.V5, "c", True, 0, None, None, None, Properties()), p.V5))
                assert client.recv(100)
                wait_until(partial(_has_logged, node, told), told)
        assert node.stop() == 0
    said = node.log.read_text()
    assert "the configuration changed: log.console.level" in said
    assert "these settings change when the node is started again: retainer.backend.storage_type" in said
    line = before.count("\n") + 1
    assert re.search(rf"nothing is applied \[config_invalid\]: {file}:{line}: mqtt.max_inflight", said)

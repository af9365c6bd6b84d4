"""A mosquitto and a node with what was imported of its files: the same clients get in, and may do the same."""

import asyncio
import base64
import json
import re
import shutil
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.management.api.publish import PublishMessage
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.certificates import Authority
from support.mosquitto import free_port, mosquitto
from support.running import MqttClient, RunningNode

pytestmark = pytest.mark.service

CONFIGS = Path(__file__).parent / "configs"
BIND = re.compile(r'bind = "[0-9.\[\]:]+:[0-9]+"')
NOBODY = (None, None)
Open = Callable[[], Awaitable[MqttClient]]


def started(folder: Path, config: Path) -> RunningNode:
    """A node with what `conf import` makes of a configuration, at ports that are free."""
    with chdir(config.parent):
        assert main(["conf", "import", config.name, "--output", str(folder / "out")]) == 0
    text = (folder / "out" / "heliograph.conf").read_text()
    return RunningNode(folder, BIND.sub('bind = "127.0.0.1:0"', text), "management.enable = false")


async def logged_in(client: MqttClient, clientid: str, login: tuple[str | None, str | None]) -> bool:
    """Whether a client gets in."""
    username, password = login
    client.send_connect(clientid, username=username, password=None if password is None else password.encode())
    return (await client.take(p.Connack)).code == rc.SUCCESS


async def decisions(client: MqttClient, admin: MqttClient, topics: Sequence[str], prefix: str = "") -> list[str]:
    """What a client may do with each topic: `w` to publish, `r` to get what is published.

    Args:
        prefix: What stands before the topics of the client.
    """
    found = []
    for topic in topics:
        may = "w" if await client.publish(topic, qos=1) in (rc.SUCCESS, rc.NO_MATCHING_SUBSCRIBERS) else ""
        await client.subscribe(topic, 1)
        await client.payloads()
        await admin.publish(prefix + topic, b"x", qos=1)
        found.append(f"{topic} {may}{'r' if await client.payloads() else ''}")
    return found


async def to_mosquitto(port: int, tls: ssl.SSLContext | None = None) -> MqttClient:
    """A connection that has sent nothing yet."""
    name = "localhost" if tls is not None else None
    return MqttClient(*await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name), p.V5)


async def compare(
    theirs: Open,
    ours: Open,
    their_admin: MqttClient,
    our_admin: MqttClient,
    login: tuple[str | None, str | None],
    topics: Sequence[str],
    prefix: str = "",
) -> None:
    """See that both brokers decide the same of a client."""
    clients = await theirs(), await ours()
    let_in = [await logged_in(client, "client-1", login) for client in clients]
    assert let_in[0] == let_in[1], login
    if let_in[0]:
        asked = zip(clients, (their_admin, our_admin), strict=True)
        there, here = [await decisions(client, admin, topics, prefix) for client, admin in asked]
        assert here == there, login
    for client in clients:
        await client.leave()


async def test_users_of_a_password_file_log_in_and_may_do_the_same(tmp_path: Path) -> None:
    shutil.copytree(CONFIGS / "home", tmp_path / "home")
    files, port = tmp_path / "home" / "conf.d", free_port()
    admin = ("homeassistant", "ha-secret")
    logins = [
        admin, ("zigbee2mqtt", "z2m-secret"), ("guest", "guest secret"), ("guest", "another"), ("nobody", "x"), NOBODY,
        ("zigbee2mqtt", None),
    ]  # fmt: skip
    topics = [
        *("status/a", "zigbee2mqtt/kitchen", "zigbee2mqtt/livingroom/lamp", "zigbee2mqtt/livingroom/lock"),
        *("homeassistant/status", "homeassistant/sensor/x", "tasmota/guest/x", "tasmota/zigbee2mqtt/x"),
        *("tele/client-1/state", "tele/client-2/state", "elsewhere"),
    ]
    settings = f"allow_anonymous false\npassword_file {files}/passwd\nacl_file {files}/acl\nlistener {port} 127.0.0.1\n"
    with mosquitto(tmp_path, settings + "max_queued_messages 1000\n"):
        async with started(tmp_path, tmp_path / "home" / "mosquitto.conf") as node:
            admins = await to_mosquitto(port), await node.open()
            assert [await logged_in(one, "admin", admin) for one in admins] == [True, True]
            for login in logins:
                await compare(lambda: to_mosquitto(port), node.open, *admins, login, topics)
            await admins[0].leave()


async def test_each_listener_has_its_users_rules_and_mountpoint(tmp_path: Path) -> None:
    folder = tmp_path / "per_listener"
    shutil.copytree(CONFIGS / "per_listener", folder)
    text = (folder / "mosquitto.conf").read_text()
    ports = {name: free_port() for name in ("1883", "1884", "1885")}
    for name, port in ports.items():
        text = re.sub(rf"^listener {name}.*$", f"listener {port} 127.0.0.1", text, flags=re.MULTILINE)
    text = re.sub(r"^listener 8080\n", f"listener {free_port()} 127.0.0.1\n", text, flags=re.MULTILINE)
    text = re.sub(r"(_file) ", rf"\1 {folder}/", text)
    (folder / "staff.acl").write_text(
        "user ann\ntopic read staff/board/#\ntopic write +/notes\ntopic deny staff/board/secret\ntopic read board/x\n"
    )
    named = {"1883": "tcp:default", "1884": "tcp:port_1884", "1885": "tcp:port_1885"}
    topics = ["public/a", "board/x", "board/secret", "notes", "staff/board/x", "else"]
    with mosquitto(tmp_path, text, "log_dest stderr\nlog_type information\nmax_queued_messages 1000\n"):
        async with started(tmp_path, folder / "mosquitto.conf") as node:
            admins = await to_mosquitto(ports["1885"]), await node.open("tcp:port_1885")
            assert [await logged_in(one, "admin", NOBODY) for one in admins] == [True, True]
            for name, port in ports.items():
                theirs, ours = partial(to_mosquitto, port), partial(node.open, named[name])
                for login in (NOBODY, ("ann", "ann-secret"), ("ann", "wrong")):
                    await compare(theirs, ours, *admins, login, topics, "staff/" if name == "1884" else "")
            await admins[0].leave()


async def test_clients_without_a_name_and_subscriptions_with_wildcards(tmp_path: Path) -> None:
    folder, port = tmp_path / "open", free_port()
    folder.mkdir()
    shutil.copy(CONFIGS / "home" / "conf.d" / "passwd", folder)
    rules = "topic read #\ntopic deny secret/#\n"
    (folder / "acl").write_text(f"{rules}user guest\n{rules}user homeassistant\ntopic readwrite #\n")
    text = f"listener {port} 127.0.0.1\nallow_anonymous true\npassword_file {folder}/passwd\nacl_file {folder}/acl\n"
    (folder / "mosquitto.conf").write_text(text)
    topics, admin = ["open/x", "secret/x"], ("homeassistant", "ha-secret")
    with mosquitto(tmp_path, text + "max_queued_messages 1000\n"):
        async with started(tmp_path, folder / "mosquitto.conf") as node:
            openers: tuple[Open, Open] = (partial(to_mosquitto, port), node.open)
            admins = await openers[0](), await openers[1]()
            assert [await logged_in(one, "admin", admin) for one in admins] == [True, True]
            for login in (NOBODY, ("guest", "guest secret"), ("guest", "x"), ("nobody", "x")):
                await compare(*openers, *admins, login, topics)
            for login in (NOBODY, ("guest", "guest secret")):
                for open_client, publisher in zip(openers, admins, strict=True):
                    client = await open_client()
                    assert await logged_in(client, "client-2", login)
                    await client.subscribe("#")
                    await client.payloads()
                    for topic in topics:
                        await publisher.publish(topic, topic.encode(), qos=1)
                    assert await client.payloads() == [b"open/x"]
                    await client.leave()
            await admins[0].leave()


async def test_retained_messages_and_sessions_of_a_database(tmp_path: Path) -> None:
    port = free_port()
    settings = f"persistence true\npersistence_location {tmp_path}/\nlistener {port} 127.0.0.1\n"
    with mosquitto(tmp_path, settings):
        client = await to_mosquitto(port)
        client.send_connect("sensor", clean_start=False, session_expiry_interval=3600)
        await client.take(p.Connack)
        await client.publish("a/plain", b"hello", qos=1, retain=True)
        await client.publish("a/rich", b"\x00\xff", retain=True, content_type="text", message_expiry_interval=5000)
        await client.publish("a/gone", b"x", qos=1, retain=True)
        await client.publish("a/gone", b"", qos=1, retain=True)
        await client.subscribe("commands/#", 1)
        await client.leave()
        other = await to_mosquitto(port)
        await logged_in(other, "other", NOBODY)
        await other.publish("commands/x", b"waits", qos=1)
        await other.leave()
    with chdir(tmp_path):
        assert main(["conf", "import", "mosquitto.conf", "mosquitto.db", "--output", "out"]) == 0
    messages = {each["topic"]: each for each in json.loads((tmp_path / "out" / "retained.json").read_text())}
    assert sorted(messages) == ["a/plain", "a/rich"]
    assert base64.b64decode(messages["a/plain"]["payload"]) == b"hello"
    assert base64.b64decode(messages["a/rich"]["payload"]) == b"\x00\xff"
    assert (messages["a/plain"]["qos"], messages["a/rich"]["qos"]) == (1, 0)
    assert messages["a/rich"]["properties"]["content_type"] == "text"
    assert 4000 < messages["a/rich"]["properties"]["message_expiry_interval"] <= 5000
    assert all(PublishMessage.model_validate(message).retain for message in messages.values())
    report = (tmp_path / "out" / "report.txt").read_text()
    assert "mosquitto.db: session of sensor (subscriptions commands/# (QoS 1), messages that wait 1)" in report


@pytest.fixture
def dynamic_security(tmp_path: Path) -> str:
    """Lines for the plugin, with a user admin."""
    control = shutil.which("mosquitto_ctrl")
    plugin = next(Path("/usr/lib").glob("*/mosquitto_dynamic_security.so"), None)
    if control is None or plugin is None:
        pytest.skip("mosquitto's plugin for dynamic security is not installed")
    file = tmp_path / "dynamic-security.json"
    subprocess.run([control, "dynsec", "init", str(file), "admin", "admin-secret"], check=True, capture_output=True)
    return f"plugin {plugin}\nplugin_opt_config_file {file}\n"


async def test_users_of_dynamic_security_log_in(dynamic_security: str, tmp_path: Path) -> None:
    port = free_port()
    settings = f"allow_anonymous false\nlistener {port} 127.0.0.1\n{dynamic_security}"
    with mosquitto(tmp_path, settings):
        (tmp_path / "own").mkdir()
        async with started(tmp_path / "own", tmp_path / "mosquitto.conf") as node:
            for login in (("admin", "admin-secret"), ("admin", "wrong"), NOBODY):
                there, here = await to_mosquitto(port), await node.open()
                assert await logged_in(there, "c", login) == await logged_in(here, "c", login), login
                await there.leave()
                await here.leave()


async def test_a_certificate_is_a_login(tmp_path: Path) -> None:
    folder, port, plain = tmp_path / "tls", free_port(), free_port()
    shutil.copytree(CONFIGS / "tls", folder)
    authority = Authority(folder)
    server = authority.server()
    for name in ("server.crt", "server.key"):
        shutil.copy(server, folder / name)
    revoked = authority.client("revoked")
    authority.revoke(revoked).rename(folder / "crl.pem")
    tls = authority.context(authority.client("dev-1"))
    text = (folder / "mosquitto.conf").read_text()
    text = text.replace("listener 8883", f"listener {port} 127.0.0.1").replace("listener 1883", f"listener {plain}")
    text = re.sub(r"^(\w*file) ", rf"\1 {folder}/", text, flags=re.MULTILINE)
    topics = ["devices/dev-1/x", "devices/dev-2/x", "commands/dev-1/x", "commands/dev-2/x"]
    with mosquitto(tmp_path, "max_queued_messages 1000\n" + text):
        async with started(tmp_path, folder / "mosquitto.conf") as node:
            admins = await to_mosquitto(plain), await node.open()
            assert [await logged_in(one, "admin", ("backend", "backend-secret")) for one in admins] == [True, True]
            for login in (NOBODY, ("backend", "wrong")):  # what it says of itself does not count
                await compare(
                    lambda: to_mosquitto(port, tls), lambda: node.open("ssl:default", tls=tls), *admins, login, topics
                )
            await admins[0].leave()

"""What clients that other people wrote see on every transport, at MQTT 3.1.1 and 5.

Each holds the same conversation: a message at every QoS, a large one, a retained one, and a will.
"""

import asyncio
import hashlib
import json
import os
import queue
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import aiomqtt
import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from support.certificates import Authority
from support.process import NodeProcess

pytestmark = [pytest.mark.service, pytest.mark.slow]

WAIT_S: Final = 15.0
JS: Final = Path(__file__).parent / "js"

TRANSPORTS: Final = ("tcp", "ssl", "ws", "wss")
VERSIONS: Final = ("v3", "v5")

LARGE: Final = "x" * 300_000
# Topic, the payload's beginning, QoS, retain.
CONVERSATION: Final = [
    ["qos0", "at 0", 0, False],
    ["qos1", "at 1", 1, False],
    ["qos2", "at 2", 2, False],
    ["large", LARGE[:40], 1, False],
    ["state", "on", 1, True],
    ["will", "gone", 1, False],
]


@dataclass(frozen=True)
class Place:
    """Where a client connects to.

    Attributes:
        transport: `tcp`, `ssl`, `ws` or `wss`.
        port: On loopback.
        cafile: The authority to trust.
    """

    transport: str
    port: int
    cafile: Path

    @property
    def is_secure(self) -> bool:
        return self.transport in ("ssl", "wss")

    @property
    def is_websocket(self) -> bool:
        return self.transport in ("ws", "wss")


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Place]]:
    """A broker with a listener of every kind."""
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    ssl_options = f'ssl_options.certfile = "{authority.server()}"'
    settings = f"""
        listeners.ssl.default {{ bind = "127.0.0.1:0", {ssl_options} }}
        listeners.ws.default {{ bind = "127.0.0.1:0" }}
        listeners.wss.default {{ bind = "127.0.0.1:0", {ssl_options} }}
    """
    with NodeProcess(tmp_path_factory.mktemp("transports"), settings) as node:
        ports = dict(re.findall(r"(tcp|ssl|ws|wss)://127\.0\.0\.1:(\d+)", node.ready_line))
        yield {kind: Place(kind, int(port), authority.cafile) for kind, port in ports.items()}
        assert node.stop() == 0, node.log.read_text()


@pytest.fixture(params=TRANSPORTS)
def place(request: pytest.FixtureRequest, places: dict[str, Place]) -> Place:
    return places[request.param]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Device:
    """A connected paho client."""

    def __init__(self, place: Place, version: str, clientid: str, will_topic: str = "") -> None:
        self.heard: queue.Queue[mqtt.MQTTMessage] = queue.Queue()
        self._ready: queue.Queue[None] = queue.Queue()
        transport: Literal["tcp", "websockets"] = "websockets" if place.is_websocket else "tcp"
        protocol = MQTTProtocolVersion.MQTTv5 if version == "v5" else MQTTProtocolVersion.MQTTv311
        self.paho = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            clientid,
            protocol=protocol,
            transport=transport,
            reconnect_on_failure=False,
        )
        if place.is_secure:
            self.paho.tls_set(str(place.cafile))
        self.paho.on_connect = lambda *_: self._ready.put(None)
        self.paho.on_subscribe = lambda *_: self._ready.put(None)
        self.paho.on_message = lambda _client, _data, message: self.heard.put(message)
        if will_topic:
            self.paho.will_set(will_topic, b"gone", qos=1)
        self.paho.connect("localhost" if place.is_secure else "127.0.0.1", place.port)
        self.paho.loop_start()
        self._ready.get(timeout=WAIT_S)

    def subscribe(self, topic: str, qos: int) -> None:
        self.paho.subscribe(topic, qos)
        self._ready.get(timeout=WAIT_S)

    def publish(self, topic: str, payload: str, qos: int, *, retain: bool = False) -> None:
        self.paho.publish(topic, payload, qos, retain).wait_for_publish(WAIT_S)

    def hear(self, prefix: str) -> list[object]:
        message = self.heard.get(timeout=WAIT_S)
        payload = message.payload.decode()[:40]
        return [message.topic.removeprefix(f"{prefix}/"), payload, message.qos, message.retain]

    def break_off(self) -> None:
        """End the connection without a word."""
        connection = self.paho.socket()
        assert connection is not None
        connection.close()

    def close(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()


def test_paho(place: Place, version: str, name: str) -> None:
    receiver = Device(place, version, f"{name}-in")
    sender = Device(place, version, f"{name}-out", f"{name}/will")
    heard = []
    for qos in (0, 1, 2):
        receiver.subscribe(f"{name}/qos{qos}", qos)
        sender.publish(f"{name}/qos{qos}", f"at {qos}", qos)
        heard.append(receiver.hear(name))
    receiver.subscribe(f"{name}/large", 1)
    sender.publish(f"{name}/large", LARGE, 1)
    heard.append(receiver.hear(name))
    sender.publish(f"{name}/state", "on", 1, retain=True)
    receiver.subscribe(f"{name}/state", 1)
    heard.append(receiver.hear(name))
    receiver.subscribe(f"{name}/will", 1)
    sender.break_off()
    heard.append(receiver.hear(name))
    assert heard == CONVERSATION
    receiver.close()
    sender.close()


async def test_aiomqtt(place: Place, version: str, name: str) -> None:
    protocol = aiomqtt.ProtocolVersion.V5 if version == "v5" else aiomqtt.ProtocolVersion.V311
    transport: Literal["tcp", "websockets"] = "websockets" if place.is_websocket else "tcp"

    def client(role: str, will: aiomqtt.Will | None = None) -> aiomqtt.Client:
        return aiomqtt.Client(
            "localhost" if place.is_secure else "127.0.0.1",
            place.port,
            identifier=f"{name}-{role}",
            protocol=protocol,
            transport=transport,
            tls_context=ssl.create_default_context(cafile=str(place.cafile)) if place.is_secure else None,
            will=will,
        )

    async def hear(receiver: aiomqtt.Client) -> list[object]:
        async with asyncio.timeout(WAIT_S):
            message = await anext(receiver.messages)
        assert isinstance(message.payload, bytes)
        topic = str(message.topic).removeprefix(f"{name}/")
        return [topic, message.payload.decode()[:40], message.qos, message.retain]

    heard = []
    sender = client("out", aiomqtt.Will(f"{name}/will", b"gone", qos=1))
    async with client("in") as receiver:
        await sender.__aenter__()
        for qos in (0, 1, 2):
            await receiver.subscribe(f"{name}/qos{qos}", qos)
            await sender.publish(f"{name}/qos{qos}", f"at {qos}", qos)
            heard.append(await hear(receiver))
        await receiver.subscribe(f"{name}/large", 1)
        await sender.publish(f"{name}/large", LARGE, 1)
        heard.append(await hear(receiver))
        await sender.publish(f"{name}/state", "on", 1, retain=True)
        await receiver.subscribe(f"{name}/state", 1)
        heard.append(await hear(receiver))
        await receiver.subscribe(f"{name}/will", 1)
        sender._client._sock_close()  # there is no public way to end a connection without a word
        heard.append(await hear(receiver))
    assert heard == CONVERSATION


@pytest.fixture(scope="session")
def mqtt_js() -> Path:
    """A directory with MQTT.js in it, installed on first use and kept for the next time."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    lock = (JS / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = cache / "heliograph-tests" / f"mqtt-js-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not (directory / "installed").exists():
        directory.mkdir(parents=True, exist_ok=True)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(JS / file, directory)
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        result = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=100, check=False)
        if result.returncode != 0:
            pytest.skip(f"npm cannot install MQTT.js: {result.stderr.strip()[-300:]}")
        (directory / "installed").touch()
    shutil.copy(JS / "talk.mjs", directory)  # modules are looked for beside the program
    return directory


def test_mqtt_js(place: Place, version: str, name: str, mqtt_js: Path) -> None:
    scheme = {"tcp": "mqtt", "ssl": "mqtts"}.get(place.transport, place.transport)
    path = "/mqtt" if place.is_websocket else ""
    arguments = {
        "url": f"{scheme}://localhost:{place.port}{path}"
        if place.is_secure
        else f"{scheme}://127.0.0.1:{place.port}{path}",
        "version": 5 if version == "v5" else 4,
        "name": name,
        "ca": str(place.cafile) if place.is_secure else None,
    }
    command = ["node", "talk.mjs", json.dumps(arguments)]
    result = subprocess.run(command, cwd=mqtt_js, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == CONVERSATION


@pytest.mark.skipif(
    shutil.which("mosquitto_pub") is None or shutil.which("mosquitto_sub") is None,
    reason="mosquitto_pub and mosquitto_sub are not installed",
)
@pytest.mark.parametrize("transport", ["tcp", "ssl"])  # they speak no WebSocket
def test_mosquitto_clients(places: dict[str, Place], transport: str, version: str, name: str) -> None:
    place = places[transport]
    common = ["-h", "localhost" if place.is_secure else "127.0.0.1", "-p", str(place.port)]
    common += ["-V", "mqttv5" if version == "v5" else "mqttv311"]
    common += ["--cafile", str(place.cafile)] if place.is_secure else []

    def publish(topic: str, payload: str, qos: int, *more: str) -> None:
        command = ["mosquitto_pub", *common, "-t", f"{name}/{topic}", "-s", "-q", str(qos), *more]
        subprocess.run(command, input=payload, text=True, check=True, timeout=WAIT_S)

    def break_off() -> None:
        will = ["--will-topic", f"{name}/will", "--will-payload", "gone", "--will-qos", "1"]
        command = ["stdbuf", "-oL", "mosquitto_sub", *common, "-d", "-t", "nothing", *will]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as doomed:
            assert doomed.stdout is not None
            assert any(line.startswith("Subscribed") for line in doomed.stdout)
            doomed.kill()

    def hear(topic: str, qos: int, provoke: "list[tuple[str, int]]") -> list[object]:
        command = ["stdbuf", "-oL", "mosquitto_sub", *common, "-d", "-t", f"{name}/{topic}", "-q", str(qos)]
        command += ["-C", "1", "-W", "15", "-F", "message %t|%q|%r|%p"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert any(line.startswith("Subscribed") for line in process.stdout), "never subscribed"
            for payload, at in provoke:
                publish(topic, payload, at)
            if topic == "will":
                break_off()
            lines = [line for line in process.stdout if line.startswith("message ")]
        found, at_qos, retain, payload = lines[0].removeprefix("message ").rstrip("\n").split("|", 3)
        return [found.removeprefix(f"{name}/"), payload[:40], int(at_qos), retain == "1"]

    heard = [hear(f"qos{qos}", qos, [(f"at {qos}", qos)]) for qos in (0, 1, 2)]
    heard.append(hear("large", 1, [(LARGE, 1)]))
    publish("state", "on", 1, "-r")
    heard.append(hear("state", 1, []))
    heard.append(hear("will", 1, []))
    assert heard == CONVERSATION

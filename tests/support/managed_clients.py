"""MQTT clients of a node that is a process of its own: one of the tests' own, and those of another make (paho)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from heliograph.mqtt import packets as p
from support.management import Served
from support.running import MqttClient
from support.waiting import wait_until

_VERSIONS = {3: MQTTProtocolVersion.MQTTv31, 4: MQTTProtocolVersion.MQTTv311, 5: MQTTProtocolVersion.MQTTv5}


@asynccontextmanager
async def connected(managed: Served, clientid: str) -> AsyncIterator[MqttClient]:
    """A client of the tests' own, packet by packet, that is let in; the node knows of its end behind the block."""
    client = MqttClient(*await asyncio.open_connection("127.0.0.1", managed.port), p.V5)
    client.send_connect(clientid)
    assert (await client.take(p.Connack)).code == 0
    try:
        yield client
    finally:
        await client.leave()


class Peer:
    """One client, connected; what it gets is kept until a test asks for it."""

    def __init__(self, client: paho.Client) -> None:
        self.client = client
        self.got: list[Any] = []
        self.acks: dict[int, list[int]] = {}
        self.reason: int | None = None
        client.on_message = lambda _, __, message: self.got.append(message)
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = lambda _, __, mid, codes, ___: self.acks.update({mid: [code.value for code in codes]})
        client.on_publish = lambda _, __, mid, code, ___: self.acks.update({mid: [code.value]})

    def subscribe(self, topic: str, qos: int = 0) -> int:
        """Subscribe to one filter: the reason code."""
        mid = self.client.subscribe(topic, qos)[1]
        return self._answer(mid)[0]

    def publish(self, topic: str, payload: bytes, qos: int = 0, *, retain: bool = False) -> int:
        """Publish, and wait for what answers it: the reason code."""
        return self._answer(self.client.publish(topic, payload, qos, retain).mid)[0]

    def packets(self, count: int) -> list[Any]:
        """The next messages, so many."""
        wait_until(lambda: len(self.got) >= count, f"{count} messages have come")
        taken = self.got[:count]
        del self.got[:count]  # in one step: others come in a thread
        return taken

    def messages(self, count: int) -> list[tuple[str, bytes]]:
        """Topics and payloads of the next messages, so many."""
        return [(message.topic, message.payload) for message in self.packets(count)]

    def closed(self) -> int | None:
        """Wait until the node closes the connection: with which reason code."""
        wait_until(lambda: self.reason is not None, "the connection is closed")
        return self.reason

    def _answer(self, mid: int | None) -> list[int]:
        assert mid is not None
        wait_until(lambda: mid in self.acks, "the acknowledgement has come")
        return self.acks.pop(mid)

    def _on_disconnect(self, _: object, __: object, ___: object, code: Any, ____: object) -> None:
        self.reason = code.value


class Peers:
    """The clients of one test; they leave, and their sessions with them, at its end."""

    def __init__(self, managed: Served) -> None:
        self._managed = managed
        self._clients: list[paho.Client] = []

    def connect(
        self,
        clientid: str,
        *,
        version: int = 5,
        username: str | None = None,
        password: str | None = None,
        keepalive: int = 60,
        expiry_s: int = 0,
        receive_maximum: int = 0,
        acknowledges: bool = True,
    ) -> Peer:
        """A client that is let in.

        Args:
            receive_maximum: How many messages it takes unacknowledged; 0 to leave that to the node.
            acknowledges: Whether it acknowledges what it gets at QoS 1 and 2.
        """
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            clientid,
            protocol=_VERSIONS[version],
            manual_ack=not acknowledges,
            reconnect_on_failure=False,
        )
        peer = Peer(client)
        if username is not None:
            client.username_pw_set(username, password)
        properties = None
        if version == 5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has no types there
            if expiry_s:
                properties.SessionExpiryInterval = expiry_s
            if receive_maximum:
                properties.ReceiveMaximum = receive_maximum
        client.connect("127.0.0.1", self._managed.port, keepalive, properties=properties)
        client.loop_start()
        self._clients.append(client)
        wait_until(client.is_connected, "the client is let in")
        return peer

    def refused(self, clientid: str, username: str | None = None, password: str | None = None) -> int:
        """The reason code with which a client is let in or refused; it leaves at once."""
        codes: list[int] = []
        client = paho.Client(
            CallbackAPIVersion.VERSION2, clientid, protocol=MQTTProtocolVersion.MQTTv5, reconnect_on_failure=False
        )
        if username is not None:
            client.username_pw_set(username, password)
        client.on_connect = lambda _, __, ___, code, ____: codes.append(code.value)
        client.connect("127.0.0.1", self._managed.port)
        client.loop_start()
        wait_until(lambda: codes, "the client is answered")
        client.disconnect()
        client.loop_stop()
        return codes[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.disconnect()
            client.loop_stop()
        api = self._managed.api
        held = [client["clientid"] for client in api.get("/clients", params={"limit": 1000}).json()["data"]]
        api.post("/clients/kickout/bulk", json=held)
        wait_until(lambda: not api.get("/clients").json()["data"], "no session is left")

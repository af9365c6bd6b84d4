"""The targets of actions under `kill -9`: each can be killed, comes back by itself, and says which rows it has."""

import json
import logging
import os
import shutil
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import redis
from confluent_kafka import Consumer
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from support.kafka import StoppableBroker, stoppable_broker
from support.mosquitto import free_port
from support.postgresql import Postgresql, postgresql
from support.redis import RedisServer, redis_server
from support.servers import KeptRunning, kept_running, program

_WEB_PROGRAM = Path(__file__).with_name("web_target.py")
_KEPT_S = 3600
_SILENT = logging.Logger("librdkafka", logging.CRITICAL)
_MOSQUITTO = """
allow_anonymous true
persistence true
autosave_interval 1
autosave_on_changes true
log_dest stderr
max_inflight_messages 1000
max_queued_messages 0
"""


class KilledTarget(ABC):
    """A target of one action. Owned by the run.

    Attributes:
        action: `TYPE:NAME`.
        is_exact: Whether each row is there once; otherwise once at least.
    """

    action: str
    is_exact = False

    @abstractmethod
    def connector(self) -> dict[str, Any]:
        """The settings of its connector."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The parameters of the action."""

    @abstractmethod
    def kill(self) -> None:
        """End it; it starts again by itself."""

    @abstractmethod
    def rows(self) -> list[int]:
        """The numbers of the rows that it has, in the order in which they came. `OSError` while it is away."""

    def count(self) -> int | None:
        """How many it has; None while it is away."""
        try:
            return len(self.rows())
        except (OSError, psycopg.Error, redis.RedisError):
            return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.action})"


class DatabaseTarget(KilledTarget):
    """PostgreSQL: exactly once."""

    action = "pgsql:db"
    is_exact = True

    def __init__(self, database: Postgresql) -> None:
        self._database = database
        database.query("CREATE TABLE kills (place bigserial, n bigint)")

    def connector(self) -> dict[str, Any]:
        """With the password."""
        one = self._database
        server = f"127.0.0.1:{one.port}"
        return {"server": server, "database": one.database, "username": one.user, "password": one.password}

    def parameters(self) -> dict[str, Any]:
        """Each row an insert."""
        return {"sql": "INSERT INTO kills (n) VALUES (${payload.n})"}

    def kill(self) -> None:
        """The server, all of whose processes end with it."""
        assert self._database.server is not None
        os.kill(self._database.server.pid, signal.SIGKILL)

    def rows(self) -> list[int]:
        """In the order of the sequence."""
        return [n for (n,) in self._database.query("SELECT n FROM kills ORDER BY place")]


class CacheTarget(KilledTarget):
    """Redis: exactly once."""

    action = "redis:cache"
    is_exact = True

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    def connector(self) -> dict[str, Any]:
        """With the password."""
        place = {"server": f"127.0.0.1:{self._server.port}", "password": self._server.password}
        return {"parameters": {**place, "redis_type": "single"}}

    def parameters(self) -> dict[str, Any]:
        """A list."""
        return {"command_template": ["RPUSH", "kills", "${payload.n}"]}

    def kill(self) -> None:
        """The server, which writes a command to its log before it answers."""
        assert self._server.server is not None
        os.kill(self._server.server.pid, signal.SIGKILL)

    def rows(self) -> list[int]:
        """The list."""
        with self._server.client() as client:
            return [int(n) for n in client.lrange("kills", 0, -1)]


class WebTarget(KilledTarget):
    """A web service that takes each idempotency key once: with it, each row is there once."""

    action = "http:web"
    is_exact = True

    def __init__(self, port: int, noted: Path, server: KeptRunning) -> None:
        self._port = port
        self._noted = noted
        self._server = server

    def connector(self) -> dict[str, Any]:
        """One request at a time, so that rows come in their order."""
        return {"url": f"http://127.0.0.1:{self._port}", "pool_size": 1}

    def parameters(self) -> dict[str, Any]:
        """The message that a device sent."""
        return {"body": "${payload}"}

    def kill(self) -> None:
        """The process."""
        os.kill(self._server.pid, signal.SIGKILL)

    def requests(self) -> list[tuple[str, int]]:
        """The idempotency key and the row of each request."""
        lines = self._noted.read_text().splitlines() if self._noted.exists() else []
        pairs = (line.split(" ", 1) for line in lines)
        return [(key, json.loads(body)["n"]) for key, body in pairs]

    def rows(self) -> list[int]:
        """One of each key."""
        return list(dict(reversed(self.requests())).values())[::-1]


class HubTarget(KilledTarget):
    """mosquitto, with a subscriber that has a session: at least once.

    It is ended by SIGTERM, at which it saves: `kill -9` would lose messages that it has acknowledged.
    """

    action = "mqtt:hub"

    def __init__(self, port: int, server: KeptRunning) -> None:
        self._port = port
        self._server = server
        self._heard: list[int] = []
        self._is_subscribed = threading.Event()
        session = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has no types here
        session.SessionExpiryInterval = _KEPT_S
        self._client = Client(CallbackAPIVersion.VERSION2, "listener", protocol=MQTTProtocolVersion.MQTTv5)
        self._client.on_connect = self._subscribe
        self._client.on_subscribe = lambda *_: self._is_subscribed.set()
        self._client.on_message = self._hear
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", port, clean_start=False, properties=session)
        self._client.loop_start()
        assert self._is_subscribed.wait(30)

    def connector(self) -> dict[str, Any]:
        """Where it is."""
        return {"server": f"127.0.0.1:{self._port}"}

    def parameters(self) -> dict[str, Any]:
        """The message that a device sent."""
        return {"topic": "kills", "payload": "${payload}"}

    def kill(self) -> None:
        """Have it save and end."""
        os.kill(self._server.pid, signal.SIGTERM)

    def rows(self) -> list[int]:
        """What the subscriber has heard."""
        return list(self._heard)

    def close(self) -> None:
        """End the subscriber."""
        self._client.disconnect()
        self._client.loop_stop()

    def _subscribe(self, client: Client, *_: object) -> None:
        client.subscribe("kills", 1)

    def _hear(self, client: object, data: object, message: MQTTMessage) -> None:
        self._heard.append(json.loads(message.payload)["n"])


class KafkaBrokerTarget(KilledTarget):
    """The broker that librdkafka has inside, which speaks Kafka's protocol and keeps messages in memory: at least once.

    To end it would lose them, so it closes its connections and takes none for a moment instead.
    """

    action = "kafka_producer:log"

    def __init__(self, broker: StoppableBroker) -> None:
        self._broker = broker
        self._heard: list[int] = []
        self._is_over = threading.Event()
        settings = {"bootstrap.servers": broker.servers, "group.id": "kills", "auto.offset.reset": "earliest"}
        self._consumer = Consumer(settings, logger=_SILENT)
        self._consumer.subscribe(["kills"])
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def connector(self) -> dict[str, Any]:
        """Where it is."""
        return {"bootstrap_hosts": self._broker.servers}

    def parameters(self) -> dict[str, Any]:
        """One key, so that all messages are in one partition."""
        message = {"key": "one", "value": "${payload}"}
        return {"topic": "kills", "message": message, "partition_strategy": "key_dispatch"}

    def kill(self) -> None:
        """Away for a moment."""
        self._broker.be_away(1.0)

    def rows(self) -> list[int]:
        """What a consumer has read."""
        return list(self._heard)

    def close(self) -> None:
        """End the consumer."""
        self._is_over.set()
        self._thread.join(30)
        self._consumer.close()

    def _listen(self) -> None:
        while not self._is_over.is_set():
            for message in self._consumer.consume(100, 0.2):
                if message.error() is None:
                    self._heard.append(json.loads(message.value() or b"")["n"])


@contextmanager
def database_target(folder: Path) -> Iterator[KilledTarget]:
    """PostgreSQL."""
    with postgresql() as database:
        yield DatabaseTarget(database)


@contextmanager
def cache_target(folder: Path) -> Iterator[KilledTarget]:
    """Redis."""
    with redis_server(folder) as server:
        yield CacheTarget(server)


@contextmanager
def web_target(folder: Path) -> Iterator[KilledTarget]:
    """A web service."""
    port, noted = free_port(), folder / "requests"
    with kept_running([sys.executable, str(_WEB_PROGRAM), str(port), str(noted)], "listens") as server:
        yield WebTarget(port, noted, server)


@contextmanager
def hub_target(folder: Path) -> Iterator[KilledTarget]:
    """mosquitto."""
    port, config = free_port(), folder / "mosquitto.conf"
    config.write_text(f"user root\n{_MOSQUITTO}persistence_location {folder}/\nlistener {port} 127.0.0.1\n")
    found = shutil.which("mosquitto") or program("mosquitto")
    with kept_running([found, "-c", str(config)], "running") as server:
        target = HubTarget(port, server)
        try:
            yield target
        finally:
            target.close()


@contextmanager
def log_target(folder: Path) -> Iterator[KilledTarget]:
    """A broker of Kafka's protocol."""
    with stoppable_broker() as broker:
        target = KafkaBrokerTarget(broker)
        try:
            yield target
        finally:
            target.close()


TARGETS = {
    "pgsql": database_target,
    "redis": cache_target,
    "http": web_target,
    "mqtt": hub_target,
    "kafka": log_target,
}

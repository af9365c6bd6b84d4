"""A subscriber whose session outlives the broker, and which connects again by itself."""

import threading
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion


class Watcher:
    """Hears what it is subscribed to; the test ends it with `stop`.

    Args:
        port: The broker's.
        count: How many messages that differ there will be.

    Attributes:
        heard: Topic and payload of each message, in order.
        has_all: Set when all have come.
    """

    def __init__(self, port: int, topic_filter: str, qos: int, count: int) -> None:
        self.heard: list[tuple[str, bytes]] = []
        self.has_all = threading.Event()
        self._count = count
        self._has_subscribed = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2, client_id="watcher", clean_session=False)
        self._client.reconnect_delay_set(1, 1)
        self._client.on_message = self._on_message
        self._client.on_subscribe = lambda *_: self._has_subscribed.set()
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._client.subscribe(topic_filter, qos)
        assert self._has_subscribed.wait(20)

    def stop(self) -> None:
        """Stop listening."""
        self._client.loop_stop()

    def _on_message(self, client: Client, data: Any, message: Any) -> None:
        self.heard.append((message.topic, message.payload))
        if len(set(self.heard)) == self._count:
            self.has_all.set()

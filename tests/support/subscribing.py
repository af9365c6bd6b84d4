"""A subscriber to a broker that runs in another process, which collects what it hears."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

_DEADLINE_S = 20.0


@contextmanager
def subscribed(port: int, topic_filter: str) -> Iterator["Heard"]:
    """A subscriber that collects what it hears."""
    heard = Heard()
    is_subscribed = threading.Event()
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    client.on_subscribe = lambda *_: is_subscribed.set()
    client.on_message = lambda client, data, message: heard.take(message)
    client.connect("127.0.0.1", port)
    client.loop_start()
    client.subscribe(topic_filter, qos=2)
    assert is_subscribed.wait(_DEADLINE_S)
    try:
        yield heard
    finally:
        client.disconnect()
        client.loop_stop()


class Heard:
    """The messages that a subscriber heard."""

    def __init__(self) -> None:
        self._messages: list[MQTTMessage] = []
        self._changed = threading.Condition()

    def take(self, message: MQTTMessage) -> None:
        """Called by the client's thread."""
        with self._changed:
            self._messages.append(message)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[MQTTMessage]:
        """So many messages, or those that came before the deadline."""
        end = time.monotonic() + _DEADLINE_S
        with self._changed:
            while len(self._messages) < count and time.monotonic() < end:
                self._changed.wait(end - time.monotonic())
            return list(self._messages)

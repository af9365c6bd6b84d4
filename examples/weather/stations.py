"""The MQTT clients of the demo: three weather stations that publish, and one subscriber to the alerts.

All of them reconnect by themselves when the broker goes away, and a station sends again what was not acknowledged.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from observations import Observation
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MessageState

# Messages of a station that may wait for their acknowledgement; more than this the stations never are apart in time.
_WINDOW = 64
_RELEASE = MessageState.MQTT_MS_RESEND_PUBREL


class Station:
    """One weather station: an MQTT client that publishes with a bounded number of messages under way."""

    def __init__(self, name: str, host: str, port: int, qos: int = 1) -> None:
        self._qos = qos
        self.published = 0
        self.acknowledged = 0
        self._changed = threading.Condition()
        self._client = _ReleasingClient(CallbackAPIVersion.VERSION2, client_id=f"station-{name}", clean_session=False)
        self._client.max_inflight_messages_set(_WINDOW)
        self._client.reconnect_delay_set(1, 2)
        self._client.on_publish = self._on_publish
        self._client.connect(host, port)
        self._client.loop_start()

    def publish(self, observation: Observation) -> None:
        """Publish one observation; waits while the window is full."""
        self._wait(_WINDOW - 1)
        self.published += 1
        self._client.publish(observation.topic, observation.payload, qos=self._qos)

    def finish(self) -> None:
        """Wait until everything is acknowledged, and disconnect."""
        self._wait(0)
        self._client.disconnect()
        self._client.loop_stop()

    def _wait(self, under_way: int) -> None:
        with self._changed:
            while self.published - self.acknowledged > under_way:
                if not self._changed.wait(60):
                    raise RuntimeError(f"the broker acknowledged nothing to {self._client} for 60 s")

    def _on_publish(self, client: Client, data: Any, mid: int, reason: Any, properties: Any) -> None:
        with self._changed:
            self.acknowledged += 1
            self._changed.notify_all()


class _ReleasingClient(Client):
    """A client of paho that releases a QoS 2 message with PUBREL however often it must try to come back.

    At the second attempt paho 2.2 forgets that the broker has taken a message, which is only to be released, and
    publishes it again without DUP. MQTT forbids that [MQTT-4.3.3-6], and no broker can tell it from a new message.
    """

    def _messages_reconnect_reset_out(self) -> None:
        with self._out_message_mutex:
            taken = [message for message in self._out_messages.values() if message.state == _RELEASE]
            super()._messages_reconnect_reset_out()
            for message in taken:
                message.state = _RELEASE


class AlertSubscriber:
    """Counts the wind alerts that the pipeline publishes."""

    def __init__(self, host: str, port: int) -> None:
        self.alerts: list[dict[str, Any]] = []
        self._subscribed = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2, client_id="alert-subscriber")
        self._client.on_connect = lambda client, *_: client.subscribe("alerts/wind/+", qos=1)
        self._client.on_subscribe = lambda *_: self._subscribed.set()
        self._client.on_message = self._on_message
        self._client.connect(host, port)
        self._client.loop_start()
        if not self._subscribed.wait(30):
            raise RuntimeError("the broker did not answer the subscription to alerts/wind/+ within 30 s")

    def wait_for(self, count: int, deadline_s: float) -> None:
        """Wait until so many alerts have come, or the time is over."""
        end = time.monotonic() + deadline_s
        while len(self.alerts) < count and time.monotonic() < end:
            time.sleep(0.05)

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()

    def _on_message(self, client: Client, data: Any, message: MQTTMessage) -> None:
        self.alerts.append(json.loads(message.payload) | {"topic": message.topic})


def replay(
    observations: Sequence[Observation], host: str, port: int, on_acknowledged: Callable[[int], None], qos: int = 1
) -> tuple[int, int]:
    """Publish all observations in the order of time, each through its own station; return how many of them were
    published and how many acknowledged.
    """
    names = {observation.station for observation in observations}
    stations = {name: Station(name, host, port, qos) for name in names}
    for number, observation in enumerate(observations):
        stations[observation.station].publish(observation)
        if number % 100 == 0:
            on_acknowledged(sum(station.acknowledged for station in stations.values()))
    for station in stations.values():
        station.finish()
    acknowledged = sum(station.acknowledged for station in stations.values())
    on_acknowledged(acknowledged)
    return sum(station.published for station in stations.values()), acknowledged

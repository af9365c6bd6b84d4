"""Sparkplug B in a broker: births are learned as they are published, and metrics become messages of their own.

A metric message has the topic `$sparkplug/<group>/<edge node>/<device>/<metric>`, where the level of the device is
empty for a metric of the edge node itself, and a JSON payload. Rules, subscribers and storage so see metrics by name,
whatever aliases the edge node uses; stored, they are what Spark reads.
"""

import logging
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from heliograph.broker.hooks import OK
from heliograph.broker.message import Message
from heliograph.mqtt.topic import topic_name_fault
from heliograph.observe.bounded_log import BoundedLog
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.json_text import encode_json
from heliograph.rules.schemas.interface import SchemaError
from heliograph.rules.schemas.sparkplug import DBIRTH, DDATA, NAMESPACE, NBIRTH, NDATA, EdgeTopic
from heliograph.rules.schemas.sparkplug_births import Births
from heliograph.rules.values import Value, bytes_of

_log: Final = logging.getLogger(__name__)

PREFIX: Final = "$sparkplug/"

_WITH_METRICS: Final = (NBIRTH, NDATA, DBIRTH, DDATA)
_LEVELS_MAX: Final = 128


class MetricOutlet(Protocol):
    def wants(self, topic: str) -> bool: ...

    def put(self, topic: str, payload: bytes) -> None:
        """Publish a message in a later turn of the event loop."""


class SparkplugService:
    """Looks at what is published below `spBv1.0/`. Lives as long as its node; the births are the process's."""

    def __init__(self, births: Births, outgoing: MetricOutlet | None, clock: Callable[[], int]) -> None:
        self._births = births
        self._outgoing = outgoing
        self._bounded_log = BoundedLog(_log, clock)
        self._published = 0
        self._unnamed = 0
        self._unpublishable = 0
        self._malformed = 0

    def publish_to(self, outgoing: MetricOutlet | None) -> None:
        self._outgoing = outgoing

    def wants(self, topic: str) -> bool:
        return topic.startswith(f"{NAMESPACE}/")

    def on_message_publish(self, message: Message, *_event_value: object) -> object:
        topic = EdgeTopic.of(message.topic)
        if topic is not None:
            evicted = self._births.evicted
            self._births.on_message(topic, message.payload)
            if self._births.evicted != evicted:
                self._tell_evicted(topic, self._births.evicted - evicted)
            if self._outgoing is not None and topic.type in _WITH_METRICS:
                self._publish_metrics(topic, message.payload, self._outgoing)
        return OK

    def statistics(self) -> dict[str, int]:
        return {
            **self._births.statistics(),
            "sparkplug.metrics.published": self._published,
            "sparkplug.metrics.unnamed": self._unnamed,
            "sparkplug.metrics.unpublishable": self._unpublishable,
            "sparkplug.payloads.malformed": self._malformed,
        }

    def _tell_evicted(self, topic: EdgeTopic, count: int) -> None:
        self._bounded_log.warn(
            "the birth of Sparkplug edge node %.200r of group %.200r had no room: %d edge nodes that were silent "
            "longest are forgotten until they are born again (schema_registry.sparkplug_b.max_aliases)",
            topic.edge,
            topic.group,
            count,
        )

    def _publish_metrics(self, topic: EdgeTopic, data: bytes, outgoing: MetricOutlet) -> None:
        try:
            metrics = self._births.metrics(topic, data)
        except SchemaError:
            self._malformed += 1
            return
        place = f"{PREFIX}{topic.group}/{topic.edge}/{topic.device or ''}/"
        for metric in metrics:
            assert isinstance(metric, dict)
            name = metric.get("name")
            if not isinstance(name, str):
                self._unnamed += 1
                continue
            self._publish(f"{place}{name}", topic, metric, outgoing)

    def _publish(self, name: str, topic: EdgeTopic, metric: Mapping[str, Value], outgoing: MetricOutlet) -> None:
        if topic_name_fault(name, _LEVELS_MAX) is not None:
            self._unpublishable += 1
            return
        if not outgoing.wants(name):
            return
        try:
            payload = encode_json(_event_value(topic, metric)).encode()
        except EvaluationFault:
            self._unpublishable += 1
            return
        self._published += 1
        outgoing.put(name, payload)


def _event_value(topic: EdgeTopic, metric: Mapping[str, Value]) -> Value:
    fields = {"group": topic.group, "edge_node": topic.edge, "device": topic.device, "type": topic.type, **metric}
    value = fields.get("value")
    if isinstance(value, str | bytes) and (isinstance(value, bytes) or metric.get("datatype") in ("Bytes", "File")):
        fields["value"] = b64encode(bytes_of(value)).decode()
    return fields

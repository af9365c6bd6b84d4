"""The types of sources of this process, each with the place of its class, which is loaded when one is used."""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from heliograph.sources.interface import MessageSource

_PLACES: Final[Mapping[str, str]] = {
    "mqtt": "heliograph.sources.mqtt:MqttSubscription",
    "kafka_consumer": "heliograph.sources.kafka:KafkaSubscription",
    "rabbitmq": "heliograph.sources.rabbitmq:RabbitmqSubscription",
    "nats": "heliograph.sources.nats:NatsSubscription",
}


def kind_of(name: str) -> type[MessageSource]:
    """The class of a type; raises `ValueError` if there is none."""
    place = _PLACES.get(name)
    if place is None:
        raise ValueError(f"there is no type {name!r} of sources; there are {', '.join(_PLACES)}")
    module, _, class_name = place.partition(":")
    found: type[MessageSource] = getattr(import_module(module), class_name)
    return found

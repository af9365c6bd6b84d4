"""The reference of the events that rules can read: titles, columns, an example for each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from heliograph.rules.events import COMMON_COLUMNS, EVENTS, PREFIX, Event, source_event
from heliograph.rules.samples import SAMPLES, sample_columns
from heliograph.rules.values import Value

_SOURCE: Final = source_event("mqtt:*")
_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "message.publish": "A message is published",
    "client.connected": "A client has connected",
    "client.disconnected": "A client has disconnected",
    "client.connack": "A client is answered with CONNACK, accepted or refused",
    "client.check_authn_complete": "It is decided who a client is",
    "client.check_authz_complete": "It is decided whether a client may do something",
    "session.subscribed": "A client has subscribed",
    "session.unsubscribed": "A client has unsubscribed",
    "message.delivered": "A message is sent to a subscriber",
    "message.acked": "A subscriber has acknowledged a message",
    "message.dropped": "A message is dropped, usually since nothing subscribes to its topic",
    "delivery.dropped": "A message is dropped for one subscriber, such as when its queue is full",
    "schema.validation_failed": "A message fails a schema validation",
    "message.transformation_failed": "A message cannot be transformed",
    "alarm.activated": "An alarm begins",
    "alarm.deactivated": "An alarm ends",
    _SOURCE.name: "A message comes in by a source, here one of the type mqtt and any name",
}
_COLUMNS: Final[Mapping[str, str]] = {
    "action": "publish or subscribe",
    "activated_at": "when the alarm began, in microseconds since the epoch",
    "clientid": "the client",
    "deactivated_at": "when the alarm ended, in microseconds since the epoch",
    "details": "what belongs to the alarm",
    "from_clientid": "the publisher",
    "from_username": "the user name of the publisher",
    "is_anonymous": "whether nothing was asked who the client is",
    "is_superuser": "whether the client may do everything",
    "message": "what the alarm says",
    "name": "the name of the alarm",
    "payload": "the payload of the message",
    "peername": "address and port of the client",
    "qos": "the QoS",
    "reason": "why",
    "reason_code": "what was decided",
    "result": "allow or deny",
    "topic": "the topic",
    "transformation": "the transformation",
    "username": "the user name of the client",
    "validation": "the validation",
}
_NOT_TRIED: Final = frozenset({"peername"})  # but for a client that connects


@dataclass(frozen=True, slots=True)
class EventFacts:
    """One event; a column of a test has a value and what it means."""

    event: str
    title: str
    description: str
    columns: list[str]
    test_columns: dict[str, tuple[Value, str]]
    sql_example: str


def event_reference() -> list[EventFacts]:
    return [_facts(None), *map(_facts, EVENTS), _facts(_SOURCE)]


def _facts(event: Event | None) -> EventFacts:
    name = "message.publish" if event is None else event.name
    topic = f"{PREFIX}message_publish" if event is None else event.topics[0]
    samples = sample_columns(event)
    columns = list(samples) if event is None else [*event.columns, *COMMON_COLUMNS]
    tested = {
        column: (samples.get(column, SAMPLES[column]), meaning)
        for column, meaning in _COLUMNS.items()
        if column in columns and (column not in _NOT_TRIED or name == "client.connected")
    }
    if event is None:
        example = "SELECT payload.msg as msg FROM \"t/#\" WHERE msg = 'hello'"
    else:
        example = f'SELECT * FROM "{topic}"' + (" WHERE topic =~ 't/#'" if "topic" in columns else "")
    return EventFacts(topic, name.replace(".", " ").replace("_", " "), _DESCRIPTIONS[name], columns, tested, example)

"""Clients and their messages as the API shows them: objects with EMQX's keys."""

import base64
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NotRequired

from typing_extensions import TypedDict

from heliograph.control.columns import Column, FactKind, In, answers_of, columns_in, schema_of
from heliograph.control.proto_v1.clients import CLIENT, ClientRow, QueuedMessage
from heliograph.management.web.times import rfc3339

_COLUMNS: Final = columns_in(CLIENT, In.API)
_NAMES: Final = ("clientid", "node", *(name for name in _COLUMNS if name != "clientid"))
_FIELDS_KEPT: Final = 16  # of so many lists of fields
KEYS: Final = frozenset(_NAMES)
SCHEMA: Final = schema_of(CLIENT)


class ClientMessage(TypedDict):
    """A message of the queue of a client.

    Attributes:
        publish_at: Milliseconds since the epoch.
        inserted_at: Nanoseconds since the epoch.
        payload: As the request wants it; left out with `none`.
        mqueue_priority: Of a message that was not sent yet.
    """

    msgid: str
    topic: str
    qos: int
    publish_at: int
    from_clientid: str
    from_username: str
    inserted_at: str
    payload_bytes: int
    payload: NotRequired[str]
    mqueue_priority: NotRequired[int]


def client_object(row: ClientRow, node: str, names: tuple[str, ...] = _NAMES) -> Any:
    """A client, which `json_response` writes.

    Args:
        names: The keys that it has, of `KEYS`; by default every key that EMQX has of it.
    """
    found = _answers(names)(row)
    if "node" in names:
        found.node = node
    return found


@lru_cache(_FIELDS_KEPT)
def _answers(names: tuple[str, ...]) -> Callable[[object], Any]:
    place = Column("node", "Node", FactKind.TEXT, field="clientid")  # its value is what is asked, not the row's
    return answers_of({name: place if name == "node" else _COLUMNS[name] for name in names}, rfc3339)


def message_object(row: QueuedMessage, payload: str, is_inflight: bool) -> ClientMessage:
    """A message of a client's queue.

    Args:
        payload: How its payload is shown: `base64`, `plain` or `none`.
    """
    found: ClientMessage = {
        "msgid": row.msgid.upper(),
        "topic": row.topic,
        "qos": row.qos,
        "publish_at": row.publish_at // 1000,
        "from_clientid": row.from_clientid,
        "from_username": row.from_username or "",
        "inserted_at": str(row.inserted_at * 1000),
        "payload_bytes": row.payload_bytes,
    }
    if payload == "base64":
        found["payload"] = base64.b64encode(row.payload).decode()
    elif payload == "plain":
        found["payload"] = row.payload.decode("utf-8", "replace")
    if not is_inflight:
        found["mqueue_priority"] = row.priority
    return found

"""How durable sessions lie in the database `sessions`: its keys, and the records behind them.

Format 1; docs/durable_sessions.md lists the keys. All values are JSON, so that later versions can add to them.
What decodes them raises `ValueError` for anything else.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from heliograph.broker.client import ClientInfo
from heliograph.broker.subscription import Subscription
from heliograph.session.cursor import Beginning
from heliograph.session.durable import DurableSession
from heliograph.session.group_delivery import GroupDelivery
from heliograph.session.will import Will

FORMAT: Final = 1
_text: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
COMPLETE_UP_TO: Final = b"w"
OFF_SINCE: Final = b"x"
SESSION: Final = b"s"
SUBSCRIPTION: Final = b"u"
TAKEN: Final = b"r"
TAKEN_UP_TO: Final = b"q"
ORPHAN: Final = b"o"
WILL: Final = b"l"


class Inflight(NamedTuple):
    """A message in flight: how it was sent, and where it is."""

    packet_id: int
    qos: int
    phase: int
    retain: bool
    subscription_id: int
    after_us: int
    id_high: int
    id_low: int
    topic: str


class SessionRecord(NamedTuple):
    """What is saved of a session beside its subscriptions."""

    expiry_s: int
    mountpoint: str
    created_at_us: int
    left_us: int  # 0: its client was connected
    qos0_after_us: int
    cursor_us: int
    last_packet_id: int
    assigned: list[tuple[int, int, int]]  # id and QoS
    inflight: list[Inflight]
    owner: str | None


class SubscriptionRecord(NamedTuple):
    """What is saved of a subscription; the last two only where commits were under way when it was made."""

    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    subscription_id: int
    made_us: int
    mountpoint: str = ""
    received_us: int = 0
    until_us: int = 0

    @property
    def beginning(self) -> Beginning:
        return Beginning(self.made_us, self.received_us, self.until_us)


class WillRecord(NamedTuple):
    due_us: int  # on the wall clock; 0: its client was connected
    delay_s: int
    topic: str
    payload: bytes
    qos: int
    retain: bool
    property_bytes: bytes
    expiry_s: int
    id_low: int
    username: str | None
    mountpoint: str
    granted: str = ""  # what the client's own rights said of it when it was saved; see `Authorizer.granted`
    listener: str = ""
    zone: str = ""
    peername: str = ""
    client_attrs: Mapping[str, str] = MappingProxyType({})


def session_key(clientid: str) -> bytes:
    return SESSION + clientid.encode()


def subscription_key(clientid: str, name: str) -> bytes:
    return SUBSCRIPTION + clientid.encode() + b"\0" + name.encode()


def taken_prefix(clientid: str) -> bytes:
    return TAKEN + clientid.encode() + b"\0"


def taken_key(clientid: str, packet_id: int) -> bytes:
    return taken_prefix(clientid) + packet_id.to_bytes(2, "big")


def taken_up_to_key(clientid: str) -> bytes:
    """The key of the time up to which those of a client are complete."""
    return TAKEN_UP_TO + clientid.encode()


def orphan_prefix(clientid: str) -> bytes:
    """What the keys of a client's messages begin with that were stored without their packet identifiers."""
    return ORPHAN + clientid.encode() + b"\0"


def orphan_key(clientid: str, topic: bytes, payload: bytes, property_bytes: bytes) -> bytes:
    """The key of such a message: what it says is all that a repetition has in common with it."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (topic, property_bytes, payload):
        digest.update(len(part).to_bytes(4, "big") + part)
    return orphan_prefix(clientid) + digest.digest()


def will_key(clientid: str, number: int) -> bytes:
    return WILL + clientid.encode() + b"\0" + number.to_bytes(8, "big")


def encode_will(will: Will, due_us: int, client: ClientInfo, granted: str) -> bytes:
    """The record of a will.

    Args:
        due_us: When it is to be published, on the wall clock; 0 while its client is connected.
    """
    message = will.message
    texts = [b64encode(data).decode() for data in (message.payload, message.property_bytes)]
    numbers = (int(message.qos), bool(message.retain), int(message.expiry_s), int(message.id_low))
    about = (granted, client.listener, client.zone, client.peername, dict(client.client_attrs))
    return _written(
        (due_us, int(will.delay_s), message.topic, *texts, *numbers, message.username, client.mountpoint, *about)
    )


def decode_will(value: bytes) -> WillRecord:
    due_us, delay_s, topic, payload, properties, qos, retain, *rest = _read(value)
    return WillRecord(due_us, delay_s, topic, b64decode(payload), qos, retain, b64decode(properties), *rest)


def encode_taken(ticket: int, id_high: int, id_low: int) -> bytes:
    """The record of a message that was taken: the ticket of its commit, 0 if that is known to be done, and its id."""
    return json.dumps([ticket, id_high, id_low]).encode()


def decode_taken(value: bytes) -> tuple[int, int, int]:
    ticket, id_high, id_low = _read(value)
    return ticket, id_high, id_low


def encode_orphans(count: int, id_high: int, id_low: int) -> bytes:
    """The record of messages without their identifiers that say the same: how many, and the id of the newest."""
    return json.dumps([count, id_high, id_low]).encode()


def decode_orphans(value: bytes) -> tuple[int, int, int]:
    count, id_high, id_low = _read(value)
    return count, id_high, id_low


def encode_pair(first: int, second: int) -> bytes:
    """Up to where records are complete: the two halves of a message id, or a commit time and its ticket."""
    return json.dumps([first, second]).encode()


def decode_pair(value: bytes) -> tuple[int, int]:
    first, second = _read(value)
    return first, second


def owner(key: bytes) -> tuple[str, bytes]:
    """Whose a key is, and what stands behind the client id."""
    clientid, _, rest = key[1:].partition(b"\0")
    return clientid.decode(), rest


def encode_session(session: DurableSession, lost: Sequence[Inflight]) -> bytes:
    """The record of a session as it is now; `lost` is what is in flight, but was not read back yet."""
    assigned = session.backlog.assigned()
    inflight = [_text(one) for one in lost]
    for packet_id, delivery in session.sender.window.deliveries.items():
        if delivery.qos == 1 and isinstance(delivery, GroupDelivery):
            continue  # its group knows that it is not done
        text = delivery.record
        if text is None:
            message = delivery.message
            place = (int(delivery.after_us), int(message.id_high), int(message.id_low), message.topic)
            flags = (int(delivery.qos), int(delivery.phase), bool(delivery.retain), int(delivery.subscription_id))
            text = delivery.record = _text((packet_id, *flags, *place))
        inflight.append(text)
    record = (
        FORMAT,
        int(session.expiry_interval_s),
        session.mountpoint,
        int(session.created_at_us),
        int(session.left_us),
        int(session.backlog.qos0_after_us),
        int(session.backlog.cursor.at_us),
        int(session.sender.window.last_id),
        assigned,
    )
    return f"{_text(record)[:-1]},[{','.join(inflight)}],{_text(session.owner)}]".encode()


def decode_session(value: bytes) -> SessionRecord:
    version, *rest = _read(value)
    if version != FORMAT:
        raise ValueError(f"a session of format {version}; this version knows {FORMAT}")
    expiry_s, mountpoint, created_us, left_us, qos0_us, cursor_us, packet_id, assigned, inflight, *owner = rest
    ids = [(high, low, qos) for high, low, qos in assigned]
    sent = [Inflight(*one) for one in inflight]
    return SessionRecord(
        expiry_s, mountpoint, created_us, left_us, qos0_us, cursor_us, packet_id, ids, sent, owner[0] if owner else None
    )


def with_left(value: bytes, left_us: int) -> bytes:
    """The record of a session whose client was connected until that time."""
    fields = _read(value)
    fields[4] = fields[5] = left_us
    return _written(fields)


def encode_subscription(subscription: Subscription, beginning: Beginning, mountpoint: str) -> bytes:
    options = (int(subscription.qos), subscription.no_local, subscription.retain_as_published)
    numbers = (int(subscription.retain_handling), int(subscription.subscription_id), int(beginning.stored_us))
    received_us = int(beginning.received_us)
    under_way = (received_us, int(beginning.until_us)) if received_us else ()
    return _written((*options, *numbers, mountpoint, *under_way))


def decode_subscription(value: bytes) -> SubscriptionRecord:
    fields = _read(value)
    try:
        return SubscriptionRecord(*fields)
    except TypeError:
        raise ValueError(f"a subscription of {len(fields)} fields") from None


def is_open(value: bytes) -> bool:
    """Whether a subscription's record says of what was received at some time that it is older, whenever it was stored.

    A start asks it of all of them, so nothing is decoded: other records end with the mountpoint or a later time.
    """
    return value.endswith(b",0]")


def has_mountpoint(value: bytes) -> bool:
    """Whether a subscription's record has a mountpoint, the only text in it: seen without decoding it."""
    return b',""' not in value


def closed(value: bytes, until_us: int) -> bytes:
    """The same record, for what was stored up to a commit time."""
    saved = decode_subscription(value)
    if until_us <= saved.made_us:
        return _written(saved[:-2])
    return _written(saved._replace(until_us=until_us))


def _written(fields: Sequence[object]) -> bytes:
    return _text(fields).encode()


def _read(value: bytes) -> list[Any]:
    fields = json.loads(value)
    if not isinstance(fields, list):
        raise ValueError(f"{value[:40]!r} is no record")
    return fields

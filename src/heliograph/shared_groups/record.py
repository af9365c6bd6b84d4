"""How durable groups lie on the disk: keys of the database `shared_groups`, and two kinds of records in `sessions`.

Format 1; docs/shared_groups.md lists the keys. Values are JSON, so that later versions can add to them.
What decodes them raises `ValueError` for anything else.
"""

import json
from typing import Any, Final, NamedTuple

from heliograph.shared_groups.protocol import GroupName, MessageId, Progress, Share
from heliograph.storage.interface import Position

FORMAT: Final = 1

# In `shared_groups`.
GROUP: Final = b"g"
PROGRESS: Final = b"p"

# In `sessions`, committed with what they belong to.
MEMBER: Final = b"m"
BORROWED: Final = b"b"


class GroupRecord(NamedTuple):
    """Who leads a group, until when, and where the group begins.

    Attributes:
        term: Rises with each leader, of which `leader` names the node and what tells its leaders apart.
        since_us: Streams that nothing is known of begin behind this commit time;
        made_us: and messages that the broker received before this time are not the group's.
    """

    leader: str
    lease_until_us: int
    term: int
    since_us: int
    made_us: int


class Borrowed(NamedTuple):
    """A QoS 2 message of a group that a session has, while its group may not know yet."""

    group: GroupName
    share: Share
    message: MessageId


def group_key(group: GroupName) -> bytes:
    return GROUP + _name(group)


def group_of(key: bytes) -> GroupName:
    name, _, topic_filter = key[1:].partition(b"\0")
    return GroupName(name.decode(), topic_filter.decode())


def progress_prefix(group: GroupName) -> bytes:
    return PROGRESS + _name(group) + b"\0"


def progress_key(group: GroupName, share: Share) -> bytes:
    return progress_prefix(group) + str(share).encode()


def share_of_key(group: GroupName, key: bytes) -> Share:
    """The share that a key of a group's progress names."""
    return Share.parse(key[len(progress_prefix(group)) :].decode())


def encode_group(group: GroupRecord) -> bytes:
    return json.dumps([FORMAT, *group]).encode()


def decode_group(value: bytes) -> GroupRecord:
    version, leader, lease_until_us, term, since_us, made_us = _read(value)
    if version != FORMAT:
        raise ValueError(f"a group of format {version}; this version knows {FORMAT}")
    return GroupRecord(str(leader), int(lease_until_us), int(term), int(since_us), int(made_us))


def encode_progress(progress: Progress) -> bytes:
    return json.dumps([*progress.position[:3], progress.done], separators=(",", ":")).encode()


def decode_progress(value: bytes) -> Progress:
    time, sequence, row, done = _read(value)
    return Progress(Position(time, sequence, row), tuple((int(high), int(low)) for high, low in done))


def member_key(group: GroupName, clientid: str) -> bytes:
    """The key of a durable session's membership; its value is when it began."""
    return MEMBER + _name(group) + b"\0" + clientid.encode()


def member_of_key(key: bytes) -> tuple[GroupName, str]:
    name, topic_filter, clientid = key[1:].split(b"\0", 2)
    return GroupName(name.decode(), topic_filter.decode()), clientid.decode()


def borrowed_key(clientid: str, message: MessageId) -> bytes:
    """The key of a QoS 2 message that a session has of a group."""
    high, low = message
    return BORROWED + clientid.encode() + b"\0" + high.to_bytes(8, "big") + low.to_bytes(8, "big")


def client_of_borrowed(key: bytes) -> str:
    return key[1:-17].decode()


def encode_borrowed(group: GroupName, share: Share) -> bytes:
    """Its value: the group, and where it keeps count of the message."""
    return json.dumps([group.name, group.topic_filter, str(share)], ensure_ascii=False).encode()


def decode_borrowed(key: bytes, value: bytes) -> Borrowed:
    name, topic_filter, share = _read(value)
    message = int.from_bytes(key[-16:-8], "big"), int.from_bytes(key[-8:], "big")
    return Borrowed(GroupName(name, topic_filter), Share.parse(share), message)


def _name(group: GroupName) -> bytes:
    return group.name.encode() + b"\0" + group.topic_filter.encode()


def _read(value: bytes) -> list[Any]:
    fields = json.loads(value)
    if not isinstance(fields, list):
        raise ValueError(f"{value[:40]!r} is no record")
    return fields

"""Delayed messages: what is asked of them, and answers."""

import msgspec

from heliograph.rpc.methods import Args


class DelayedInfo(msgspec.Struct, frozen=True):
    """How much is held, by the names that metrics have, and where: `ram` or `disc`."""

    storage: str
    counts: dict[str, float]


class DelayedNumber(Args, frozen=True):
    """One delayed message, by its number."""

    id: int


class DelayedRow(msgspec.Struct, frozen=True):
    """A message that is published later; times are microseconds since the epoch.

    Attributes:
        id: Its number.
        topic: To which it is published.
        bytes: Of its payload.
        expected_at: When it is published.
    """

    id: int
    topic: str
    qos: int
    bytes: int
    clientid: str
    username: str | None
    received_at: int
    expected_at: int


class DelayedMessageRow(msgspec.Struct, frozen=True):
    """The same with its payload, 256 KiB at most."""

    row: DelayedRow
    payload: bytes

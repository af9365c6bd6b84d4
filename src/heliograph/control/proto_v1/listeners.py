"""Listeners: what is asked of them, and answers."""

import msgspec

from heliograph.rpc.methods import Args


class ListenerName(Args, frozen=True):
    """One listener by its kind and name, as `tcp:default`."""

    id: str


class ListenerRow(msgspec.Struct, frozen=True):
    """A listener that is enabled.

    Attributes:
        id: Its kind and name.
        address: Where clients connect.
        is_listening: False while it is stopped.
        max_connections: None for no limit.
        counts: By the names that metrics have below `listeners`.
    """

    id: str
    address: str
    is_listening: bool
    connections: int
    max_connections: int | None
    zone: str
    counts: dict[str, int]


class ListenerChanged(msgspec.Struct, frozen=True):
    """A listener after an action.

    Attributes:
        has_changed: False where it was so already.
    """

    id: str
    is_listening: bool
    has_changed: bool


class CertificatesRead(msgspec.Struct, frozen=True):
    """Certificates were read again, and hold for connections that come from then on.

    Attributes:
        listeners: Whose.
    """

    listeners: list[str]

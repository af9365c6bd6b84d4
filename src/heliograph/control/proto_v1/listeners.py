"""Listeners: what is asked of them, and answers."""

import msgspec

from heliograph.rpc.asks import ACTS, CONFIGURES, EQUAL, LISTED, ONE, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs


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


LISTENERS_LIST = ListAsk("listeners.list", NoArgs, ListenerRow, LISTED)
LISTENERS_START = Ask("listeners.start", ListenerName, ListenerChanged, ONE, ACTS)
LISTENERS_STOP = Ask("listeners.stop", ListenerName, ListenerChanged, ONE, ACTS, is_vital=True)
LISTENERS_RESTART = Ask("listeners.restart", ListenerName, ListenerChanged, ONE, ACTS)
CERTIFICATES_RELOAD = Ask("certificates.reload", NoArgs, CertificatesRead, EQUAL, CONFIGURES)

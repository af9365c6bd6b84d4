"""Authenticators: what is asked of them, and answers."""

import msgspec

from heliograph.rpc.asks import CONFIGURES, STATE, SUMMED, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs


class AuthnName(Args, frozen=True):
    """One authenticator.

    Attributes:
        id: Mechanism and backend, as `password_based:mysql`.
        chain: The listener whose own chain it is in, as `tcp:default`; empty for that of all others.
    """

    id: str
    chain: str = ""


class AuthnSettings(Args, frozen=True):
    """The settings of an authenticator that is added, or takes the place of the one of its id.

    Attributes:
        text: HOCON.
        chain: As in `AuthnName`.
        id: The one whose place it takes; empty for one that is added.
    """

    text: str
    chain: str = ""
    id: str = ""


class AuthnMove(Args, frozen=True):
    """Another place for an authenticator.

    Attributes:
        position: `front`, `rear`, `before:ID` or `after:ID`.
    """

    id: str
    position: str
    chain: str = ""


class AuthnOrder(Args, frozen=True):
    """All authenticators of a chain in another order."""

    ids: tuple[str, ...]
    chain: str = ""


class AuthnRow(msgspec.Struct, frozen=True):
    """One authenticator.

    Attributes:
        chain: `global`, or the listener.
        id: Mechanism and backend.
        state: `enabled`, `disabled`, or why it cannot work now.
        precondition: Which clients it is asked about; empty for all.
        counts: By the names that metrics have below `authenticator`; empty while it is disabled.
        rates: How fast it is asked: `rate`, `rate.max`, `rate.last5m`, per second.
    """

    chain: str
    id: str
    state: str
    precondition: str
    counts: dict[str, int]
    rates: dict[str, float] = msgspec.field(default_factory=dict)


class AuthnShown(msgspec.Struct, frozen=True):
    """The settings of one, as a file has them, with stars for secrets."""

    chain: str
    id: str
    text: str


class AuthnChanged(msgspec.Struct, frozen=True):
    """A chain after a change.

    Attributes:
        ids: Its authenticators, in their order.
        revision: Of the configuration.
    """

    chain: str
    ids: tuple[str, ...]
    revision: int


AUTHN_LIST = ListAsk("authn.list", NoArgs, AuthnRow, SUMMED)
AUTHN_SHOW = Ask("authn.show", AuthnName, AuthnShown, STATE)
AUTHN_STATUS = Ask("authn.status", AuthnName, AuthnRow, SUMMED)
AUTHN_ADD = Ask("authn.add", AuthnSettings, AuthnChanged, STATE, CONFIGURES)
AUTHN_UPDATE = Ask("authn.update", AuthnSettings, AuthnChanged, STATE, CONFIGURES)
AUTHN_DELETE = Ask("authn.delete", AuthnName, AuthnChanged, STATE, CONFIGURES)
AUTHN_ENABLE = Ask("authn.enable", AuthnName, AuthnChanged, STATE, CONFIGURES)
AUTHN_DISABLE = Ask("authn.disable", AuthnName, AuthnChanged, STATE, CONFIGURES)
AUTHN_MOVE = Ask("authn.move", AuthnMove, AuthnChanged, STATE, CONFIGURES)
AUTHN_ORDER = Ask("authn.order", AuthnOrder, AuthnChanged, STATE, CONFIGURES)

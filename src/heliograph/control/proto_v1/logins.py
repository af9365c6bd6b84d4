"""Logins that have to wait since others failed: what is asked of them, and answers."""

import msgspec

from heliograph.rpc.asks import ACTS, EQUAL, LISTED, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs


class LoginAddress(Args, frozen=True):
    """The address whose logins need not wait any more."""

    address: str


class WaitingLoginRow(msgspec.Struct, frozen=True):
    """What has to wait.

    Attributes:
        name: The user name, or the client id of a client without one; empty for all of the address that have not logged
            in from it before.
        wait_s: For how many seconds more.
        is_device: Whether it is a known device of that user, apart from the others.
    """

    address: str
    name: str
    wait_s: float
    is_device: bool = False


class LoginsLifted(msgspec.Struct, frozen=True):
    """How many need not wait any more."""

    count: int


LOGINS_LIST = ListAsk("logins.list", NoArgs, WaitingLoginRow, LISTED)
LOGINS_LIFT = Ask("logins.lift", LoginAddress, LoginsLifted, EQUAL, ACTS)

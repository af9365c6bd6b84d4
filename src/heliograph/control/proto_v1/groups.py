"""Groups of settings that have names, such as rules and schemas: what is asked of them, and answers."""

import msgspec

from heliograph.rpc.methods import Args


class NamedGroup(Args, frozen=True):
    """One of them."""

    name: str


class GroupSettings(Args, frozen=True):
    """The settings of one, in the place of those that it has.

    Attributes:
        text: HOCON or JSON.
        is_new: Whether it is refused where there is one of that name.
    """

    name: str
    text: str
    is_new: bool = False


class GroupOrder(Args, frozen=True):
    """All of a list in another order."""

    names: tuple[str, ...]


class GroupSwitch(Args, frozen=True):
    """Switches one on or off."""

    name: str
    is_enabled: bool


class GroupShown(msgspec.Struct, frozen=True):
    """The settings of one.

    Attributes:
        text: JSON, with stars for secrets.
        counts: By the names that metrics have; empty where nothing is counted of it.
    """

    name: str
    text: str
    counts: dict[str, int] = msgspec.field(default_factory=dict)


class GroupChanged(msgspec.Struct, frozen=True):
    """What a change came to.

    Attributes:
        revision: Of the configuration.
    """

    name: str
    revision: int

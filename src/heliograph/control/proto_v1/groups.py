"""Groups of settings that have names, such as rules and schemas: what is asked of them, and answers."""

import msgspec

from heliograph.rpc.asks import ACTS, CONFIGURES, EQUAL, STATE, SUMMED, Ask, ListAsk
from heliograph.rpc.methods import Args, NarrowingArgs, NoArgs


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


class GroupRemoval(NarrowingArgs, frozen=True):
    """One that is to be deleted.

    Attributes:
        with_dependents: Delete what depends on it too, or take it out of that; without, it is refused if anything does.
    """

    name: str
    with_dependents: bool = False


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


class ChangeAsks:
    """What changes things that have names in the configuration.

    Args:
        area: Before the dot of their names.
    """

    def __init__(self, area: str) -> None:
        self.area = area
        self.put = Ask(f"{area}.put", GroupSettings, GroupChanged, STATE, CONFIGURES)
        self.delete = Ask(f"{area}.delete", GroupRemoval, GroupChanged, STATE, CONFIGURES)


class NamedAsks(ChangeAsks):
    """The same of those of which nothing is known but their settings."""

    def __init__(self, area: str) -> None:
        super().__init__(area)
        self.list = ListAsk(f"{area}.list", NoArgs, GroupShown, STATE)
        self.show = Ask(f"{area}.show", NamedGroup, GroupShown, STATE)


class OrderedAsks:
    """What can be asked of groups in a list whose order counts, and which the node counts something of.

    Args:
        area: Before the dot of their names.
    """

    def __init__(self, area: str) -> None:
        self.list = ListAsk(f"{area}.list", NoArgs, GroupShown, SUMMED)
        self.show = Ask(f"{area}.show", NamedGroup, GroupShown, SUMMED)
        self.add = Ask(f"{area}.add", GroupSettings, GroupChanged, STATE, CONFIGURES)
        self.update = Ask(f"{area}.update", GroupSettings, GroupChanged, STATE, CONFIGURES)
        self.delete = Ask(f"{area}.delete", NamedGroup, GroupChanged, STATE, CONFIGURES)
        self.switch = Ask(f"{area}.switch", GroupSwitch, GroupChanged, STATE, CONFIGURES)
        self.order = Ask(f"{area}.order", GroupOrder, GroupChanged, STATE, CONFIGURES)
        self.reset = Ask(f"{area}.reset", NamedGroup, GroupShown, EQUAL, ACTS)


RULES = ChangeAsks("rules")
LISTENERS = ChangeAsks("listeners")
SCHEMAS = NamedAsks("schemas")
SCHEMA_REGISTRIES = NamedAsks("schema_registries")
VALIDATIONS = OrderedAsks("validations")
TRANSFORMATIONS = OrderedAsks("transformations")

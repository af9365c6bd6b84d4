"""Connectors and actions: what is asked of them, and answers."""

from typing import Generic, TypeVar

import msgspec

from heliograph.rpc.asks import ACTS, CONFIGURES, EQUAL, ONE, STATE, SUMMED, Ask, ListAsk
from heliograph.rpc.methods import Args, NarrowingArgs, NoArgs


class ActionId(Args, frozen=True):
    """A connector or an action, by its type and name."""

    type: str
    name: str


class ActionPut(Args, frozen=True):
    """The settings of one, in the place of those that it has.

    Attributes:
        text: HOCON or JSON.
        is_new: Whether it is refused where there is one of that name.
    """

    type: str
    name: str
    text: str
    is_new: bool = False


class ActionDelete(NarrowingArgs, frozen=True):
    """One that is to go.

    Attributes:
        with_dependents: Whether a connector takes its actions with it, and an action is taken out of its rules.
            Without, it is refused where there are any.
    """

    type: str
    name: str
    with_dependents: bool = False


class ActionSwitch(Args, frozen=True):
    """Switches one on or off."""

    type: str
    name: str
    is_enabled: bool


class ConnectorRow(msgspec.Struct, frozen=True):
    """A connector.

    Attributes:
        status: `connected`, `connecting` or `disconnected`.
        reason: Why, where it is not connected.
        actions: The names of the actions that use it.
    """

    type: str
    name: str
    is_enabled: bool
    status: str
    reason: str
    actions: list[str]


class ActionRow(msgspec.Struct, frozen=True):
    """An action.

    Attributes:
        status: `connected`, `connecting` or `disconnected`.
        reason: Why, where it is not connected.
        rules: The ids of the rules that name it.
        counts: By the names that EMQX has.
        rates: Rows in a second, likewise.
    """

    type: str
    name: str
    connector: str
    is_enabled: bool
    status: str
    reason: str
    rules: list[str]
    counts: dict[str, int]
    rates: dict[str, float]


class ActionChanged(msgspec.Struct, frozen=True):
    """What a change came to.

    Attributes:
        revision: Of the configuration.
    """

    type: str
    name: str
    revision: int


class ActionTested(msgspec.Struct, frozen=True):
    """A test that succeeded."""

    type: str
    name: str


RowT = TypeVar("RowT", ConnectorRow, ActionRow)


class IntegrationAsks(Generic[RowT]):
    """What can be asked of connectors, and of actions.

    Args:
        area: Before the dot of their names.
        row: The type of a row.
    """

    def __init__(self, area: str, row: type[RowT]) -> None:
        self.area = area
        self.list: ListAsk[NoArgs, RowT] = ListAsk(f"{area}.list", NoArgs, row, SUMMED)
        self.start: Ask[ActionId, RowT] = Ask(f"{area}.start", ActionId, row, EQUAL, ACTS)
        self.put = Ask(f"{area}.put", ActionPut, ActionChanged, STATE, CONFIGURES)
        self.delete = Ask(f"{area}.delete", ActionDelete, ActionChanged, STATE, CONFIGURES)
        self.switch = Ask(f"{area}.switch", ActionSwitch, ActionChanged, STATE, CONFIGURES)
        self.probe = Ask(f"{area}.probe", ActionPut, ActionTested, ONE, ACTS, secrets=frozenset({"text"}))


CONNECTORS = IntegrationAsks("connectors", ConnectorRow)
ACTIONS = IntegrationAsks("actions", ActionRow)
ACTIONS_RESET = Ask("actions.reset", ActionId, ActionRow, EQUAL, ACTS)

"""Connectors, actions and sources: what is asked of them, and answers."""

from typing import Generic, TypeVar

import msgspec

from heliograph.control.proto_v1.groups import (
    ChangeAsks,
    GroupChanged,
    GroupSettings,
    GroupShown,
    GroupSwitch,
    NamedGroup,
)
from heliograph.rpc.asks import ACTS, CONFIGURES, EQUAL, ONE, STATE, SUMMED, Ask, ListAsk
from heliograph.rpc.methods import NoArgs


class ConnectorRow(msgspec.Struct, frozen=True):
    """A connector.

    Attributes:
        status: `connected`, `connecting` or `disconnected`.
        reason: Why, where it is not connected.
        actions: The names of the actions that use it.
        sources: The names of the sources that use it.
    """

    type: str
    name: str
    is_enabled: bool
    status: str
    reason: str
    actions: list[str]
    sources: list[str] = msgspec.field(default_factory=list)


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


class SourceRow(msgspec.Struct, frozen=True):
    """A source.

    Attributes:
        connector: Empty for a type that has none.
        status: `connected`, `connecting` or `disconnected`.
        reason: Why, where it is not connected, or where its messages wait.
        rules: The ids of the rules that read it.
        counts: `received`, `dropped`, and `dropped.REASON` for each reason that there was.
        rates: Messages in a second.
        last_error: Of the last message that was dropped.
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
    last_error: str


RowT = TypeVar("RowT", ConnectorRow, ActionRow, SourceRow)


class IntegrationAsks(ChangeAsks, Generic[RowT]):
    """What can be asked of connectors, of actions, and of sources; their names are as `http:my_action`.

    Args:
        area: Before the dot of their names.
        row: The type of a row.
    """

    def __init__(self, area: str, row: type[RowT]) -> None:
        super().__init__(area)
        self.list: ListAsk[NoArgs, RowT] = ListAsk(f"{area}.list", NoArgs, row, SUMMED)
        self.show = Ask(f"{area}.show", NamedGroup, GroupShown, STATE)
        self.start: Ask[NamedGroup, RowT] = Ask(f"{area}.start", NamedGroup, row, EQUAL, ACTS)
        self.switch = Ask(f"{area}.switch", GroupSwitch, GroupChanged, STATE, CONFIGURES)
        self.probe = Ask(f"{area}.probe", GroupSettings, NamedGroup, ONE, ACTS, secrets=frozenset({"text"}))


CONNECTORS = IntegrationAsks("connectors", ConnectorRow)
ACTIONS = IntegrationAsks("actions", ActionRow)
SOURCES = IntegrationAsks("sources", SourceRow)
SOURCES_RESET = Ask("sources.reset", NamedGroup, SourceRow, EQUAL, ACTS)
ACTIONS_RESET = Ask("actions.reset", NamedGroup, ActionRow, EQUAL, ACTS)

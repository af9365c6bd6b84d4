"""Rules that run in the broker: what is asked of them, and answers."""

import json
from typing import Annotated, Any, Final

import msgspec
from typing_extensions import TypedDict

from heliograph.control.columns import Fact
from heliograph.rpc.asks import ACTS, EQUAL, ONE, STATE, SUMMED, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs


class RuleId(Args, frozen=True):
    """One rule."""

    id: str


class RuleRow(msgspec.Struct, frozen=True):
    """A rule.

    Attributes:
        topics: What its FROM names.
        counts: By the names that metrics have.
        last_error: What the log said of it last; empty for nothing.
        last_error_at: When that was, in microseconds since the epoch; 0 for never.
    """

    id: str
    enable: bool
    topics: list[str]
    counts: dict[str, int]
    last_error: str
    last_error_at: int


class RuleFacts(msgspec.Struct, frozen=True):
    """A rule with its text.

    Attributes:
        actions: Their kinds.
        may_block: Whether it is evaluated in threads.
    """

    row: RuleRow
    description: str
    sql: str
    actions: list[str]
    may_block: bool


class RuleShown(msgspec.Struct, frozen=True):
    """A rule as programs see it.

    Attributes:
        name: What people call it.
        topics: What its FROM names.
        actions: As JSON: a list of texts and objects.
        created_at: Milliseconds since the epoch, as is `last_modified_at`.
        metadata: JSON.
        counts: By the names that metrics have.
        rates: How fast it matches, per second: `rate`, `rate.max` and `rate.last5m`.
    """

    id: str
    name: str
    description: str
    enable: bool
    sql: str
    topics: Annotated[list[str], Fact("from")]
    actions: Annotated[str, Fact(answered=json.loads, answers=list[str | dict[str, Any]])]
    created_at: Annotated[int, Fact(time_us=1000)]
    last_modified_at: Annotated[int, Fact(time_us=1000)]
    metadata: Annotated[str, Fact(answered=json.loads, answers=dict[str, Any])]
    counts: Annotated[dict[str, int], Fact(is_shown=False)]
    rates: Annotated[dict[str, float], Fact(is_shown=False)]


class RuleTrial(Args, frozen=True):
    """A rule that is tried on columns.

    Attributes:
        context: Columns as a JSON object, with `event_type`; those that are left out have sample values.
        sql: The rule; empty for the one of `id`.
    """

    context: str
    sql: str = ""
    id: str = ""


class RuleTried(msgspec.Struct, frozen=True):
    """What came of a trial.

    Attributes:
        is_match: Whether there are rows.
        output: The rows as JSON: of SELECT one object, of FOREACH a list.
    """

    is_match: bool
    output: str


class EventText(TypedDict):
    """A text in the languages that EMQX has."""

    en: str
    zh: str


_TEXT: Final = Fact(answered=lambda text: {"en": text, "zh": text}, answers=EventText)


class RuleEvent(msgspec.Struct, frozen=True):
    """An event that rules can read.

    Attributes:
        event: Its topic.
        test_columns: As JSON: for each column that a trial gives, a value and what it means.
    """

    event: str
    title: Annotated[str, _TEXT]
    description: Annotated[str, _TEXT]
    columns: list[str]
    test_columns: Annotated[str, Fact(answered=json.loads, answers=dict[str, list[Any]])]
    sql_example: str


RULES_LIST = ListAsk("rules.list", NoArgs, RuleRow, SUMMED)
RULES_SHOW = Ask("rules.show", RuleId, RuleFacts, SUMMED)
RULES_ALL = ListAsk("rules.all", NoArgs, RuleShown, SUMMED)
RULES_ONE = Ask("rules.one", RuleId, RuleShown, SUMMED)
RULES_RESET = Ask("rules.reset", RuleId, RuleShown, EQUAL, ACTS)
RULES_EVENTS = ListAsk("rules.events", NoArgs, RuleEvent, STATE)
RULES_TRY = Ask("rules.try", RuleTrial, RuleTried, STATE)
RULES_RUN = Ask("rules.run", RuleTrial, RuleTried, ONE, ACTS, secrets=frozenset({"context"}))

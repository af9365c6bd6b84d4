"""The configuration of a node: what holds, changes of it, and its revisions."""

import json
from typing import Annotated, Any

import msgspec

from heliograph.control.columns import SECOND_US, Fact
from heliograph.rpc.asks import CONFIGURES, EQUAL, STATE, Ask, ListAsk
from heliograph.rpc.methods import Args, NarrowingArgs, NoArgs


class ConfShowArgs(Args, frozen=True):
    """Asks for settings.

    Attributes:
        path: The setting, or the group that they are in; empty for all.
        inherited: Whether what zones inherit is among them.
        hides_sent: Whether what servers are sent has stars for its constant texts.
    """

    path: str = ""
    inherited: bool = False
    hides_sent: bool = False


class ConfSetting(msgspec.Struct, frozen=True):
    """One setting that holds.

    Attributes:
        path: Where it stands.
        value: As a file would have it, with stars for secrets.
        origin: The layer that set it, with file and line.
        how: How it changes: `live`, `new connections`, `listener replaced` or `restart`.
        plain: The same as JSON; `null` where it has no value.
        secrets: Where in the value secrets stand, as declarations say: names and numbers, none for the value itself.
        inherited_from: The setting of the root from which a zone has it, with its origin; empty for all others.
    """

    path: str
    value: str
    origin: str
    how: str
    plain: Annotated[str, Fact(answered=json.loads, answers=Any)] = "null"
    secrets: Annotated[tuple[tuple[str, ...], ...], Fact(is_shown=False)] = ()
    inherited_from: Annotated[str, Fact(is_null_if_empty=True)] = ""


class ConfKey(msgspec.Struct, frozen=True):
    """A root of the configuration."""

    name: str
    description: str


class ConfChangeArgs(NarrowingArgs, frozen=True):
    """A change, for `conf.change` and `conf.plan`.

    Attributes:
        text: HOCON.
        mode: `merge` or `replace`, for the text.
        values: A path and a text each; `null` unsets.
        name: What errors call the text.
        force: Whether it is also made where a higher layer hides some of it.
        revision: The revision that it was made for; -1 for any.
        confirm_s: In how many seconds it has to be confirmed; 0: it stays.
        comment: Why.
    """

    text: str = ""
    mode: str = "merge"
    values: tuple[tuple[str, str], ...] = ()
    name: str = "<change>"
    force: bool = False
    revision: int = -1
    confirm_s: float = 0.0
    comment: str = ""


class ConfRollbackArgs(NarrowingArgs, frozen=True):
    """Goes back to a revision; the others as for a change."""

    number: int
    revision: int = -1
    confirm_s: float = 0.0
    comment: str = ""


class ConfPlanned(msgspec.Struct, frozen=True):
    """One setting of a change.

    Attributes:
        path: Where it stands.
        old: Its value before.
        new: Its value then.
        how: How it changes; `hidden` where a higher layer keeps it as it is.
        shadowed_by: What hides it.
    """

    path: str
    old: str
    new: str
    how: str
    shadowed_by: Annotated[str, Fact(is_null_if_empty=True)] = ""


class ConfOutcome(msgspec.Struct, frozen=True):
    """What a change did, or would do.

    Attributes:
        revision: The revision that holds now.
        settings: What differs.
        restart: Paths of all settings that wait for the next start.
        failed: Parts that could not apply it, with what they raised.
        confirm_until: When it goes back if it is not confirmed, in seconds since the epoch; 0: it stays.
        is_new: Whether the change made that revision; it made none where nothing would differ.
    """

    revision: int
    settings: tuple[ConfPlanned, ...] = ()
    restart: tuple[str, ...] = ()
    failed: dict[str, str] = msgspec.field(default_factory=dict)
    confirm_until: Annotated[float, Fact(time_us=SECOND_US, is_null_if_empty=True)] = 0.0
    is_new: bool = False


class ConfRevisionArgs(Args, frozen=True):
    """Names a revision; `hides_sent` as for settings."""

    number: int
    hides_sent: bool = False


class ConfRevision(msgspec.Struct, frozen=True):
    """A revision.

    Attributes:
        number: One more than the one before.
        time: When it was made, in seconds since the epoch.
        who: Who made it.
        origin: From where.
        comment: Why.
        digest: SHA-256 of the text.
        text: The layer as HOCON, with stars for secrets; empty in lists.
    """

    number: int
    time: Annotated[float, Fact(time_us=SECOND_US)]
    who: str
    origin: str
    comment: str
    digest: str
    text: str = ""


class ConfDiffArgs(Args, frozen=True):
    """Names two revisions; `hides_sent` as for settings."""

    old: int
    new: int
    hides_sent: bool = False


class ConfDifference(msgspec.Struct, frozen=True):
    """One setting that differs between two revisions; empty where a revision does not set it."""

    path: str
    old: Annotated[str, Fact(is_null_if_empty=True)]
    new: Annotated[str, Fact(is_null_if_empty=True)]


class ConfState(msgspec.Struct, frozen=True):
    """Which revision holds, and for how long.

    Attributes:
        revision: Its number.
        confirm_until: When it goes back if it is not confirmed, in seconds since the epoch; 0: it stays.
    """

    revision: int
    confirm_until: Annotated[float, Fact(time_us=SECOND_US, is_null_if_empty=True)] = 0.0


CONF_SHOW = ListAsk("conf.show", ConfShowArgs, ConfSetting, STATE)
CONF_STATE = Ask("conf.state", NoArgs, ConfState, STATE)
CONF_KEYS = ListAsk("conf.keys", NoArgs, ConfKey, STATE)
CONF_PLAN = Ask("conf.plan", ConfChangeArgs, ConfOutcome, STATE)
CONF_CHANGE = Ask("conf.change", ConfChangeArgs, ConfOutcome, STATE, CONFIGURES)
CONF_RELOAD = Ask("conf.reload", NoArgs, ConfOutcome, EQUAL, CONFIGURES)
CONF_CONFIRM = Ask("conf.confirm", NoArgs, ConfOutcome, STATE, CONFIGURES)
CONF_REVISIONS = ListAsk("conf.revisions", NoArgs, ConfRevision, STATE)
CONF_REVISION = Ask("conf.revision", ConfRevisionArgs, ConfRevision, STATE)
CONF_DIFF = ListAsk("conf.diff", ConfDiffArgs, ConfDifference, STATE)
CONF_ROLLBACK = Ask("conf.rollback", ConfRollbackArgs, ConfOutcome, STATE, CONFIGURES)
CONF_PLAN_ROLLBACK = Ask("conf.plan_rollback", ConfRollbackArgs, ConfOutcome, STATE)

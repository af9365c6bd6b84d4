"""Changes of the configuration as plans, on trial, and as revisions that can be gone back to."""

from typing import Annotated, Any, Final, Literal

from fastapi import Path, Query
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.conf import (
    CONF_CHANGE,
    CONF_CONFIRM,
    CONF_DIFF,
    CONF_PLAN,
    CONF_PLAN_ROLLBACK,
    CONF_REVISION,
    CONF_REVISIONS,
    CONF_ROLLBACK,
    CONF_SHOW,
    CONF_STATE,
    ConfChangeArgs,
    ConfDiffArgs,
    ConfDifference,
    ConfOutcome,
    ConfRevision,
    ConfRevisionArgs,
    ConfRollbackArgs,
    ConfSetting,
    ConfShowArgs,
    ConfState,
)
from heliograph.control.proto_v1.node import NODE_STATUS
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Bool, Str, Whole
from heliograph.management.web.rows import ApiRow

area = Area("Configuration", "The settings in effect, where they come from, and changes of them.", scope="config")

_CONFLICT: Final = (409, "CONFLICT")
_NO_REVISION: Final = (404, "NOT_FOUND")
_INVALID: Final = {409: ("CONFLICT",)}
_CONFIRM_S_MAX: Final = 86_400
_NUMBER_MAX: Final = 2**53
_EXAMPLE: Final[dict[str, Any]] = {"values": {"mqtt.max_inflight": "64"}, "comment": "for the new devices"}


class ChangeBody(Body):
    """A change: HOCON, or values by their paths."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    text: Str = Field(default="", description="HOCON")
    mode: Literal["merge", "replace"] = Field(default="merge", description="`replace`: each root as a whole")
    values: dict[str, Str] = Field(default={}, description="By path, each as HOCON; `null` unsets one")
    force: Bool = Field(default=False, description="Made also where a higher layer hides some of it")
    revision: Whole = Field(default=-1, ge=-1, le=_NUMBER_MAX, description="Made for this revision; -1 for any")
    confirm_s: Whole = Field(
        default=0, ge=0, le=_CONFIRM_S_MAX, description="Goes back if it is not confirmed in time; 0: it stays"
    )
    comment: Str = ""

    def args(self) -> ConfChangeArgs:
        """What the node is asked for."""
        if not self.text and not self.values:
            raise ApiError(400, "BAD_REQUEST", "the change says nothing: give text, or values")
        return ConfChangeArgs(
            self.text,
            self.mode,
            tuple(self.values.items()),
            "<change>",
            self.force,
            self.revision,
            float(self.confirm_s),
            self.comment,
        )


class RollbackBody(Body):
    """Goes back to a revision."""

    number: Whole = Field(ge=0, le=_NUMBER_MAX)
    revision: Whole = Field(default=-1, ge=-1, le=_NUMBER_MAX)
    confirm_s: Whole = Field(default=0, ge=0, le=_CONFIRM_S_MAX)
    comment: Str = ""

    def args(self) -> ConfRollbackArgs:
        """What the node is asked for."""
        return ConfRollbackArgs(self.number, self.revision, float(self.confirm_s), self.comment)


class ConfirmedRevision(TypedDict):
    """The revision that stays."""

    revision: int


_SETTING: Final = ApiRow("SettingShown", ConfSetting)
_STATE: Final = ApiRow(
    "ConfigurationState",
    ConfState,
    restart=Annotated[list[str], Field(description="Settings that wait for the next start")],
)
_OUTCOME: Final = ApiRow("ConfigurationOutcome", ConfOutcome)
_REVISION: Final = ApiRow("RevisionObject", ConfRevision, without=("text",))
_WHOLE_REVISION: Final = ApiRow("WholeRevision", ConfRevision)
_DIFFERENCE: Final = ApiRow("SettingDifference", ConfDifference)


@area.get("/heliograph/configuration", errors=MISSING, answers=_SETTING.rows)
async def show_configuration(
    nodes: NodesDep, path: Annotated[str, Query(description="A setting or group; all of them if empty")] = ""
) -> list[dict[str, Any]]:
    """Each setting in effect, as text and as JSON, with its origin and how it changes; what zones inherit too."""
    with answering(config_no_setting=(404, "NOT_FOUND")):
        wanted = ConfShowArgs(path, inherited=True, hides_sent=nodes.hides_sent)
        rows = await nodes.own.rows(CONF_SHOW(wanted))
    return [_SETTING(row) for row in rows]


@area.get("/heliograph/configuration/state", answers=_STATE.one)
async def show_configuration_state(nodes: NodesDep) -> dict[str, Any]:
    """The revision in effect, until when it must be confirmed if it is on trial, and what waits for the next start."""
    state = await nodes.own.ask(CONF_STATE())
    status = await nodes.own.ask(NODE_STATUS())
    return _STATE(state, restart=list(status.waiting))


@area.post("/heliograph/configuration/plan", errors=_INVALID, answers=_OUTCOME.one)
async def plan_configuration(body: ChangeBody, nodes: NodesDep) -> dict[str, Any]:
    """What a change would do, checked by every part of the node; nothing is changed."""
    with answering(config_change_conflict=_CONFLICT):
        return _OUTCOME(await nodes.own.ask(CONF_PLAN(body.args())))


@area.post("/heliograph/configuration/change", errors=_INVALID, answers=_OUTCOME.one)
async def change_configuration(body: ChangeBody, nodes: NodesDep) -> dict[str, Any]:
    """Change the configuration, for good or on trial."""
    with answering(config_change_conflict=_CONFLICT):
        return _OUTCOME(await nodes.own.ask(CONF_CHANGE(body.args())))


@area.post("/heliograph/configuration/confirm", errors={409: ("CONFLICT",)})
async def confirm_configuration(nodes: NodesDep) -> ConfirmedRevision:
    """Confirm the change that is on trial."""
    with answering(config_change_conflict=_CONFLICT):
        return {"revision": (await nodes.own.ask(CONF_CONFIRM())).revision}


@area.post("/heliograph/configuration/rollback", errors={**_INVALID, **MISSING}, answers=_OUTCOME.one)
async def roll_back_configuration(body: RollbackBody, nodes: NodesDep) -> dict[str, Any]:
    """Apply an earlier revision again, as a new revision."""
    with answering(config_change_conflict=_CONFLICT, config_no_revision=_NO_REVISION):
        return _OUTCOME(await nodes.own.ask(CONF_ROLLBACK(body.args())))


@area.post("/heliograph/configuration/rollback/plan", errors={**_INVALID, **MISSING}, answers=_OUTCOME.one)
async def plan_rollback(body: RollbackBody, nodes: NodesDep) -> dict[str, Any]:
    """What going back to an earlier revision would do, checked by every part of the node; nothing is changed."""
    with answering(config_change_conflict=_CONFLICT, config_no_revision=_NO_REVISION):
        return _OUTCOME(await nodes.own.ask(CONF_PLAN_ROLLBACK(body.args())))


@area.get("/heliograph/configuration/revisions", answers=_REVISION.rows)
async def list_revisions(nodes: NodesDep) -> list[dict[str, Any]]:
    """The revisions that are kept, the newest first, without their texts."""
    rows = await nodes.own.rows(CONF_REVISIONS())
    return [_REVISION(row) for row in sorted(rows, key=lambda row: row.number, reverse=True)]


@area.get("/heliograph/configuration/revisions/{number}", errors=MISSING, answers=_WHOLE_REVISION.one)
async def get_revision(number: Annotated[int, Path(ge=0, le=_NUMBER_MAX)], nodes: NodesDep) -> dict[str, Any]:
    """One revision, with its text."""
    with answering(config_no_revision=_NO_REVISION):
        row = await nodes.own.ask(CONF_REVISION(ConfRevisionArgs(number, nodes.hides_sent)))
    return _WHOLE_REVISION(row)


@area.get("/heliograph/configuration/diff", errors=MISSING, answers=_DIFFERENCE.rows)
async def diff_revisions(
    nodes: NodesDep,
    old: Annotated[int, Query(ge=0, le=_NUMBER_MAX, description="The number of a revision")],
    new: Annotated[int, Query(ge=0, le=_NUMBER_MAX, description="The number of another one")],
) -> list[dict[str, Any]]:
    """Each setting that differs between two revisions; null where one does not set it."""
    with answering(config_no_revision=_NO_REVISION):
        rows = await nodes.own.rows(CONF_DIFF(ConfDiffArgs(old, new, nodes.hides_sent)))
    return [_DIFFERENCE(row) for row in rows]

"""Settings of the rule engine."""

from typing import Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.conf import CONF_CHANGE, ConfChangeArgs
from heliograph.management.api.setting_routes import read_settings
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import AskedNodes, NodesDep
from heliograph.management.web.models import Body, Bool, Str

area = Area("Rule engine", "Settings of all rules.", scope="rules")

_SETTINGS: Final = ("ignore_sys_message", "jq_function_default_timeout")
_JQ: Final = "jq_port"  # it runs in a process of its own


class RuleEngineBody(Body):
    """The settings; those that are left out stay."""

    ignore_sys_message: Bool | None = Field(default=None, description="Whether no rule gets messages below `$SYS/`")
    jq_function_default_timeout: Str | None = Field(default=None, description="As `10s`")
    jq_implementation_module: Literal["jq_nif", "jq_port"] | None = Field(
        default=None, description="Taken and not used: `jq` always runs in a process of its own"
    )


class RuleEngineSettings(TypedDict):
    """The settings of all rules."""

    ignore_sys_message: bool
    jq_function_default_timeout: str
    jq_implementation_module: str


@area.get("/rule_engine")
async def get_rule_engine(nodes: NodesDep) -> RuleEngineSettings:
    """The settings."""
    return await _settings(nodes)


@area.put("/rule_engine")
async def put_rule_engine(body: RuleEngineBody, nodes: NodesDep) -> RuleEngineSettings:
    """Change settings."""
    given = body.model_dump(exclude_none=True, include=set(_SETTINGS))
    values = tuple((f"rule_engine.{name}", _text(value)) for name, value in given.items())
    if values:
        change = ConfChangeArgs(values=values, comment="settings of the rule engine are changed")
        await nodes.own.ask(CONF_CHANGE(change))
    return await _settings(nodes)


async def _settings(nodes: AskedNodes) -> RuleEngineSettings:
    held = await read_settings(nodes.own, "rule_engine")
    return {
        "ignore_sys_message": held["ignore_sys_message"],
        "jq_function_default_timeout": held["jq_function_default_timeout"],
        "jq_implementation_module": _JQ,
    }


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)

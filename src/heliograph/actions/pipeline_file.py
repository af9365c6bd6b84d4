"""The pipeline file that a node makes of its actions: a rule for each of them, which reads what rules store for it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from heliograph.actions.figures import query_name
from heliograph.actions.loops import marked
from heliograph.actions.sinks import ROW, columns_of, sink_of, takes_whole_row_as_text
from heliograph.config.actions.fallback_ways import actions_with_rows
from heliograph.config.actions.interface import ActionConfig, ConnectorConfig
from heliograph.config.actions.roots import SPARK, all_actions, connector_of, engine_of, running_actions
from heliograph.config.settings import Config
from heliograph.rpc.socket_path import CONTROL_SOCKET
from heliograph.settings.outbound import OutboundConfig

STORED_BELOW: Final = "$pipeline/"
_WITH_TIMEOUT: Final = (
    "http",
    "postgresql",
    "mysql",
    "redis",
    "mqtt",
    "rabbitmq",
    "nats",
    "clickhouse",
    "influxdb",
    "elasticsearch",
    "mongodb",
    "kinesis",
    "dynamo",
    "sqs",
)
_PROBE_TIMEOUT: Final = "10s"


@dataclass(frozen=True, slots=True)
class ActionsFile:
    """The file of the actions that run, in HOCON; it may hold secrets."""

    text: str
    actions: tuple[str, ...]


def actions_file(config: Config, site: str = "") -> ActionsFile:
    """The file for a configuration: of the actions that Spark runs.

    Args:
        site: What tells the node from others, in what it sends.
    """
    rules: dict[str, Any] = {}
    actions = []
    for action_id, connector, action in wanted_actions(config, SPARK):
        actions.append(action_id)
        rules[query_name(action_id)] = section = rule_section(action_id, connector, action)
        section["sink"] = marked(section["sink"], site)
        if action.fallback_actions:
            section["fallbacks"] = fallbacks_section(action_id, config)
    return ActionsFile(file_text(rules, config.outbound), tuple(actions))


def fallbacks_section(action_id: str, config: Config) -> dict[str, str]:
    """By what an engine reaches the fallback actions of an action."""
    return {"action": action_id, "socket": str(Path(config.node.data_dir).absolute() / CONTROL_SOCKET)}


def file_text(rules: Mapping[str, Any], outbound: OutboundConfig) -> str:
    """A pipeline file with some rules, whose sinks may connect where a node may."""
    return json.dumps({"outbound": asdict(outbound), "rules": rules}, indent=1, ensure_ascii=False) + "\n"


def wanted_actions(config: Config, engine: str) -> Iterator[tuple[str, ConnectorConfig, ActionConfig]]:
    """The actions that an engine runs: those that can get rows, by a rule or as a fallback."""
    with_rows = actions_with_rows(config.rule_engine, config.actions)
    running = running_actions(config.connectors, config.actions) & with_rows
    for kind, name, action in all_actions(config.actions):
        action_id = f"{kind}:{name}"
        if action_id in running and engine_of(config.actions.engine, kind) == engine:
            yield action_id, connector_of(config.connectors, kind, action), action


def rule_section(action_id: str, connector: ConnectorConfig, action: ActionConfig) -> dict[str, Any]:
    source = json.dumps(f"{STORED_BELOW}{action_id}/+")
    columns = columns_of(action)
    section: dict[str, Any] = {"alone": True, "sink": sink_of(connector, action)}
    if columns is None:
        section["sql"] = f"SELECT {ROW} FROM {source}"
        if takes_whole_row_as_text(action):
            section["columns"] = {ROW: "string"}
    else:
        fields = ", ".join(f'{ROW}."{name}" AS "{name}"' for name in columns)
        section["sql"] = f"SELECT {fields} FROM {source}"
        section["columns"] = dict(columns)
    return section


def probe_section(connector: ConnectorConfig, action: ActionConfig) -> dict[str, Any]:
    """The pipeline's rule for a test of a connection, which gives up soon."""
    section = rule_section("probe", connector, action)
    sink = section["sink"]
    if sink["type"] in (*_WITH_TIMEOUT, "kafka"):
        sink["retry"] = {"attempts": 1}
    if sink["type"] in _WITH_TIMEOUT:
        sink["timeout"] = _PROBE_TIMEOUT
    return section

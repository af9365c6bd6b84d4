"""The settings of the action runner: the actions that run without Spark, and what they read and write."""

from typing import Any, Final

from heliograph.actions.figures import query_name
from heliograph.actions.loops import marked
from heliograph.actions.pipeline_file import STORED_BELOW, fallbacks_section, wanted_actions
from heliograph.actions.sinks import sink_of, takes_whole_row_as_text
from heliograph.config.actions.interface import ActionConfig, ConnectorConfig
from heliograph.config.actions.roots import LOCAL, connector_of
from heliograph.config.settings import Config

# Of one action; those of all share what `heliograph.pipeline.runner.batch_memory` says.
_BATCH_BYTES: Final = 2 << 20


def runner_actions(config: Config, site: str = "") -> dict[str, Any]:
    """The actions of the runner by their queries, as `heliograph.pipeline.runner.settings` reads them.

    They may hold secrets.

    Args:
        site: What tells the node from others, in what it sends.

    Raises:
        SecretError: The file of a secret cannot be read.
    """
    return {
        query_name(action_id): _section(config, action_id, connector, action, site)
        for action_id, connector, action in wanted_actions(config, LOCAL)
    }


def runner_action(config: Config, action_id: str, site: str) -> dict[str, Any]:
    """The same of one action that is configured, whether or not a rule names it.

    Raises:
        SecretError: The file of a secret cannot be read.
    """
    kind, _, name = action_id.partition(":")
    action: ActionConfig = getattr(config.actions, kind)[name]
    connector = connector_of(config.connectors, kind, action)
    return {query_name(action_id): _section(config, action_id, connector, action, site)}


def _section(
    config: Config, action_id: str, connector: ConnectorConfig, action: ActionConfig, site: str
) -> dict[str, Any]:
    return {
        "topic": f"{STORED_BELOW}{action_id}/+",
        "sink": marked(sink_of(connector, action), site),
        "has_text_rows": takes_whole_row_as_text(action),
        "batch_rows": action.resource_opts.batch_size,
        "batch_bytes": _BATCH_BYTES,
        "batch_time_s": action.resource_opts.batch_time,
        "row_age_max_s": action.resource_opts.request_ttl,
        "waiting_bytes_max": action.resource_opts.max_buffer_bytes,
        "longest_pause_s": action.resource_opts.resume_interval,
        "fallbacks": fallbacks_section(action_id, config) if action.fallback_actions else None,
    }

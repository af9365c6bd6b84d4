"""What a replay of a rule asks of the node: nothing of it runs here, and messages come from the storage reader."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from heliograph.config.settings import Config
from heliograph.control.proto_v1 import replays as proto
from heliograph.control.rules import shown_action
from heliograph.rpc.methods import Call, Method
from heliograph.rules.engine.engine import RuleEngine
from heliograph.rules.schemas.configured import registry_settings
from heliograph.rules.schemas.settings import with_outbound


def methods(config: Callable[[], Config], rules: RuleEngine, files: Callable[[], Sequence[str]]) -> list[Method]:
    """What can be asked: `rules.replay_settings`.

    Args:
        config: The configuration.
        rules: The rules of the broker.
        files: The files of the pipeline; none where the node runs none.
    """

    async def settings(args: proto.ReplaySettingsWanted, call: Call) -> proto.ReplaySettings:
        now = config()
        schemas = await asyncio.to_thread(_schemas, now)
        return proto.ReplaySettings(
            schemas,
            now.rule_engine.jq_function_default_timeout,
            now.schema_registry.sparkplug_b.max_aliases,
            _absolute(files()),
            now.pipeline.master,
            dict(now.pipeline.spark_conf),
            [_text(rules, name) for name in dict.fromkeys(args.rules) if rules.find(name) is not None],
        )

    return [proto.RULES_REPLAY_SETTINGS.by(settings)]


def _absolute(files: Sequence[str]) -> list[str]:
    """The same files for a process with another working directory."""
    return [str(Path(file).absolute()) for file in files]


def _schemas(config: Config) -> str:
    schemas = [with_outbound(one, config.outbound) for one in registry_settings(config.schema_registry)]
    return msgspec.json.encode(schemas).decode()


def _text(rules: RuleEngine, name: str) -> proto.ReplayedRuleText:
    rule = rules.find(name)
    assert rule is not None
    actions = json.dumps([shown_action(one) for one in rule.settings.actions], ensure_ascii=False)
    return proto.ReplayedRuleText(name, rule.settings.sql, actions)

"""Replays of rules over stored messages: what they ask of a node, and its answer."""

import msgspec

from heliograph.rpc.asks import STATE, Ask
from heliograph.rpc.methods import Args


class ReplaySettingsWanted(Args, frozen=True):
    """What a replay needs to know.

    Attributes:
        rules: Names that it has been given; some may be of rules of the broker.
    """

    rules: list[str]


class ReplayedRuleText(msgspec.Struct, frozen=True):
    """A rule of the broker.

    Attributes:
        actions: As JSON: a list of texts and objects.
    """

    id: str
    sql: str
    actions: str


class ReplaySettings(msgspec.Struct, frozen=True):
    """What a replay goes by. It may hold secrets of services that schemas ask.

    Attributes:
        schemas: What makes the schemas, as JSON.
        jq_timeout_s: How long a jq program may take.
        sparkplug_aliases_max: Aliases of Sparkplug B that are remembered.
        pipeline_files: The files of the pipeline; none where the node runs none.
        spark_master: Spark's master.
        spark_conf: Spark's configuration.
        rules: The rules of the broker among those that were named.
    """

    schemas: str
    jq_timeout_s: float
    sparkplug_aliases_max: int
    pipeline_files: list[str]
    spark_master: str
    spark_conf: dict[str, str]
    rules: list[ReplayedRuleText]


RULES_REPLAY_SETTINGS = Ask("rules.replay_settings", ReplaySettingsWanted, ReplaySettings, STATE)

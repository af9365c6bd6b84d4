"""What a replay is asked for: the wish of its user, and what the node has said about itself."""

from typing import ClassVar, Literal

import msgspec

from heliograph.pipeline.errors import PipelineError
from heliograph.rules.schemas.settings import SchemaSettings


class ReplayError(PipelineError):
    """A replay cannot be run as it is asked for."""

    code: ClassVar[str] = "rule_replay"

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class BrokerRule(msgspec.Struct, frozen=True):
    """A rule of the node, with its actions as the API shows them: JSON, a list of texts and objects."""

    id: str
    sql: str
    actions: str = "[]"


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A replay.

    Attributes:
        rule: The name of a rule of the broker or the pipeline, `pipeline:NAME` for the latter; empty for SQL alone.
        sql: The rule's text, also an edited one of `rule`; empty for the one that `rule` has.
        compare: The name of a rule, or SQL, that is run beside it; empty for none.
        since: The first time of storing, in microseconds since the epoch; 0 for the earliest message.
        rows_max: How many rows of each kind are kept as examples; the counts are complete.
        token: What it asks for; empty for what is found by its address.
    """

    until: int
    endpoint: str
    rule: str = ""
    sql: str = ""
    compare: str = ""
    since: int = 0
    engine: Literal["broker", "spark"] = "broker"
    rows_max: int = 100
    seconds_max: float = 600.0
    database: str = ""
    token: str = ""
    schemas: tuple[SchemaSettings, ...] = ()
    jq_timeout_s: float = 10.0
    sparkplug_aliases_max: int = 1_000_000
    pipeline_files: tuple[str, ...] = ()
    spark_master: str = "local[*]"
    spark_conf: dict[str, str] = msgspec.field(default_factory=dict)
    rules: tuple[BrokerRule, ...] = ()

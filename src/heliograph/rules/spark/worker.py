"""What a Python worker of Spark keeps from batch to batch: environments of rules, and rules that are compiled.

A worker is a process that Spark starts and gives tasks of any query to, so what it keeps is the process's: `worker()`
is the one object of that kind, and the functions of Arrow UDFs ask for it where they begin.
"""

from functools import cache, lru_cache

from heliograph._spark_worker import settle_process
from heliograph.rules.environment import Environment
from heliograph.rules.schemas.registry import SchemaRegistry, build
from heliograph.rules.schemas.settings import SchemaSettings
from heliograph.rules.spark.row_evaluator import OutputColumns, RowEvaluator

_SCHEMAS_MAX = 16
_RULES_MAX = 256


class SparkWorker:
    """The rules of one process; lives as long as it. A rule is compiled once for the schemas that it may name.

    Environments of different schemas have the same jq processes and the same kept values.
    """

    def __init__(self) -> None:
        self._environment = Environment()
        self._environment_of = lru_cache(maxsize=_SCHEMAS_MAX)(self._make_environment)
        self._row_evaluator_of = lru_cache(maxsize=_RULES_MAX)(self._make_row_evaluator)

    def row_evaluator(
        self,
        text: str,
        outputs: OutputColumns | None,
        rule_id: str | None = None,
        schemas: tuple[SchemaSettings, ...] = (),
    ) -> RowEvaluator:
        """The evaluator of a rule.

        Raises:
            SchemaSourceError: A schema cannot be made.
        """
        return self._row_evaluator_of(text, outputs, rule_id, schemas)

    def environment(self, schemas: tuple[SchemaSettings, ...]) -> Environment:
        """The environment of rules that may name these schemas, which are made once."""
        return self._environment_of(schemas)

    def _make_environment(self, schemas: tuple[SchemaSettings, ...]) -> Environment:
        return self._environment.with_schemas(SchemaRegistry(build(schemas)))

    def _make_row_evaluator(
        self, text: str, outputs: OutputColumns | None, rule_id: str | None, schemas: tuple[SchemaSettings, ...]
    ) -> RowEvaluator:
        return RowEvaluator(text, outputs, rule_id, self.environment(schemas))


@cache
def worker() -> SparkWorker:
    """What this process keeps; the first call prepares the process for the tasks of Spark."""
    settle_process()
    return SparkWorker()

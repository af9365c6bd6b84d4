"""The Spark compiler: the tree of a rule becomes DataFrame operations over the public message schema.

`apply_rule` is what pipelines call. `plan_rule` and `explain` tell what runs where and need no Spark; only what carries
out plans (`heliograph.rules.spark.frames`) imports pyspark, and only when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

from heliograph.rules.spark.explanation import explain
from heliograph.rules.spark.plan import PlannedColumn, RulePlan, plan_rule

if TYPE_CHECKING:
    from heliograph.rules.spark.frames import Outcome, apply_rule, evaluate_on_spark

__all__ = ["Outcome", "PlannedColumn", "RulePlan", "apply_rule", "evaluate_on_spark", "explain", "plan_rule"]


def __getattr__(name: str) -> Any:
    if name not in ("Outcome", "apply_rule", "evaluate_on_spark"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from heliograph.rules.spark import frames

    return getattr(frames, name)

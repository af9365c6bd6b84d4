"""The Spark compiler: the tree of a rule becomes DataFrame operations over the public message schema.

`apply_rule` is what pipelines call. `plan_rule` and `explain` tell what runs where and need no Spark; only what carries
out plans (`frames` and `contexts`) imports pyspark, and only when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

from heliograph.rules.spark.explanation import explain
from heliograph.rules.spark.plan import PlannedColumn, RulePlan, plan_rule

if TYPE_CHECKING:
    from heliograph.rules.spark.contexts import ContextCase, evaluate_contexts_on_spark
    from heliograph.rules.spark.frames import CaseOutcome, apply_rule, evaluate_on_spark

__all__ = [
    "CaseOutcome",
    "ContextCase",
    "PlannedColumn",
    "RulePlan",
    "apply_rule",
    "evaluate_contexts_on_spark",
    "evaluate_on_spark",
    "explain",
    "plan_rule",
]


def __getattr__(name: str) -> Any:
    if name in ("CaseOutcome", "apply_rule", "evaluate_on_spark"):
        from heliograph.rules.spark import frames

        return getattr(frames, name)
    if name in ("ContextCase", "evaluate_contexts_on_spark"):
        from heliograph.rules.spark import contexts

        return getattr(contexts, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

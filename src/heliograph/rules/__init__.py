"""The rule language: its parser, its values and functions, and the two engines that evaluate it.

`CompiledRule` is the engine that runs in the broker; `heliograph.rules.spark` compiles the same tree for Spark and is
the only part of this package that needs pyspark.
"""

from heliograph.rules.columns import Columns, MessageColumns
from heliograph.rules.errors import RuleError, RuleEvaluationError, RuleSyntaxError
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.parser import parse_rule
from heliograph.rules.tree import Foreach, Select, Statement
from heliograph.rules.values import UNDEFINED, Undefined, Value

__all__ = [
    "UNDEFINED",
    "Columns",
    "CompiledRule",
    "Foreach",
    "MessageColumns",
    "RuleError",
    "RuleEvaluationError",
    "RuleSyntaxError",
    "Select",
    "Statement",
    "Undefined",
    "Value",
    "parse_rule",
]

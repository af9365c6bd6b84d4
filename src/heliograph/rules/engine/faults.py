"""What only the rule language can say about the rules of a configuration."""

from collections.abc import Iterator

from heliograph.config import Config
from heliograph.rules.errors import RuleSyntaxError
from heliograph.rules.evaluator import CompiledRule


def rule_faults(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """The path of each text that is no rule, and what is wrong with it: the place, and what was expected there."""
    for name, rule in config.rule_engine.rules.items():
        if not rule.sql:
            continue  # whether that is a fault, the configuration itself knows
        try:
            CompiledRule(rule.sql)
        except RuleSyntaxError as error:
            yield ("rule_engine", "rules", name, "sql"), f"[{error.code}] {error}"

"""Rules in the broker: which of them a message or an event is for, their evaluation, and what is done with their rows.

`RuleEngine` is all of it; `heliograph.node.rules` joins it to a node.
"""

from heliograph.rules.engine.engine import RuleEngine
from heliograph.rules.engine.errors import PipelineStorageError, RuleActionError, RuleEngineError
from heliograph.rules.engine.running import RunningRule

__all__ = ["PipelineStorageError", "RuleActionError", "RuleEngine", "RuleEngineError", "RunningRule"]

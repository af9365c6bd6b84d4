"""What can go wrong when rules of a running broker are changed; a rule that does not parse is a `RuleSyntaxError`."""

from typing import ClassVar


class RuleEngineError(Exception):
    """The rules of a node cannot be changed as asked; they are as they were."""

    code: ClassVar[str] = "rule_engine"


class PipelineStorageError(RuleEngineError):
    """A rule hands its rows to the pipeline, and the node stores nothing."""

    code: ClassVar[str] = "rule_pipeline_not_stored"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the rule {name!r} hands its rows to the pipeline, which reads what is stored, and this node stores "
            "nothing; give it topics with durable_storage.messages.topics, or a rule like this one in its file"
        )


class RuleActionError(RuleEngineError):
    """An action of a rule can be done for no row at all."""

    code: ClassVar[str] = "rule_action"

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")


class ActionError(Exception):
    """An action cannot be done for one row; the text says why."""

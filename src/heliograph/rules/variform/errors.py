"""What can go wrong with an expression; both errors show the place in its text."""

from typing import ClassVar

from heliograph.rules.errors import EvaluationFault, RuleError


class VariformError(RuleError):
    """An expression is refused or failed."""

    code: ClassVar[str] = "variform"


class VariformSyntaxError(VariformError):
    """The text is no expression."""

    code: ClassVar[str] = "variform_syntax"


class VariformEvaluationError(VariformError):
    """One evaluation failed; the caller decides what to use instead of the result."""

    code: ClassVar[str] = "variform_evaluation"


class UnboundFault(EvaluationFault):
    """A variable has no value; `coalesce`, `iif` and `is_empty` take that for the empty string."""

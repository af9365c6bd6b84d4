"""What can go wrong with a rule, in the words of the person who wrote it: errors that show the place in the text.

`RuleSyntaxError` refuses a rule when it is created; `RuleEvaluationError` ends one evaluation of a sound rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from heliograph.rules.tree import Place

# A rule can be one line of a megabyte, and its errors go into logs.
_SHOWN_MAX: Final = 240


class RuleError(Exception):
    """A rule is refused or failed."""

    code: ClassVar[str] = "rule"

    def __init__(self, problem: str, text: str, place: Place) -> None:
        super().__init__(problem, text, place)
        self.problem = problem
        self.text = text
        self.place = place

    def __str__(self) -> str:
        return (
            f"line {self.place.line}, column {self.place.column}: {self.problem}\n{_show_place(self.text, self.place)}"
        )


class RuleSyntaxError(RuleError):
    """The text of a rule cannot be used: it does not parse, or it says something that no evaluation could mean."""

    code: ClassVar[str] = "rule_syntax"


class RuleEvaluationError(RuleError):
    """One evaluation failed: nothing is output, and the rule's failures count one more."""

    code: ClassVar[str] = "rule_evaluation"


class EvaluationFault(Exception):  # noqa: N818 - it is not an error for people until it has a place
    """Raised by values, functions and paths; the evaluator makes it a `RuleEvaluationError` with its place."""


def _show_place(text: str, place: Place) -> str:
    """The line of the text that holds the place, or a part of a long one, with carets under it."""
    start = text.rfind("\n", 0, place.start) + 1
    end = text.find("\n", place.start)
    end = end if end >= 0 else len(text)
    if end - start > _SHOWN_MAX:
        start = max(start, place.start - _SHOWN_MAX // 2)
        end = min(end, start + _SHOWN_MAX)
    line = text[start:end]
    # A tab before the place stays a tab below it, so that the carets stand under what they mean on any terminal.
    margin = "".join("\t" if character == "\t" else " " for character in line[: place.start - start])
    width = max(1, min(place.end, start + len(line)) - place.start)
    return f"    {line}\n    {margin}{'^' * width}"

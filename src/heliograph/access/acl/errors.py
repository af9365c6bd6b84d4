"""The mistakes of rules: each with what was found, what is valid and, in a text, where it stands."""

from collections.abc import Sequence
from typing import ClassVar, Final

_SHOWN_MAX: Final = 20


class AclFault:
    """One mistake. Line and column count from 1; they are 0 where the rules are no text."""

    __slots__ = ("column", "line", "problem")

    def __init__(self, problem: str, line: int = 0, column: int = 0) -> None:
        self.problem = problem
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.problem}" if self.line else self.problem


class AclError(ValueError):
    """Rules are refused as a whole, for one fault or more; line and column are those of the first, 0 for no text."""

    code: ClassVar[str] = "acl_invalid"

    def __init__(self, faults: Sequence[AclFault]) -> None:
        shown = [str(fault) for fault in faults[:_SHOWN_MAX]]
        if len(faults) > _SHOWN_MAX:
            shown.append(f"and {len(faults) - _SHOWN_MAX} more")
        super().__init__("; ".join(shown))
        self.faults = list(faults)
        self.line = faults[0].line
        self.column = faults[0].column

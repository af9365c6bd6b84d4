"""Where a value stands, and the one exception that the HOCON reader raises.

Nothing here reads text; every other module of the package uses these two classes.
"""

from typing import ClassVar, Final


class SourcePosition:
    """A line, from 1 (only LF counts), of a file, or an environment variable as a whole, without one."""

    __slots__ = ("line", "source")

    def __init__(self, source: str, line: int | None = None) -> None:
        self.source: Final = source
        self.line: Final = line

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"

    def __repr__(self) -> str:
        return f"SourcePosition({self.source!r}, {self.line!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SourcePosition) and (self.source, self.line) == (other.source, other.line)

    def __hash__(self) -> int:
        return hash((self.source, self.line))


class HoconError(Exception):
    """A text that cannot be read as HOCON, or a file that cannot be read at all.

    Attributes:
        file: The file, or the environment variable.
        message: What is wrong, what is valid and what to do, without file and line.
    """

    code: ClassVar[str] = "config_syntax"

    def __init__(self, file: str, line: int | None, message: str) -> None:
        super().__init__(file, line, message)
        self.file = file
        self.line = line
        self.message = message

    @classmethod
    def at(cls, position: SourcePosition, message: str) -> "HoconError":
        return cls(position.source, position.line, message)

    def __str__(self) -> str:
        return f"{SourcePosition(self.file, self.line)}: {self.message}"

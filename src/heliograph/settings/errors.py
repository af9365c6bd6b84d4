"""Errors of a configuration, with everything that an operator needs to correct them."""

from dataclasses import dataclass
from typing import ClassVar

from heliograph.hocon.errors import HoconError, SourcePosition


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake.

    Attributes:
        path: Path of the setting, or "" where the text itself is at fault.
    """

    file: str
    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        place = str(SourcePosition(self.file, self.line))
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class ConfigError(Exception):
    """A configuration that cannot be used; has every problem, in the order of settings, and the first one's place."""

    code: ClassVar[str] = "config_invalid"

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)
        first = problems[0]
        self.file = first.file
        self.line = first.line
        self.path = first.path
        self.message = first.message

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class ConfigSyntaxError(ConfigError):
    """A file or a variable that cannot be read as HOCON; there is one problem, since nothing behind it was read."""

    code: ClassVar[str] = HoconError.code

    @classmethod
    def of(cls, error: HoconError) -> "ConfigSyntaxError":
        """The same error as one of the configuration."""
        return cls([Problem(error.file, error.line, "", error.message)])

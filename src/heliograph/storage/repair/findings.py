"""The findings of checks of every kind of database: texts, bounded in number."""

from dataclasses import dataclass, field
from typing import Final

LISTED_MAX: Final = 1000


@dataclass(slots=True)
class Findings:
    """What a check found: `problems` has at most a thousand sentences, `problem_count` counts all."""

    database: str
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0

    @property
    def is_damaged(self) -> bool:
        return bool(self.problem_count)

    def add_problem(self, problem: str) -> None:
        self.problem_count += 1
        if len(self.problems) < LISTED_MAX:
            self.problems.append(problem)

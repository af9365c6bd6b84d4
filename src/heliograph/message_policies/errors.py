"""What can go wrong with validations and transformations."""

from typing import ClassVar


class MessagePolicyError(Exception):
    """A validation or transformation cannot be used."""

    code: ClassVar[str] = "message_policy_invalid"

    def __init__(self, path: tuple[str, ...], problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.problem}"


class TransformationFault(Exception):  # noqa: N818 - it is what is wrong with a message, not with a program
    """One message cannot be transformed; the text says why."""

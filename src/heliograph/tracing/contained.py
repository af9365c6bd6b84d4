"""A fault of a trace disturbs no client: it is counted and logged, and the record is lost."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class Containing(Protocol):
    def contain(self, error: Exception) -> None: ...


Given = ParamSpec("Given")
OwnerT = TypeVar("OwnerT", bound=Containing)


def contained(method: Callable[Concatenate[OwnerT, Given], None]) -> Callable[Concatenate[OwnerT, Given], None]:
    """A method that reports what it raises, and raises nothing."""

    @wraps(method)
    def run(self: OwnerT, /, *args: Given.args, **named: Given.kwargs) -> None:
        try:
            method(self, *args, **named)
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)

    return run

"""What can be asked: methods by their names, the call that they get, and the audit of actions."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import msgspec

SLICE: Final = 50  # rows of one slice
HIDDEN: Final = "******"
REFUSED: Final = "api.refused"  # what the audit has of requests that the HTTP API refuses
DONE: Final = "done"  # the outcome of an action that was carried out


class Args(msgspec.Struct, frozen=True, omit_defaults=True):
    """The arguments of a method: the base of their structs.

    Nodes and commands of two releases understand each other: an argument that has its default is not sent, and one that
    the other side does not know is ignored.
    """


class NarrowingArgs(Args, frozen=True, forbid_unknown_fields=True):
    """Arguments that select what is changed, or state a condition of the change.

    One that the other side does not know is refused: if it were ignored, more would be changed than was asked for.
    """


class NoArgs(Args, frozen=True):
    """The arguments of a method that takes none."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request: `who` as `alice (uid 1000)`, `origin` as `control socket, pid 4711`; `is_ours` of the node's user."""

    who: str
    origin: str
    is_ours: bool = False


class RpcError(Exception):
    """A request cannot be answered.

    Attributes:
        code: For programs; it stands in docs/errors.md.
        details: What programs need beside the code, such as the names of what stands in the way.
    """

    def __init__(self, code: str, message: str, details: Mapping[str, list[str]] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details: Mapping[str, list[str]] = details or {}


Answered: TypeAlias = Iterator[Sequence[object]] | AsyncIterator[Sequence[object]] | Awaitable[object] | msgspec.Struct
# Its first argument is the struct of arguments of its method.
Handler: TypeAlias = Callable[[Any, Call], Answered]


@dataclass(frozen=True, slots=True)
class Method:
    """Something that can be asked.

    The handler is called in the event loop. It answers with a struct at once; or as a coroutine, which may wait; or,
    for a list, as a generator of slices of at most `SLICE` rows. Each `next` of it is one turn of the loop and takes at
    most 0.2 ms, and what it walks may change between two of them. A generator that waits is an asynchronous one.

    Attributes:
        is_action: Whether it changes anything: it is in the audit, also where it was refused.
        is_vital: Whether it is answered also while the node has more to do than it can.
        secrets: The fields of its arguments that the audit does not get.
    """

    name: str
    args: type[msgspec.Struct]
    handler: Handler
    is_action: bool = False
    is_vital: bool = False
    secrets: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Action:
    """An action that was asked for, for the audit.

    Attributes:
        args: Its arguments, with `HIDDEN` for secrets; empty where they could not be read.
        outcome: `done`, or the code of what went wrong.
    """

    who: str
    origin: str
    method: str
    args: Mapping[str, object] = field(default_factory=dict)
    outcome: str = DONE
    message: str = ""


class Audit(Protocol):
    def record(self, action: Action) -> None:
        """Called in the event loop when it has ended or was refused; must not wait long."""


class NoAudit:
    def record(self, action: Action) -> None: ...


def arguments_of(method: Method, args: msgspec.Struct) -> dict[str, object]:
    """As the audit gets them."""
    values: dict[str, object] = msgspec.to_builtins(args)
    return {name: HIDDEN if name in method.secrets else value for name, value in values.items()}

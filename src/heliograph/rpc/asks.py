"""How something that can be asked of a node is declared: once, for both ends.

A module of `control/proto_v1` declares each ask beside the structs of its arguments and answer; what a room below
`control` asks, that room declares (`actions/fallback_calls`)::

    BANNED_ADD = Ask("banned.add", NewBan, BanMade, STATE, ACTS)

The node binds it to a handler, `BANNED_ADD.by(answers.add)`, and a client asks it, `node.ask(BANNED_ADD(NewBan(...)))`:
the type checker holds both ends to the declaration.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeAlias, TypeVar, overload

import msgspec

from heliograph.rpc.methods import Call, Method, NoArgs

ArgsT = TypeVar("ArgsT", bound=msgspec.Struct)
AnswerT = TypeVar("AnswerT")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)
Columns: TypeAlias = tuple[Any, ...]  # a row without its names, in the order of a struct that is `array_like`

_NO_ARGS: Final = NoArgs()


class AnsweredBy(Enum):
    """Which nodes of a cluster answer an ask, and how their answers become one.

    Nothing acts on it yet: there is one node.
    """

    ONE = "one node, which the caller names"
    OWNER = "the node that has what is named; the others answer not_found"
    LISTED = "all nodes; their rows are listed, each with its node"
    SUMMED = "all nodes; numbers of the same name are added"
    NEWEST = "all nodes; the newest answer counts"
    EQUAL = "all nodes; each does it, and all answer the same"
    STATE = "any node: the cluster has one state of it"


class Effect(Enum):
    """What an ask changes, and who writes it into the audit log."""

    READS = "nothing"
    ACTS = "what the node does or keeps: its server writes the audit record, also of refused attempts"
    CARRIES = "what processes of the node bring it in the course of their work, which is no act of a person: no audit"
    CONFIGURES = "the configuration, whose manager writes the audit record"
    FEEDS = "the messages of the node, or what is known of their sources; no audit record is written"


ONE: Final = AnsweredBy.ONE
OWNER: Final = AnsweredBy.OWNER
LISTED: Final = AnsweredBy.LISTED
SUMMED: Final = AnsweredBy.SUMMED
NEWEST: Final = AnsweredBy.NEWEST
EQUAL: Final = AnsweredBy.EQUAL
STATE: Final = AnsweredBy.STATE

READS: Final = Effect.READS
ACTS: Final = Effect.ACTS
CARRIES: Final = Effect.CARRIES
CONFIGURES: Final = Effect.CONFIGURES
FEEDS: Final = Effect.FEEDS


@dataclass(frozen=True, slots=True)
class Question(Generic[AnswerT_co]):
    """An ask with its arguments: what a client sends."""

    name: str
    args: msgspec.Struct
    answer: type[AnswerT_co]
    is_vital: bool = False


@dataclass(frozen=True, slots=True)
class ListQuestion(Generic[AnswerT_co]):
    """The question of a list; `row` is the type of its rows."""

    name: str
    args: msgspec.Struct
    row: type[AnswerT_co]
    is_vital: bool = False

    def decoder(self) -> "msgspec.msgpack.Decoder[list[AnswerT_co]]":
        return msgspec.msgpack.Decoder(list[self.row])  # type: ignore[name-defined]  # known at run time only


@dataclass(frozen=True, slots=True)
class _Declared(Generic[ArgsT, AnswerT]):
    """What all asks declare.

    Attributes:
        name: `area.verb`.
        effect: What it changes.
        is_vital: Whether it is answered also while the node has more to do than it can, and asked apart from the rest.
        secrets: The fields of its arguments that the audit log does not get.
    """

    name: str
    args: type[ArgsT]
    answer: type[AnswerT]
    nodes: AnsweredBy
    effect: Effect = READS
    is_vital: bool = False
    secrets: frozenset[str] = frozenset()

    def _bound(self, handler: Callable[[Any, Call], Any]) -> Method:
        return Method(self.name, self.args, handler, self.effect is ACTS, self.is_vital, self.secrets)

    def _sent(self, args: msgspec.Struct | None) -> msgspec.Struct:
        return _NO_ARGS if args is None else args


@dataclass(frozen=True, slots=True)
class Ask(_Declared[ArgsT, AnswerT]):
    """An ask with one answer."""

    def by(self, handler: Callable[[ArgsT, Call], AnswerT | Awaitable[AnswerT]]) -> Method:
        """At once or as a coroutine."""
        return self._bound(handler)

    @overload
    def __call__(self: "Ask[NoArgs, AnswerT]") -> Question[AnswerT]: ...
    @overload
    def __call__(self, args: ArgsT) -> Question[AnswerT]: ...
    def __call__(self, args: msgspec.Struct | None = None) -> Question[AnswerT]:
        return Question(self.name, self._sent(args), self.answer, self.is_vital)


@dataclass(frozen=True, slots=True)
class ListAsk(_Declared[ArgsT, AnswerT]):
    def by(
        self, handler: Callable[[ArgsT, Call], Iterator[Sequence[AnswerT]] | AsyncIterator[Sequence[AnswerT]]]
    ) -> Method:
        """The handler is a generator of slices."""
        return self._bound(handler)

    def by_columns(self, handler: Callable[[ArgsT, Call], Iterator[Sequence[Columns]]]) -> Method:
        """By a handler whose rows are tuples, which are quicker to make than structs."""
        return self._bound(handler)

    @overload
    def __call__(self: "ListAsk[NoArgs, AnswerT]") -> ListQuestion[AnswerT]: ...
    @overload
    def __call__(self, args: ArgsT) -> ListQuestion[AnswerT]: ...
    def __call__(self, args: msgspec.Struct | None = None) -> ListQuestion[AnswerT]:
        return ListQuestion(self.name, self._sent(args), self.answer, self.is_vital)


AnyAsk: TypeAlias = Ask[Any, Any] | ListAsk[Any, Any]

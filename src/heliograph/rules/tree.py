"""The typed tree of a rule: what the parser builds, and what both engines compile.

Every node knows its place in the text, so that whatever goes wrong later can be shown there. The nodes say what was
written and nothing about how it is evaluated.
"""

from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of the rule's text."""

    start: int
    end: int
    line: int
    column: int

    def to(self, other: "Place") -> "Place":
        return Place(self.start, other.end, self.line, self.column)


@dataclass(frozen=True, slots=True)
class Literal:
    value: str | int | float | bool
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class RangeLiteral:
    """`[first..last]` standing alone: the array of the integers between, both included."""

    first: int
    last: int
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """`[a, b, ...]`."""

    items: tuple["Expression", ...]
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Key:
    """A step of a path into a map: `.name`, `.1` or `.'a b'`."""

    name: str


@dataclass(frozen=True, slots=True)
class Index:
    """A step of a path into an array: `[1]`, `[-1]`.

    Attributes:
        position: 1 is the first element, -1 the last.
        behind_end: Whether it was written `[-0]`, which as a target of AS means behind the last element.
    """

    position: int
    behind_end: bool = False


@dataclass(frozen=True, slots=True)
class IndexBy:
    """A step of a path into an array whose position another path gives: `[i]`."""

    path: "Path"


Step: TypeAlias = Key | Index | IndexBy


@dataclass(frozen=True, slots=True)
class Path:
    """A variable (`topic`), or what some steps from one lead to (`payload.a[1].b`)."""

    root: str
    steps: tuple[Step, ...]
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Slice:
    """`path[first..last]`: some elements of an array."""

    path: Path
    first: int
    last: int
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    operator: OneOf["+", "-"]
    operand: "Expression"
    place: Place = field(compare=False)


ArithmeticOperator: TypeAlias = OneOf["+", "-", "*", "/", "div", "mod"]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two expressions joined by an arithmetic operator; `+` also joins strings."""

    operator: ArithmeticOperator
    left: "Expression"
    right: "Expression"
    place: Place = field(compare=False)


ComparisonOperator: TypeAlias = OneOf["=", "!=", "<>", "<", ">", "<=", ">=", "=~", "~="]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two expressions compared; `=~` asks whether a topic matches a filter."""

    operator: ComparisonOperator
    left: "Expression"
    right: "Expression"
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class InList:
    """`subject IN (candidates)` or, negated, `subject NOT IN (candidates)`."""

    subject: "Expression"
    candidates: tuple["Expression", ...]
    negated: bool
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT operand`."""

    operand: "Expression"
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Logical:
    """Two conditions joined by AND or OR; the right one is looked at only where the left one leaves it open."""

    operator: OneOf["and", "or"]
    left: "Expression"
    right: "Expression"
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """`WHEN when THEN then`; in a CASE with a subject, `when` is the value that the subject must have."""

    when: "Expression"
    then: "Expression"


@dataclass(frozen=True, slots=True)
class Case:
    """`CASE [subject] WHEN ... THEN ... [ELSE default] END`."""

    subject: "Expression | None"
    branches: tuple[Branch, ...]
    default: "Expression | None"
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`name(arguments)`; the name may have dots. The function is looked up at evaluation."""

    name: str
    arguments: tuple["Expression", ...]
    place: Place = field(compare=False)


Expression: TypeAlias = (
    Literal
    | RangeLiteral
    | ListLiteral
    | Path
    | Slice
    | Unary
    | Arithmetic
    | Comparison
    | InList
    | Not
    | Logical
    | Case
    | Call
)


@dataclass(frozen=True, slots=True)
class Field:
    """One item of a SELECT list: an expression, and where AS puts its value."""

    expression: Expression
    alias: Path | None
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Star:
    """`*`: every column."""

    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class FromTopic:
    """One entry of FROM: a topic filter."""

    topic_filter: str
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Foreach:
    """`FOREACH fields [DO do] [INCASE incase] FROM sources [WHERE where]`: an output row for each element of an array.

    Attributes:
        fields: The last one yields the array; its alias, or `item`, is the name of the element.
        do: What becomes of an element; None for all columns, the results of the fields, and the element.
    """

    fields: tuple[Field | Star, ...]
    do: tuple[Field | Star, ...] | None
    incase: Expression | None
    sources: tuple[FromTopic, ...]
    where: Expression | None
    text: str = field(compare=False)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(source.topic_filter for source in self.sources)

    @property
    def element(self) -> Path:
        """The name of the element: where INCASE and DO find it."""
        last = self.fields[-1]
        assert isinstance(last, Field)  # the parser refuses `*` there
        return last.alias or Path("item", (), last.place)


@dataclass(frozen=True, slots=True)
class Select:
    """`SELECT fields FROM sources [WHERE where]`: at most one output row per message."""

    fields: tuple[Field | Star, ...]
    sources: tuple[FromTopic, ...]
    where: Expression | None
    text: str = field(compare=False)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(source.topic_filter for source in self.sources)


Statement: TypeAlias = Select | Foreach

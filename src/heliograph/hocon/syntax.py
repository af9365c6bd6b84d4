"""The tree of one document as it is written: fields, includes and expressions, each with its position.

The grammar builds it, `binding` splices included files into it and gives every field its place, `evaluation` reads it.
Nothing here computes a value.
"""

from heliograph.hocon.errors import SourcePosition


class Scalar:
    __slots__ = ("position", "value")

    def __init__(self, value: bool | int | float | str | None, position: SourcePosition) -> None:
        self.value = value
        self.position = position


class Reference:
    """`${path}` or `${?path}`.

    Attributes:
        written: The substitution as the text has it, for messages.
        path: Path below `scope`; as written until binding, which puts the place of inclusion in front.
        scope: Where the path starts: the document, or the list element that an include stands in.
        own: Sequence number of the field that this substitution extends (`path = ${path}":/opt"`), else None.
    """

    __slots__ = ("optional", "own", "path", "position", "scope", "written")

    def __init__(self, written: str, path: tuple[str, ...], optional: bool, position: SourcePosition) -> None:
        self.written = written
        self.path = path
        self.optional = optional
        self.position = position
        self.scope: Scope | None = None
        self.own: int | None = None


class Array:
    __slots__ = ("items", "position")

    def __init__(self, items: "list[Expression]", position: SourcePosition) -> None:
        self.items = items
        self.position = position


class Object:
    """`{...}`, the root of a document, or the part of a dotted key after a dot.

    Attributes:
            fields: What defines each key, in the order of the text with included files in place; set by binding.
    """

    __slots__ = ("fields", "members", "position")

    def __init__(self, members: "list[FieldAssignment | Include]", position: SourcePosition) -> None:
        self.members = members
        self.position = position
        self.fields: dict[str, list[Definition]] = {}


class Concatenation:
    __slots__ = ("parts", "position")

    def __init__(self, parts: "list[Expression]", position: SourcePosition) -> None:
        self.parts = parts
        self.position = position


Expression = Scalar | Reference | Array | Object | Concatenation


class FieldAssignment:
    """`key = value`, `key { ... }` or `key += value`."""

    __slots__ = ("append", "key", "position", "value")

    def __init__(self, key: tuple[str, ...], value: Expression, append: bool, position: SourcePosition) -> None:
        self.key = key
        self.value = value
        self.append = append
        self.position = position


class Include:
    """`include "name"`."""

    __slots__ = ("name", "position", "required")

    def __init__(self, name: str, required: bool, position: SourcePosition) -> None:
        self.name = name
        self.required = required
        self.position = position


class Definition:
    """One definition of one key: a field after dotted keys became nested objects.

    Attributes:
        value: The value, or with `append` what becomes the last element of the list defined before.
        sequence: Place in the order of the whole document.
    """

    __slots__ = ("append", "position", "sequence", "value")

    def __init__(self, value: Expression, sequence: int, position: SourcePosition, append: bool = False) -> None:
        self.value = value
        self.append = append
        self.sequence = sequence
        self.position = position


class Scope:
    """Where the paths of substitutions start."""

    __slots__ = ("root",)

    def __init__(self, root: Expression) -> None:
        self.root = root

"""From the trees of single files to one bound document.

Included files are read and spliced in where they are named, dotted keys become nested objects, and every substitution
learns its absolute path. Values are computed by `evaluation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heliograph.hocon.errors import HoconError, SourcePosition
from heliograph.hocon.files import Files, find_include
from heliograph.hocon.grammar import parse_document
from heliograph.hocon.limits import ParsingLimits
from heliograph.hocon.syntax import (
    Array,
    Concatenation,
    Definition,
    Expression,
    FieldAssignment,
    Include,
    Object,
    Reference,
    Scalar,
    Scope,
)
from heliograph.hocon.walking import Walk, run_walk


@dataclass(frozen=True, slots=True)
class OpenFile:
    """The file whose content is being bound, and the chain of files that included it.

    Attributes:
        path: The file as it was opened, or what a text without a file is called.
        directory: Where its includes are looked up first.
        identity: Equal for two paths of one file; None for a text without a file.
    """

    path: str
    directory: str
    identity: str | None
    parent: OpenFile | None = None
    depth: int = 1

    def chain(self) -> list[OpenFile]:
        files: list[OpenFile] = []
        current: OpenFile | None = self
        while current is not None:
            files.append(current)
            current = current.parent
        return files[::-1]


@dataclass(frozen=True, slots=True)
class _Place:
    """The document or list element around an expression, its file, and where the substitutions of that start."""

    scope: Scope
    path: tuple[str, ...]
    base_scope: Scope
    base_path: tuple[str, ...]
    file: OpenFile

    def element(self, item: Expression) -> _Place:
        """Place of a list element: it has no path, so what is included below it is relative to the element."""
        return _Place(Scope(item), (), self.base_scope, self.base_path, self.file)


@dataclass(frozen=True, slots=True)
class _Owner:
    """The innermost field that an expression is (part of) the value of."""

    scope: Scope
    path: tuple[str, ...]
    sequence: int


class Binder:
    """Binds one document; used once.

    Attributes:
        references: In the order of the text.
        nodes: Number of definitions and list elements, as a measure of the document.
        text_length: Characters of all the texts read.
    """

    def __init__(self, files: Files, include_directories: Sequence[str], limits: ParsingLimits) -> None:
        self.references: list[Reference] = []
        self.nodes = 0
        self.text_length = 0
        self._files = files
        self._include_directories = include_directories
        self._limits = limits
        self._included = 0
        self._tokens = 0

    def count_text(self, length: int, tokens: int) -> None:
        self.text_length += length
        self._tokens += tokens

    def bind_document(self, root: Object, file: OpenFile) -> None:
        scope = Scope(root)
        run_walk(self._object(root, _Place(scope, (), scope, (), file)))

    def bind_value(self, value: Expression, file: OpenFile) -> Object:
        """A document with the value under the empty key, which no substitution can name."""
        root = Object([FieldAssignment(("",), value, False, value.position)], value.position)
        self.bind_document(root, file)
        return root

    def _object(self, target: Object, place: _Place) -> Walk[None]:
        yield from self._members(target.members, target, place)

    def _members(self, members: list[FieldAssignment | Include], target: Object, place: _Place) -> Walk[None]:
        for member in members:
            if isinstance(member, Include):
                yield self._include(member, target, place)
            else:
                yield from self._field(member, target, place)

    def _field(self, field: FieldAssignment, target: Object, place: _Place) -> Walk[None]:
        path = place.path + field.key
        if len(path) > self._limits.depth:
            raise HoconError.at(
                field.position, f"nested more than {self._limits.depth} levels deep, which is the limit"
            )
        for name in field.key[:-1]:
            inner = Object([], field.position)
            self._define(target, name, inner, field.position)
            target = inner
        value = field.value
        definition = self._define(target, field.key[-1], value, field.position, field.append)
        if not isinstance(value, Scalar):
            inside = _Place(place.scope, path, place.base_scope, place.base_path, place.file)
            if field.append:
                inside = inside.element(value)
            yield self._expression(value, inside, _Owner(place.scope, path, definition.sequence))

    def _define(
        self, target: Object, name: str, value: Expression, position: SourcePosition, append: bool = False
    ) -> Definition:
        self.nodes += 1
        definition = Definition(value, self.nodes, position, append)
        target.fields.setdefault(name, []).append(definition)
        return definition

    def _expression(self, value: Expression, place: _Place, owner: _Owner) -> Walk[None]:
        if isinstance(value, Reference):
            self._reference(value, place, owner)
        elif isinstance(value, Object):
            yield self._object(value, place)
        elif isinstance(value, Concatenation):
            for part in value.parts:
                if not isinstance(part, Scalar):
                    yield self._expression(part, place, owner)
        elif isinstance(value, Array):
            for item in value.items:
                self.nodes += 1
                if not isinstance(item, Scalar):
                    yield self._expression(item, place.element(item), owner)

    def _reference(self, reference: Reference, place: _Place, owner: _Owner) -> None:
        self.references.append(reference)
        reference.scope, reference.path = place.base_scope, place.base_path + reference.path
        if (reference.scope, reference.path) == (owner.scope, owner.path):
            reference.own = owner.sequence

    def _include(self, include: Include, target: Object, place: _Place) -> Walk[None]:
        opened = self._open(include, place.file)
        if opened is None:
            return
        file, text = opened
        root, tokens = parse_document(text, file.path, self._limits, self._tokens)
        self.count_text(len(text), tokens)
        yield self._members(root.members, target, _Place(place.scope, place.path, place.scope, place.path, file))

    def _open(self, include: Include, parent: OpenFile) -> tuple[OpenFile, str] | None:
        self._included += 1
        if self._included > self._limits.includes:
            raise HoconError.at(
                include.position, f"more than {self._limits.includes} includes in one document, which is the limit"
            )
        directories = [parent.directory, *self._include_directories]
        found = find_include(self._files, include.name, directories, include.position, self._limits)
        if found is None:
            if include.required:
                looked = ", ".join(self._files.join(directory, include.name) for directory in directories)
                raise HoconError.at(
                    include.position, f'required file "{include.name}" does not exist (looked for {looked})'
                )
            return None
        path, text = found
        identity = self._files.identity(path)
        chain = parent.chain()
        if any(file.identity == identity for file in chain):
            names = " -> ".join([file.path for file in chain] + [path])
            raise HoconError.at(include.position, f"a file includes itself: {names}")
        if parent.depth > self._limits.include_depth:
            raise HoconError.at(
                include.position,
                f"includes follow one another more than {self._limits.include_depth} files deep, which is the limit",
            )
        return OpenFile(path, self._files.directory_of(path), identity, parent, parent.depth + 1), text

"""An object of a pipeline file, from which groups of settings are read; mistakes name file and line."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from heliograph.hocon.values import Node
from heliograph.pipeline.errors import RuleFileError
from heliograph.settings.reading import read_group

_Group = TypeVar("_Group")

# The name becomes a directory, a view in SQL, and a part of a client id.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class FileSection:
    """An object of a pipeline file.

    Args:
        path: What people call it, such as `rules.weather.sink`; empty for the top of the file.
        noted: Where unknown keys are noted, here and in the sections below, so that reading goes on to what else is
            wrong; None refuses the first.
    """

    def __init__(self, node: Node, path: str = "", noted: list[RuleFileError] | None = None) -> None:
        self.node = node
        self.path = path
        self._noted = noted
        if not isinstance(node.value, dict):
            raise self.mistake(f"found {node.kind}, expected an object")
        self.fields: Mapping[str, Node] = node.value

    def mistake(self, text: str, key: str = "") -> RuleFileError:
        """An error at a key of the section, or of the section; it begins with the file, the line and the path."""
        node = self.fields.get(key, self.node) if key else self.node
        place = ".".join(name for name in (self.path, key) if name)
        return RuleFileError(f"{node.position}: {place}: {text}" if place else f"{node.position}: {text}")

    def read(self, model: type[_Group], given: Mapping[str, Any] | None = None, others: Collection[str] = ()) -> _Group:
        """The group of settings that the section is.

        Args:
            given: Fields that are not for a file to say.
            others: Keys that are valid and read elsewhere.

        Raises:
            RuleFileError: With all that is not valid; unknown keys are noted where that is wanted.
        """
        group, problems = read_group(model, self.node, tuple(filter(None, [self.path])), given, others)
        mistakes = [str(problem) for problem in problems]
        if group is None or (mistakes and self._noted is None):
            raise RuleFileError(*mistakes)
        if self._noted is not None:
            self._noted.extend(map(RuleFileError, mistakes))
        return group

    def sections(self, key: str) -> list[tuple[str, "FileSection"]]:
        """The objects below a key, by name; none without the key."""
        named = self.section(key)
        return [] if named is None else [(name, each) for name in named.fields if (each := named.section(name))]

    def section(self, key: str) -> "FileSection | None":
        path = ".".join(filter(None, (self.path, key)))
        return FileSection(self.fields[key], path, self._noted) if key in self.fields else None

    def check_name(self, name: str) -> None:
        """Refuse a name that cannot become a directory and a view in SQL."""
        if not _NAME.fullmatch(name):
            raise self.mistake(f"{name!r} is not a name: names have letters, digits and _, first a letter")

    @property
    def origin(self) -> str:
        return str(self.node.position)

"""An object of a pipeline file, with the questions that its readers ask of it; mistakes name file and line."""

import difflib
import re
from collections.abc import Mapping
from typing import Final

from heliograph.hocon import Node
from heliograph.pipeline.errors import RuleFileError
from heliograph.settings.units import parse_duration

# The name becomes a directory, a view in SQL, and a part of a client id.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class Section:
    """An object of a pipeline file.

    Args:
        node: The value.
        path: What people call it, such as `rules.weather.sink`.
        noted: Where unknown keys are noted, here and in the sections below, so that reading goes on to what else is
            wrong; None refuses the first.

    Raises:
        RuleFileError: It is no object.
    """

    #: What the object at the top of a file is called.
    TOP: Final = "the file"

    def __init__(self, node: Node, path: str, noted: list[RuleFileError] | None = None) -> None:
        self.node = node
        self.path = path
        self._noted = noted
        if not isinstance(node.value, dict):
            raise self.mistake(f"{path} is {node.kind}, but must be an object")
        self.fields: Mapping[str, Node] = node.value

    def mistake(self, text: str, node: Node | None = None) -> RuleFileError:
        """An error that begins with the file and line of a node, or of the section."""
        return RuleFileError(f"{(node or self.node).position}: {text}")

    def check_keys(self, *valid: str) -> None:
        """Refuse keys that are not among the valid ones, or note them."""
        for key, node in self.fields.items():
            if key not in valid:
                near = difflib.get_close_matches(key, valid, 1)
                hint = f"did you mean {near[0]}?" if near else f"valid are {', '.join(valid)}"
                mistake = self.mistake(f"{self._name(key)} is not known: {hint}", node)
                if self._noted is None:
                    raise mistake
                self._noted.append(mistake)

    def sections(self, key: str) -> list[tuple[str, "Section"]]:
        """The objects in the object under a key, by name; none where the key is not there."""
        if key not in self.fields:
            return []
        named = Section(self.fields[key], self._name(key))
        return [(name, Section(node, f"{key}.{name}", self._noted)) for name, node in named.fields.items()]

    def check_name(self, name: str) -> None:
        """Refuse a name that cannot become a directory and a view in SQL."""
        if not _NAME.fullmatch(name):
            raise self.mistake(f"{name!r} is not a name: names have letters, digits and _, first a letter")

    def section(self, key: str) -> "Section | None":
        """The object under a key, if it is there."""
        return Section(self.fields[key], self._name(key), self._noted) if key in self.fields else None

    def text(self, key: str, default: str | None = None) -> str:
        """The string under a key, which must have text."""
        if key not in self.fields and default is not None:
            return default
        node = self._required(key, "a string")
        if not isinstance(node.value, str) or not node.value.strip():
            raise self.mistake(f"{self._name(key)} is {node.kind}, but must be a string with text", node)
        return node.value

    def optional_text(self, key: str) -> str | None:
        """The string under a key, which must have text; None where the key is not there."""
        return self.text(key) if key in self.fields else None

    def number(self, key: str, default: int, valid: range) -> int:
        """The whole number under a key."""
        node = self.fields.get(key)
        if node is None:
            return default
        if not isinstance(node.value, int) or isinstance(node.value, bool) or node.value not in valid:
            limits = f"{valid.start} to {valid.stop - 1}"
            raise self.mistake(f"{self._name(key)} must be a whole number from {limits}", node)
        return node.value

    def flag(self, key: str) -> bool:
        """The boolean under a key; False where the key is not there."""
        node = self.fields.get(key)
        if node is None:
            return False
        if not isinstance(node.value, bool):
            raise self.mistake(f"{self._name(key)} is {node.kind}, but must be true or false", node)
        return node.value

    def duration(self, key: str, default_s: float) -> float:
        """The seconds of the duration under a key, such as `500ms` or `1m`."""
        if key not in self.fields:
            return default_s
        try:
            return parse_duration(self.text(key))
        except ValueError as error:
            raise self.mistake(f"{self._name(key)} is no duration: {error}", self.fields[key]) from error

    def names(self, key: str) -> tuple[str, ...]:
        """The list of names under a key; empty where the key is not there."""
        node = self.fields.get(key)
        if node is None:
            return ()
        items = node.value if isinstance(node.value, list) else []
        names = tuple(item.value for item in items if isinstance(item.value, str) and item.value)
        if not names or len(names) != len(items):
            raise self.mistake(f"{self._name(key)} must be a list of column names, such as [station]", node)
        return names

    def texts(self, key: str) -> dict[str, str]:
        """The options of others under a key, all as text; empty where the key is not there."""
        section = self.section(key)
        return {name: section._plain_text(name) for name in section.fields} if section is not None else {}

    def _plain_text(self, key: str) -> str:
        value = self.fields[key].value
        if isinstance(value, bool):
            return str(value).lower()
        return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else self.text(key)

    def _required(self, key: str, kind: str) -> Node:
        if key not in self.fields:
            raise self.mistake(f"{self.path} has no {key}: it must be {kind}")
        return self.fields[key]

    @property
    def origin(self) -> str:
        """File and line."""
        return str(self.node.position)

    def _name(self, key: str) -> str:
        return key if self.path == self.TOP else f"{self.path}.{key}"

"""A configuration while it is made of another broker's: settings by path, and the files that it names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from heliograph.access.users.files import FileUser
from heliograph.config.passwords import PasswordHashAlgorithm
from heliograph.hocon.errors import SourcePosition
from heliograph.hocon.values import Node, Scalar, scalar_json
from heliograph.hocon.writing import to_hocon
from heliograph.migration.outcomes import ImportOutcome

CONFIGURATION: Final = "heliograph.conf"
REPORT: Final = "report.txt"


@dataclass(frozen=True, slots=True)
class BesideFile:
    """A setting that names a file which is written beside the configuration."""

    name: str


Value: TypeAlias = "Scalar | BesideFile | Sequence[Value] | Mapping[str, Value]"
Tree: TypeAlias = dict[str, Any]  # objects and their values, of the type Value


@dataclass(slots=True)
class ImportDraft:
    """The result of an import, filled while the other broker's files are read.

    Attributes:
        tree: The settings.
        files: Other files by name, such as `acl.conf`.
    """

    tree: Tree = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    outcomes: list[ImportOutcome] = field(default_factory=list)

    def set(self, path: str, value: Value) -> None:
        """Set a value by its dotted path."""
        set_in(self.tree, path, value)

    @property
    def lost_logins(self) -> list[ImportOutcome]:
        """What keeps a user from logging in here who could there."""
        return [outcome for outcome in self.outcomes if outcome.loses_login]

    def configuration(self, directory: Path) -> str:
        """The text of the configuration, which names its other files in a directory."""
        return to_hocon(_node(self.tree, directory))


def set_in(tree: Tree, path: str, value: Value) -> None:
    *groups, name = path.split(".")
    for group in groups:
        tree = tree.setdefault(group, {})
    tree[name] = value


def said(path: str, value: Value) -> str:
    """A setting as the report shows it."""
    if isinstance(value, BesideFile):
        return f"{path} = {value.name}"
    if isinstance(value, str | int | float) or value is None:
        return f"{path} = {value if isinstance(value, str) else scalar_json(value)}"
    return f"{path} = {json.dumps(value)}"


def users_file(users: Sequence[FileUser]) -> str:
    """Users with hashes, as `bootstrap_file` and `heliograph ctl users import --type hash` read them."""
    return json.dumps([_user_row(user) for user in users], indent=1, ensure_ascii=False) + "\n"


def _user_row(user: FileUser) -> dict[str, Any]:
    row: dict[str, Any] = {"user_id": user.user_id, "password_hash": user.secret.decode()}
    try:
        row["salt"] = user.salt.decode()
    except UnicodeDecodeError:
        row["salt_hex"] = user.salt.hex()
    row["is_superuser"] = user.is_superuser
    if user.algorithm is not None:
        row["password_hash_algorithm"] = _algorithm(user.algorithm)
    return row


def _algorithm(algorithm: PasswordHashAlgorithm) -> dict[str, Any]:
    names = ("name", "salt_position", "mac_fun", "iterations", "dk_length")
    given = {name: getattr(algorithm, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def _node(value: Any, directory: Path) -> Node:
    if isinstance(value, BesideFile):
        value = str(directory / value.name)
    elif isinstance(value, dict):
        value = {name: _node(each, directory) for name, each in value.items()}
    elif isinstance(value, list | tuple):
        value = [_node(each, directory) for each in value]
    return Node(value, SourcePosition(CONFIGURATION))

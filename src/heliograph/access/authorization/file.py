"""The source `file`: rules in the format of acl.conf."""

import logging
import os
from typing import ClassVar

from heliograph.access.acl.errors import AclError
from heliograph.access.acl.rules import Rule, Rules
from heliograph.access.authorization.interface import RulesSource, SourceSurroundings
from heliograph.broker.client import ClientInfo
from heliograph.config.authorization import DEFAULT_FILE, FileSourceConfig

_log = logging.getLogger(__name__)


class AclFileError(Exception):
    code: ClassVar[str] = "acl_file"


def make(settings: FileSourceConfig, surroundings: SourceSurroundings) -> RulesSource:
    """Raises `AclFileError` if the file cannot be read, `AclError` if it is no acl.conf."""
    return FileSource(settings.type, settings.path)


class FileSource(RulesSource):
    """The rules of a file, the same for all clients; read when it is made.

    Where the default file does not exist there are no rules; any other file must exist.
    """

    announces_changes = True

    def __init__(self, type: str, path: str) -> None:
        super().__init__(type)
        self._path = path
        self._text = _read(path)
        self._rules = Rules([]) if self._text is None else _parsed(self._text, os.path.expandvars(path))

    @property
    def has_rules(self) -> bool:
        return self._text is not None

    def fetch(self, client: ClientInfo) -> Rules:
        return self._rules

    def place_of(self, rule: Rule, client: ClientInfo) -> str:
        return f"{os.path.expandvars(self._path)}:{rule.line}"

    def is_current(self) -> bool:
        try:
            return _read(self._path) == self._text
        except AclFileError:
            return False


def _read(path: str) -> str | None:
    file = os.path.expandvars(path)
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except FileNotFoundError as error:
        if path == DEFAULT_FILE:
            return None
        raise AclFileError(_alarm_text(path, file, error.strerror)) from None
    except OSError as error:
        raise AclFileError(_alarm_text(path, file, error.strerror)) from None
    except UnicodeDecodeError as error:
        raise AclFileError(_alarm_text(path, file, f"it is no UTF-8 at byte {error.start}")) from None


def _parsed(text: str, file: str) -> Rules:
    from heliograph.access.acl.conf import read_acl_conf  # a node without such a file does not load the grammar

    try:
        rules = read_acl_conf(text)
    except AclError as error:
        raise AclFileError("\n".join(f"{file}: {fault}" for fault in error.faults)) from None
    for warning in rules.warnings:
        _log.warning("%s: %s", file, warning)
    return rules


def _alarm_text(path: str, file: str, why: str | None) -> str:
    shown = f"{path!r} (which is {file!r})" if file != path else repr(path)
    return f"the source file of authorization.sources cannot be read: path {shown}: {why}"

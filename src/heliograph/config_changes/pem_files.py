"""Certificates and keys that a change has as texts: each becomes a file below `certs` in the data directory.

A file has the name of its content, so none that holds is overwritten, and the configuration and its revisions have a
path in the place of a key. All functions wait for the disk.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from heliograph.hocon.values import Node
from heliograph.hocon.walking import Walk, run_walk
from heliograph.settings.fields import AnyKind, ListOfVariants
from heliograph.settings.kinds import PemFile, is_pem
from heliograph.settings.masking import declared_below, variant_of
from heliograph.settings.reading import list_items
from heliograph.storage.durable_files import write_durably

_log = logging.getLogger(__name__)
_DIRECTORY: Final = "certs"
_OWN: Final = re.compile(r"[a-z]+-[0-9a-f]{32}\.pem")
BYTES_MAX: Final = 64 << 20  # of all: texts of changes that were refused stay until a later change
_KEPT_S: Final = 600.0  # a change that is made, or a connection that is tried, may need it before anything names it


class PemFiles:
    """The files of one data directory; owned by the manager of changes."""

    def __init__(self, data_dir: Path, now_s: Callable[[], float]) -> None:
        self._directory = data_dir.absolute() / _DIRECTORY
        self._now_s = now_s

    def stored(self, tree: Node, kind: AnyKind) -> Node:
        """A document with the paths of files in the place of texts in PEM.

        Args:
            kind: What the document is.

        Raises:
            OSError: The disk does not take one.
        """
        return run_walk(self._stored(tree, kind, ""))

    def _stored(self, node: Node, kind: AnyKind | None, name: str) -> Walk[Node]:
        value = node.value
        if isinstance(kind, ListOfVariants) and list_items(node) is None:
            kind = variant_of(kind, node)
        if isinstance(value, dict):
            fields = {}
            for inner, child in value.items():
                fields[inner] = yield self._stored(child, declared_below(kind, inner, child)[0], inner)
            return Node(fields, node.position, node.source)
        if isinstance(value, list):
            items = []
            for item in value:
                items.append((yield self._stored(item, declared_below(kind, "1", item)[0], name)))
            return Node(items, node.position, node.source)
        if isinstance(kind, PemFile) and isinstance(value, str) and is_pem(value):
            return Node(str(self._write(name, value)), node.position, node.source)
        return node

    def _write(self, name: str, text: str) -> Path:
        content = text.strip().encode("utf-8", "surrogatepass") + b"\n"
        role = "".join(filter(str.isalpha, name)).lower()
        file = self._directory / f"{role}-{hashlib.sha256(content).hexdigest()[:32]}.pem"
        if not file.exists():
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            held = sum(one.stat().st_size for one in self._directory.iterdir() if _OWN.fullmatch(one.name))
            if held + len(content) > BYTES_MAX:
                text = f"certificates and keys of changes have more than {BYTES_MAX >> 20} MiB there: name a file"
                raise OSError(errno.EDQUOT, text, str(self._directory))
            write_durably(file, content, 0o600)
        now_s = self._now_s()
        os.utime(file, (now_s, now_s))
        return file

    def remove_unused(self, texts: Callable[[], Iterable[str]]) -> None:
        """Remove files that none of some texts names, if they were not made just now."""
        before_s = self._now_s() - _KEPT_S
        try:
            files = self._directory.iterdir() if self._directory.is_dir() else ()
            old = [file for file in files if _OWN.fullmatch(file.name) and file.lstat().st_mtime < before_s]
            named = "\n".join(texts()) if old else ""
            for file in old:
                if file.name not in named:
                    file.unlink(missing_ok=True)
        except OSError as error:  # the change is made already
            _log.warning("files in %s that nothing needs any more stay: %s", self._directory, error)

    def __repr__(self) -> str:
        return f"PemFiles({self._directory})"

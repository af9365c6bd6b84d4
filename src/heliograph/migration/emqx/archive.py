"""The archive that `emqx ctl data export` writes: its configuration, and the tables of its built-in databases.

A table is a backup of Mnesia: a log of disk_log (8 bytes; then for each term its size in 4 bytes, 4 bytes of magic,
for a term of 65528 bytes and more its MD5, and the term). The first term is the head of the log, one says which fields
the table has, the others are its rows.
"""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from heliograph.hocon.document import parse_text
from heliograph.hocon.files import MemoryFiles
from heliograph.hocon.values import Node
from heliograph.migration.emqx.terms import Atom, Term, TermError, read_term
from heliograph.migration.errors import ImportRefusedError

_LOG_MAGIC: Final = bytes((1, 2, 3, 4))
_HEAD_BYTES: Final = 8
_TERM_MAGIC: Final = (bytes((98, 87, 76, 65)), bytes((12, 33, 44, 55)))
_MD5_FROM_BYTES: Final = 65_528
_MD5_BYTES: Final = 16
_FILE_BYTES_MAX: Final = 1024 * 1024 * 1024
_TABLES: Final = "mnesia"

Row: TypeAlias = dict[str, Term]


@dataclass(frozen=True, slots=True)
class Archive:
    """What an archive has.

    Attributes:
        tree: Its cluster.hocon; None for none.
        tables: The rows of each table by field, or why it cannot be read.
    """

    file: str
    tree: Node | None
    tables: dict[str, list[Row] | str] = field(default_factory=dict)


def read_archive(file: Path) -> Archive:
    """What an archive has; raises `ImportRefusedError` and `HoconError`."""
    try:
        with tarfile.open(file, "r:gz") as tar:
            contents = dict(_contents(tar, file))
    except (OSError, tarfile.TarError, EOFError, gzip.BadGzipFile) as error:
        raise ImportRefusedError(f"{file} cannot be read as an archive: {error}") from None
    if "META.hocon" not in contents:
        raise ImportRefusedError(f"{file} is no export of EMQX: it has no META.hocon")
    cluster = contents.get("cluster.hocon")
    return Archive(
        str(file),
        None if cluster is None else _tree(cluster, f"{file}/cluster.hocon"),
        {
            name.removeprefix(f"{_TABLES}/"): _rows_or_reason(data)
            for name, data in sorted(contents.items())
            if name.startswith(f"{_TABLES}/")
        },
    )


def _tree(text: bytes, name: str) -> Node:
    return parse_text(text, name=name, files=MemoryFiles({}))  # an archive includes no file of this machine


def _contents(tar: tarfile.TarFile, file: Path) -> Iterator[tuple[str, bytes]]:
    """Its files without the folder that all are in; nothing is unpacked to the disk."""
    left = _FILE_BYTES_MAX
    for member in tar:
        left -= member.size
        if left < 0:
            raise ImportRefusedError(f"{file} has more than {_FILE_BYTES_MAX} bytes")
        content = tar.extractfile(member) if member.isfile() else None
        if content is not None:
            yield member.name.partition("/")[2], content.read()


def _rows_or_reason(data: bytes) -> list[Row] | str:
    try:
        return list(rows_of(data))
    except TermError as error:
        return str(error)


def rows_of(data: bytes) -> Iterator[Row]:
    """The rows of a backup of one table, by field; raises `TermError` while they are read."""
    fields: list[str] = []
    for term in _terms(data):
        if not isinstance(term, tuple) or not term or not isinstance(term[0], Atom):
            raise TermError("it has a term that is no record")
        if term[0] == "schema" and len(term) == 3:
            fields = _fields(term[2])
        elif term[0] != "log_header":
            if len(term) != len(fields) + 1:
                raise TermError(f"it has a row of {len(term) - 1} fields, where the table has {len(fields)}")
            yield dict(zip(fields, term[1:], strict=True))


def _fields(options: Term) -> list[str]:
    for option in options if isinstance(options, list) else ():
        if isinstance(option, tuple) and option[:1] == (Atom("attributes"),) and isinstance(option[1], list):
            return [str(name) for name in option[1]]
    raise TermError("it does not say which fields the table has")


def _terms(data: bytes) -> Iterator[Term]:
    if data[:4] != _LOG_MAGIC:
        raise TermError("it is no backup of Mnesia")
    at = _HEAD_BYTES
    while at < len(data):
        size, magic = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        begin = at + 8 + (_MD5_BYTES if size >= _MD5_FROM_BYTES else 0)
        if magic not in _TERM_MAGIC or begin + size > len(data):
            raise TermError(f"it is damaged at byte {at}")
        yield read_term(data[begin : begin + size])
        at = begin + size

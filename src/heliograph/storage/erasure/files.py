"""Erases messages in offloaded files: each file that has some is written again, under another name.

Row groups stay what they are, so the stubs of the database find the same rows in the new file.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from heliograph.storage.columnar.arrow_rows import OFFLOADED_SCHEMA
from heliograph.storage.columnar.block import ERASED
from heliograph.storage.columnar.offloaded import OffloadedFile
from heliograph.storage.erasure.subject import ErasureSubject
from heliograph.storage.offload.target import Target, new_file, offload_errors, open_file, remove_file, written_file

_LOOKED_AT: Final = ["topic", "clientid", "stored_at", "guid", "qos"]
_ERASED_VALUES: Final = {
    "payload": b"",
    "qos": ERASED,
    "retain": False,
    "clientid": "",
    "username": None,
    "properties": None,
    "property_bytes": b"",
}
_NUMBERED: Final = re.compile(r"(.*?)(?:-e(\d+))?\.parquet")


@dataclass(slots=True)
class _Group:
    """A row group with erased rows: the topics that it had, which rows are erased now, and which were before."""

    topics_before: list[str]
    taken: list[bool]
    gone: list[bool]


@dataclass(slots=True)
class RewrittenFile:
    """A file in the place of another.

    Attributes:
        ids: Of the ids that were asked about, those whose messages are erased.
        groups: The row groups that have changed.
    """

    file: OffloadedFile
    messages: int = 0
    ids: set[tuple[int, int]] = field(default_factory=set)
    groups: dict[int, _Group] = field(default_factory=dict)

    def topics(self, group: int, rows: slice) -> tuple[set[str], set[str]]:
        """The topics of the rows that were erased, and of those that stay; none of a group that has not changed."""
        found = self.groups.get(group)
        if found is None:
            return set(), set()
        places = range(len(found.taken))[rows]
        taken = {found.topics_before[row] for row in places if found.taken[row]}
        return taken, {found.topics_before[row] for row in places if not found.taken[row] and not found.gone[row]}


def rewritten(
    target: Target, file: OffloadedFile, subject: ErasureSubject, ids: set[tuple[int, int]], *, is_tried: bool
) -> RewrittenFile | None:
    """Write a file again without what is erased, or only count that; None if there is nothing in it."""
    place = target.place(file.path)
    with offload_errors(place):
        opened = open_file(target, file)
        try:
            found = _look_through(opened, file, subject, ids)
            if found.messages and not is_tried:
                found.file = _write(target, opened, file, found.groups)
        finally:
            opened.close(force=True)
    return found if found.messages else None


def remove_earlier(target: Target, path: str) -> None:
    """Remove the files in whose place a file is, as far as they are there."""
    base, number = _parts_of(path)
    for earlier in range(number):
        remove_file(target, _numbered(base, earlier))


def _look_through(
    opened: parquet.ParquetFile, file: OffloadedFile, subject: ErasureSubject, ids: set[tuple[int, int]]
) -> RewrittenFile:
    found = RewrittenFile(file)
    for number in range(opened.num_row_groups):
        table = opened.read_row_group(number, columns=_LOOKED_AT, use_threads=False)
        topics, clients, guids = (table[name].to_pylist() for name in ("topic", "clientid", "guid"))
        times = table["stored_at"].cast(pa.int64()).to_pylist()
        gone = [qos == ERASED for qos in table["qos"].to_pylist()]
        rows = zip(clients, topics, times, gone, strict=True)
        taken = [not is_gone and subject.takes(client, topic, time) for client, topic, time, is_gone in rows]
        if any(taken):
            found.messages += sum(taken)
            found.groups[number] = _Group(topics, taken, gone)
            if ids:
                erased = {_id_of(guid) for guid, is_taken in zip(guids, taken, strict=True) if is_taken}
                found.ids |= ids & erased
    return found


def _id_of(guid: bytes) -> tuple[int, int]:
    return int.from_bytes(guid[:8], "big"), int.from_bytes(guid[8:], "big")


def _write(
    target: Target, opened: parquet.ParquetFile, file: OffloadedFile, groups: dict[int, _Group]
) -> OffloadedFile:
    base, number = _parts_of(file.path)
    path = _numbered(base, number + 1)
    with new_file(target, path) as writer:
        for at in range(opened.num_row_groups):
            table = opened.read_row_group(at, use_threads=False)
            if at in groups:
                table = _without(table, groups[at].taken)
            writer.write_table(table, row_group_size=table.num_rows)
    return written_file(target, path)


def _without(table: pa.Table, taken: Sequence[bool]) -> pa.Table:
    """The same rows; those that are erased say nothing but where they are."""
    columns = []
    for schema_field in OFFLOADED_SCHEMA:
        column = table[schema_field.name]
        if schema_field.name == "topic":
            values = [("/" * one.count("/")) if gone else one for one, gone in _pairs(column, taken)]
            column = pa.array(values, schema_field.type)
        elif schema_field.name in _ERASED_VALUES:
            empty = _ERASED_VALUES[schema_field.name]
            column = pa.array([empty if gone else one for one, gone in _pairs(column, taken)], schema_field.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=OFFLOADED_SCHEMA)


def _pairs(column: pa.ChunkedArray, taken: Sequence[bool]) -> "zip[tuple[Any, bool]]":
    return zip(column.to_pylist(), taken, strict=True)


def _parts_of(path: str) -> tuple[str, int]:
    match = _NUMBERED.fullmatch(path)
    assert match is not None, path
    return match[1], int(match[2] or 0)


def _numbered(base: str, number: int) -> str:
    return f"{base}-e{number}.parquet" if number else f"{base}.parquet"

"""Checking and mending databases of keyed records: sessions, shared groups, retained messages.

Every record is read, so that RocksDB compares the checksums of its files, and passed to its owner. Mending writes all
readable and known records into a new database that replaces the old one. What a damaged piece of a file held is lost:
an older value of the same key is not used, since it may have been deleted.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heliograph.storage.columnar.salvage import is_damage, readable_records
from heliograph.storage.columnar.secondary import is_gone
from heliograph.storage.directory_swap import swap_in
from heliograph.storage.engine import Rdict, open_primary, open_secondary, translating, write_all
from heliograph.storage.errors import GONE, UnknownDatabaseError
from heliograph.storage.register import Register
from heliograph.storage.repair.findings import Findings
from heliograph.storage.repair.keyed_table import structure_problem, write_anew
from heliograph.storage.repair.message_database import node_is_stopped
from heliograph.storage.repair.openable_copy import FINISHED, files_made_readable, put_back
from heliograph.storage.state import local as local_state

KEYED: Final = "keyed"
FOLDERS: Final = ("state", KEYED)  # below the data directory; see `state.local` and `keyed.table`
_META: Final = b"\x00"

Validator = Callable[[bytes, bytes], str | None]


@dataclass(slots=True)
class StateReport(Findings):
    """What a check found.

    Attributes:
        kept: Where the database was put when another took its place.
        begins_anew: Whether nothing was left of it, so that the next start makes an empty one.
    """

    records: int = 0
    kept: Path | None = None
    begins_anew: bool = False

    def to_json(self) -> dict[str, object]:
        return {
            "database": self.database,
            "damaged": self.is_damaged,
            "records": self.records,
            "problems": self.problems,
            "problem_count": self.problem_count,
            "kept": None if self.kept is None else str(self.kept),
            "begins_anew": self.begins_anew,
        }


def state_directories(data_dir: Path) -> dict[str, Path]:
    """The databases of keyed records in a data directory, by name, also those that cannot be opened."""
    found = {}
    for folder in FOLDERS:
        path = data_dir / folder
        found.update({name: path / name for name in Register(data_dir).names(folder)})
        for entry in sorted(path.iterdir()) if path.is_dir() else ():
            if entry.is_dir() and not entry.name.startswith("."):
                found[entry.name] = entry
    return found


def check_state(data_dir: Path, name: str, validator: Validator) -> StateReport:
    """Read every record of a database, beside a running node or of a stopped one.

    Args:
        validator: Says what is wrong with a key and its value as its users gave them, None for nothing.
    """
    path = _path_of(data_dir, name)
    report = StateReport(name)
    if is_gone(path):
        report.add_problem(GONE)
        return report
    with translating(name, path), tempfile.TemporaryDirectory(prefix=f"heliograph-{name}.") as scratch:
        try:
            rocks = open_secondary(path, Path(scratch))
        except Exception as error:
            if not is_damage(error):
                raise
            report.add_problem(f"it cannot be opened: {error}")
            return report
        problem = _description_problem(rocks, path)
        if problem is not None:
            report.add_problem(problem)
        for _ in _readable(rocks, validator, report):
            report.records += 1
        rocks.close()
    return report


def repair_state(data_dir: Path, name: str, validator: Validator) -> StateReport:
    """Mend a database of a stopped node, if anything is damaged; the damaged one is kept."""
    path = _path_of(data_dir, name)
    with node_is_stopped(data_dir, name), translating(name, path):
        report = check_state(data_dir, name, validator)
        if not report.is_damaged:
            return report
        if is_gone(path):
            kept = put_back(name, path, path.parent / ".damaged")
            if kept is not None:
                report = check_state(data_dir, name, validator)
                report.add_problem(FINISHED)
                report.kept = kept
                return report
            Register(data_dir).remove(path)
            report.begins_anew = True
            return report
        report.records = 0
        with _workshop(path) as workshop:
            new = workshop / "new"
            again = StateReport(name)  # the same problems, reported already
            with _source(path, workshop / "files") as source:
                report.records = _copy(source, new, path, validator, again)
            kept = path.parent / ".damaged" / f"{name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
            kept.parent.mkdir(exist_ok=True)
            swap_in(new, path, kept)
        report.kept = kept
    return report


def _path_of(data_dir: Path, name: str) -> Path:
    found = state_directories(data_dir)
    if name not in found:
        listed = ", ".join(found) or "none"
        raise UnknownDatabaseError(f"there is no such database of state; there are: {listed}", database=name)
    return found[name]


@contextmanager
def _workshop(path: Path) -> Iterator[Path]:
    """A directory on the same file system, empty at the beginning and gone at the end."""
    workshop = path.parent / ".repair"
    shutil.rmtree(workshop, ignore_errors=True)
    workshop.mkdir()
    try:
        yield workshop
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


@contextmanager
def _source(path: Path, files: Path) -> Iterator[Rdict]:
    """What to copy from: the database as it is, or what RocksDB can make of its files."""
    notes = files.with_name("notes")
    try:
        rocks = open_secondary(path, notes)
    except Exception as error:
        if not is_damage(error):
            raise
        rocks = open_secondary(files_made_readable(path, files, set()), notes)
    try:
        yield rocks
    finally:
        rocks.close()


def _description_problem(rocks: Rdict, path: Path) -> str | None:
    """What is wrong with the records in which a database describes itself; None also where they cannot be read."""
    with suppress(Exception):  # what cannot be read, is found when all records are
        if path.parent.name == KEYED:
            return structure_problem(rocks, path.name)
        if rocks.get(_META) is None:
            return "the record that says what it is, is missing"
    return None


def _copy(source: Rdict, new: Path, path: Path, validator: Validator, report: StateReport) -> int:
    """Write everything readable into a new database; returns how many records that is."""
    target = open_primary(new, "lz4")
    try:
        if path.parent.name == KEYED:
            count = write_anew(source, target, path.name, _readable(source, validator, report))
            target.flush()
            return count
        write_all(target, [local_state.description(path.name)])
        count = write_all(target, _readable(source, validator, report))
        target.flush()
        return count
    finally:
        target.close()


def _readable(rocks: Rdict, validator: Validator, report: StateReport) -> Iterator[tuple[bytes, bytes]]:
    """The records that are what they should be, in their order; what is wrong with others goes into the report."""
    for key, value in _past_damage(rocks, report):
        problem = None if key == _META else validator(key[1:], value)
        if problem is None:
            yield key, value
        else:
            report.add_problem(f"the record {key[1:41]!r}: {problem}")


def _past_damage(rocks: Rdict, report: StateReport) -> Iterator[tuple[bytes, bytes]]:
    def tell(behind: bytes, problem: str) -> None:
        report.add_problem(f"behind {behind[1:41]!r} some records cannot be read: {problem}")

    return readable_records(rocks, tell)

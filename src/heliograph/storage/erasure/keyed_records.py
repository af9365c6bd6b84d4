"""Erases records of a database of state: it is written again without them, and takes the place of the old one."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from heliograph.storage.columnar.secondary import is_gone
from heliograph.storage.directory_swap import swap_in
from heliograph.storage.engine import Rdict, open_primary, open_secondary, records, translating, write_all
from heliograph.storage.repair.keyed_table import write_anew
from heliograph.storage.repair.record_database import KEYED
from heliograph.storage.state import local as local_state

_WORKSHOP: Final = ".erase"
_ASIDE: Final = ".damaged"  # where `check --repair` looks for a directory that a crash left aside
_STATE: Final = b"K"

Pairs = Iterable[tuple[bytes, bytes]]


def state_records(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a database of state, beside a running node too; none if it is not there."""
    if is_gone(path):
        return
    with translating(path.name, path), tempfile.TemporaryDirectory(prefix="heliograph-erase-") as scratch:
        rocks = open_secondary(path, Path(scratch))
        try:
            yield from _of_users(rocks)
        finally:
            rocks.close()


def rewrite_state(path: Path, kept: Callable[[Pairs], Pairs]) -> None:
    """Write a database of a stopped node again.

    Args:
        kept: Gives of all records those that stay, in their order; keys are without the byte that all keys have.
    """
    workshop = path.parent / _WORKSHOP
    shutil.rmtree(workshop, ignore_errors=True)
    new = workshop / path.name
    try:
        with translating(path.name, path), tempfile.TemporaryDirectory(prefix="heliograph-erase-") as scratch:
            workshop.mkdir()
            source = open_secondary(path, Path(scratch))
            try:
                _write(source, new, path, kept(_of_users(source)))
            finally:
                source.close()
            old = path.parent / _ASIDE / f"{path.name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
            old.parent.mkdir(exist_ok=True)
            swap_in(new, path, old)
            shutil.rmtree(old)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _of_users(rocks: Rdict) -> Iterator[tuple[bytes, bytes]]:
    for key, value in records(rocks, _STATE, b"L"):
        yield key[1:], value


def _write(source: Rdict, new: Path, path: Path, kept: Pairs) -> None:
    whole = ((_STATE + key, value) for key, value in kept)
    target = open_primary(new, "lz4")
    try:
        if path.parent.name == KEYED:
            write_anew(source, target, path.name, whole)
        else:
            write_all(target, [local_state.description(path.name)])
            write_all(target, whole)
        target.flush()
    finally:
        target.close()

"""Tables of what a micro-batch left out: dead letters and late rows, each batch exactly once.

A batch is one directory of Parquet files, ``<table>/<query>/<owner>-<batch>``, that appears by one rename. A batch that
runs again finds it there and writes nothing. Readers of the table see files of any depth and skip what has a leading
dot.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from heliograph.pipeline.errors import SinkError
from heliograph.storage.durable_files import force_to_disk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BATCH: Final = re.compile(r"([0-9a-f]{8})-(\d{8,})")


class SideTable:
    """What one query leaves out. Its state is on disk, so it can be made again at any time."""

    def __init__(self, directory: Path, owner: str) -> None:
        self._directory = directory
        self._owner = owner

    def __repr__(self) -> str:
        return f"SideTable({str(self._directory)!r})"

    def write(self, rows: "DataFrame", batch: int) -> int:
        """Write what one batch left out; return how many rows that is."""
        place = self._directory / f"{self._owner[:8]}-{batch:08d}"
        try:
            if not place.exists():
                self._write(rows, place)
            return rows_in(place)
        except OSError as error:
            raise SinkError(f"{place} cannot be written: {error}") from error

    def _write(self, rows: "DataFrame", place: Path) -> None:
        staging = place.with_name(f".{place.name}.unfinished")
        shutil.rmtree(staging, ignore_errors=True)
        rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(str(staging.resolve()))
        for file in staging.glob("*.parquet"):
            if pq.read_metadata(file).num_rows == 0:
                file.unlink()
                continue
            force_to_disk(file)
        for checksum in staging.glob(".*.crc"):
            checksum.unlink()
        if not any(staging.iterdir()):
            staging.rmdir()
            return
        force_to_disk(staging)
        staging.rename(place)
        force_to_disk(place.parent)


def batches_in(directory: Path) -> Iterator[Path]:
    """The batches of one query's table, the oldest first."""
    found: list[tuple[int, str, Path]] = []
    for place in directory.iterdir() if directory.is_dir() else ():
        if _BATCH.fullmatch(place.name) and place.is_dir():
            with suppress(FileNotFoundError):  # retention may remove it meanwhile
                found.append((place.stat().st_mtime_ns, place.name, place))
    yield from (place for _, _, place in sorted(found))


def queries_in(table: Path) -> list[Path]:
    return sorted(place for place in table.iterdir() if place.is_dir()) if table.is_dir() else []


def files_in(directory: Path) -> Iterator[Path]:
    """The files of one query's table, the oldest batch first."""
    for place in batches_in(directory):
        yield from sorted(place.glob("*.parquet"))


def rows_in(place: Path) -> int:
    """How many rows a batch has; 0 for one that is not there."""
    return sum(pq.read_metadata(file).num_rows for file in place.glob("*.parquet"))


def with_zone(at: datetime) -> datetime:
    """A time of a table; in Parquet's older form of times, which Spark writes, its zone, UTC, is left out."""
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)

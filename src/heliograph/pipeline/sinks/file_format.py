"""The formats of files that Spark writes: what they are called, how they may be compressed, and Spark's options."""

import bz2
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

#: The codecs of each format; the first is the default.
COMPRESSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "none"),
    "orc": ("zstd", "snappy", "zlib", "lz4", "none"),
    "json": ("none", "gzip", "bzip2"),
    "csv": ("none", "gzip", "bzip2"),
}
#: Options for times as text, in CSV and JSON: Spark's own form leaves out microseconds.
TIMES_AS_TEXT: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_ENDINGS: Final = {"gzip": ".gz", "bzip2": ".bz2"}


@dataclass(frozen=True)
class FileFormat:
    """How rows become files; without a compression, by the first codec of the format."""

    name: str = "parquet"
    compression: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def suffix(self) -> str:
        compressed = _ENDINGS.get(self.compression or "", "") if self.name in ("json", "csv") else ""
        return f".{self.name}{compressed}"

    def write(self, rows: DataFrame, directory: Path, partition_by: Sequence[str], file_rows: int | None) -> int:
        """Write rows by Spark to a new directory that all workers see, and return how many they were."""
        counted = Observation()
        writer = rows.observe(counted, F.count(F.lit(1)).alias("rows")).write
        writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer = writer.option("compression", self.compression or COMPRESSIONS[self.name][0]).options(**self.options)
        if file_rows is not None:
            writer = writer.option("maxRecordsPerFile", file_rows)
        if partition_by:
            writer = writer.partitionBy(*partition_by)
        writer.format(self.name).save(str(directory.resolve()))
        return int(counted.get["rows"])

    def files(self, directory: Path) -> list[Path]:
        """The files that Spark wrote there, in a fixed order."""
        written = (file for file in directory.rglob("part-*") if file.is_file())
        return sorted(file for file in written if not self._is_empty(file))

    def _is_empty(self, file: Path) -> bool:
        """Whether a file of text has none: Spark writes one for a task without rows."""
        if self.name not in ("json", "csv"):
            return False
        with _opened(file) as text:
            return not text.read(1)


def _opened(file: Path) -> BinaryIO | gzip.GzipFile | bz2.BZ2File:
    match file.suffix:
        case ".gz":
            return gzip.open(file, "rb")
        case ".bz2":
            return bz2.open(file, "rb")
    return file.open("rb")

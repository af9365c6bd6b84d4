"""The log of the batches of a query in its checkpoint, in Spark's form: where each ends, and which are done.

Spark writes it for its queries, and `heliograph.pipeline.runner` for its own, so that either goes on where the other
was.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heliograph.storage.durable_files import write_durably, write_whole

_OFFSETS: Final = "offsets"
_COMMITS: Final = "commits"
_VERSION: Final = "v1"
# As many as Spark keeps.
_KEPT: Final = 100


@dataclass(frozen=True)
class BatchLog:
    """What Spark's checkpoint keeps of one micro-batch: the offsets it ends at, and the watermark."""

    offsets: tuple[dict[str, Any] | None, ...]
    watermark_ms: int


def read_batch_log(checkpoint: Path, batch: int) -> BatchLog | None:
    """The log of one batch; None where there is none, or none any more, or not all of it after a power failure."""
    try:
        version, metadata, *offsets = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
        places = tuple(None if line == "-" else json.loads(line) for line in offsets)
        watermark_ms = json.loads(metadata)["batchWatermarkMs"]
    except (FileNotFoundError, ValueError, KeyError):
        return None
    if version != _VERSION:
        raise ValueError(f"the offsets of batch {batch} in {checkpoint} are of the unknown version {version}")
    return BatchLog(places, watermark_ms)


def forget_behind(checkpoint: Path, batch: int | None) -> None:
    """Remove the logs of the batches after one, or of all; their rows are brought again."""
    for directory in (_OFFSETS, _COMMITS):
        for number in _numbers(checkpoint / directory):
            if batch is None or number > batch:
                (checkpoint / directory / str(number)).unlink(missing_ok=True)


def last_offsets(checkpoint: Path) -> int | None:
    """The number of the last batch that was begun; None for none."""
    return max(_numbers(checkpoint / _OFFSETS), default=None)


def last_whole_offsets(checkpoint: Path) -> int | None:
    """The number of the last batch that was begun, and whose log can be read; None for none."""
    numbers = sorted(_numbers(checkpoint / _OFFSETS), reverse=True)
    return next((number for number in numbers if read_batch_log(checkpoint, number) is not None), None)


def last_commit(checkpoint: Path) -> int | None:
    """The number of the last batch that is done; None for none."""
    return max(_numbers(checkpoint / _COMMITS), default=None)


def write_offsets(checkpoint: Path, batch: int, offset: Mapping[str, Any], *, is_sure: bool) -> None:
    """Begin a batch of a query with one input and no watermark; older logs are removed, as Spark does.

    Args:
        is_sure: Whether it is on the disk before anything else happens: a target that remembers the numbers of batches
            must never see one number with other rows.
    """
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": {}}
    lines = (_VERSION, json.dumps(metadata), json.dumps(offset))
    write = write_durably if is_sure else write_whole
    write(checkpoint / _OFFSETS / str(batch), "\n".join(lines).encode())
    for directory in (_OFFSETS, _COMMITS):
        for old in (batch - _KEPT, batch - _KEPT - 1):
            (checkpoint / directory / str(old)).unlink(missing_ok=True)


def write_commit(checkpoint: Path, batch: int) -> None:
    """Note that a batch is done; where that is lost, it is brought to its target again."""
    write_whole(checkpoint / _COMMITS / str(batch), f'{_VERSION}\n{{"nextBatchWatermarkMs":0}}'.encode())


def _numbers(directory: Path) -> list[int]:
    return [int(file.name) for file in directory.iterdir() if file.name.isdigit()] if directory.is_dir() else []

"""Partitions of a read: which ranges of which streams one Spark task reads.

Large ranges are cut, so that all cores have work; small ones share a partition, since each partition costs Spark a task
and two Python workers.

A worker keeps its connections from task to task: a task may take some milliseconds, and opening and closing a
connection takes nine, since gRPC ends all its threads with the last one.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final

from pyspark.sql.datasource import InputPartition

from heliograph.pipeline.datasource.client import MessageSelection, StorageClient, StreamStep
from heliograph.pipeline.datasource.endpoints import Endpoints
from heliograph.pipeline.datasource.options import SourceOptions

_KEPT_MAX: Final = 16


@dataclass(frozen=True)
class StreamRange:
    """The rows of one stream after one position, up to another; the figures are those before topics are matched."""

    endpoint: str
    stream: str
    position: str
    to: str
    messages: int
    bytes: int


@dataclass(frozen=True)
class MessagePartition(InputPartition):
    """One partition of a read: ranges of streams that one task reads one after another. It pickles to the workers."""

    selection: MessageSelection
    ranges: tuple[StreamRange, ...]


@dataclass(frozen=True)
class PartitionSize:
    """What one partition has at most, about."""

    messages: int
    bytes: int

    def share(self, messages: int, message_bytes: int) -> float:
        """How much of a partition this is."""
        return max(messages / self.messages, message_bytes / self.bytes)


def plan_partitions(
    endpoints: Endpoints,
    selection: MessageSelection,
    whole: Mapping[str, tuple[str, str]],
    size: PartitionSize,
    counted: Mapping[str, StreamStep] | None = None,
) -> list[InputPartition]:
    """Make partitions of the ranges of a read.

    Args:
        whole: Of each stream, the position before the first row and that of the last.
        counted: What is known of whole ranges; the reader is not asked about those that are no more than a partition.
    """
    counted = counted or {}
    pieces: dict[str, list[StreamStep]] = {}
    for stream in whole:
        step = counted.get(stream)
        if step is not None and size.share(step.messages, step.bytes) <= 1:
            pieces[stream] = [step]
    asked = {stream: ends for stream, ends in whole.items() if stream not in pieces}
    if asked:
        pieces |= endpoints.split(selection, asked, messages_max=size.messages, bytes_max=size.bytes)
    ranges = [piece for stream, ends in whole.items() for piece in _ranges(endpoints, stream, ends[0], pieces[stream])]
    return [MessagePartition(selection, tuple(group)) for group in _grouped(ranges, size)]


def _ranges(endpoints: Endpoints, stream: str, position: str, steps: list[StreamStep]) -> list[StreamRange]:
    endpoint, own = endpoints.locate(stream)
    ranges = []
    for step in steps:
        ranges.append(StreamRange(endpoint, own, position, step.position, step.messages, step.bytes))
        position = step.position
    return ranges


def _grouped(ranges: list[StreamRange], size: PartitionSize) -> list[list[StreamRange]]:
    """Ranges that share a partition, the largest first; each fills what room the last one leaves."""
    shares = [(size.share(span.messages, span.bytes), span) for span in ranges]
    groups: list[list[StreamRange]] = []
    room = 0.0
    for share, span in sorted(shares, key=lambda pair: pair[0], reverse=True):
        if not groups or share > room:
            groups.append([])
            room = 1.0
        groups[-1].append(span)
        room -= share
    return groups


class WorkerConnections:
    """The connections of one process; lives as long as it. Tasks of a worker come one after another."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str | None, ...], StorageClient] = {}

    @contextmanager
    def borrowed(self, options: SourceOptions, endpoint: str) -> Iterator[StorageClient]:
        """A connection to a reader for the length of a `with` block, used by this task only.

        It is closed when the block ends with an exception, a read that is not read to its end among them, so the next
        task opens another; otherwise it is kept, in the place of the least recently used one where there are
        many.
        """
        key = (endpoint, options.token, options.tls_ca, options.tls_cert, options.tls_key)
        client = self._kept.pop(key, None) or options.connect(endpoint)
        try:
            yield client
        except BaseException:
            client.close()
            raise
        former = self._kept.pop(key, None)
        self._kept[key] = client
        if former is None and len(self._kept) > _KEPT_MAX:
            former = self._kept.pop(next(iter(self._kept)))
        if former is not None:
            former.close()


@cache
def worker_connections() -> WorkerConnections:
    """The connections of this process."""
    return WorkerConnections()

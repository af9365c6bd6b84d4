"""The stored messages of a stretch of time, read slice by slice from the storage reader, never from the broker."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from heliograph.pipeline.datasource.client import SKIP, MessageSelection, StorageClient

_SLICE_MESSAGES: Final = 16_384
_SLICE_BYTES: Final = 8 << 20


class StretchSlice(NamedTuple):
    """Some messages of one stream.

    Attributes:
        stream: The stream.
        batch: The messages.
        share: Which share of the stretch is read with it, 0 to 1.
    """

    stream: str
    batch: pa.RecordBatch
    share: float


class Stretch:
    """Messages of some topics that were stored within a span of time.

    Args:
        client: A connection to the storage reader; the caller closes it.
        selection: What is read.
    """

    def __init__(self, client: StorageClient, selection: MessageSelection) -> None:
        self._client = client
        self._selection = selection

    def slices(self, columns: Sequence[str]) -> Iterator[StretchSlice]:
        """All messages; those of a stream in order, and of all streams about in the order of their times."""
        positions: dict[str, str] = {}
        done = 0
        while True:
            plan = self._client.plan(self._selection, positions, messages_max=_SLICE_MESSAGES, bytes_max=_SLICE_BYTES)
            total = done + plan.messages + plan.messages_remaining
            for stream, step in plan.streams.items():
                if not step.messages:
                    continue
                done += step.messages
                begin = positions.get(stream, "")
                for batch in self._client.read(self._selection, stream, begin, step.position, columns):
                    yield StretchSlice(stream, batch, done / total)
            if not plan.messages_remaining or not plan.messages:
                return
            positions = plan.positions()


def selection_of(database: str, topics: Sequence[str], since: int, until: int) -> MessageSelection:
    """Messages of a stretch; what is damaged on disk is left out, and logged."""
    return MessageSelection(database, tuple(topics), since or None, until, SKIP)

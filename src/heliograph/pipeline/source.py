"""The data source ``heliograph``: stored messages as a Spark table or stream, and rows published as MQTT messages.

`HeliographDataSource` is what a session registers; the readers are here, the writers in `heliograph.pipeline.writer`.
Spark pickles all of these classes: the source to a planning process on the driver, the readers to the workers. So they
hold plain values only, and connect to the storage reader where they are used.

A micro-batch is decided by two offsets, and a read of the same two offsets returns the same rows at any time: they are
positions in streams, which are append-only. That is what makes the source replayable after a crash.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from heliograph.pipeline.client import Positions, ReadPlan, Selection, StorageClient, StreamStep
from heliograph.pipeline.errors import DataLossError, OptionError
from heliograph.pipeline.options import EARLIEST, LATEST, SinkOptions, SourceOptions
from heliograph.pipeline.schema import arrow_schema, check_schema, conform, select_columns
from heliograph.pipeline.writer import MqttBatchWriter, MqttStreamWriter

FORMAT: Final = "heliograph"

_log = logging.getLogger(__name__)

#: The rows of a range that nobody has counted: it gets a partition for itself.
UNKNOWN: Final = 2**62

#: JSON form of a place in all streams: {"streams": {stream id: position}, "start": µs, if the read began at a time}.
Offset = dict[str, Any]


@dataclass(frozen=True)
class StreamRange:
    """The rows of one stream after one position, up to another."""

    stream: str
    position: str
    to: str
    messages: int


@dataclass(frozen=True)
class MessagePartition(InputPartition):
    """One partition of a read: ranges of streams that one task reads one after another. It pickles to the workers."""

    selection: Selection
    ranges: tuple[StreamRange, ...]


class HeliographDataSource(DataSource):
    """Reads the broker's stored messages and publishes rows over MQTT; see ``docs/pipeline.md`` for its options.

    Spark makes an instance of it, with the options as text, for each use of ``format("heliograph")``.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of stored messages, or those that the option ``columns`` names."""
        return select_columns(SourceOptions.of(self.options).columns)

    def reader(self, schema: StructType) -> "MessageReader":
        """A batch reader of the given columns."""
        return MessageReader(SourceOptions.of(self.options), schema)

    def streamReader(self, schema: StructType) -> "MessageStreamReader":  # noqa: N802 (Spark's name)
        """A stream reader of the given columns."""
        return MessageStreamReader(SourceOptions.of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> MqttBatchWriter:
        """A writer that publishes the rows of a table."""
        return MqttBatchWriter(SinkOptions.of(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> MqttStreamWriter:  # noqa: N802
        """A writer that publishes the rows of each micro-batch."""
        return MqttStreamWriter(SinkOptions.of(self.options), schema)


class _RangeReader:
    """What both readers share: reading one partition, on a worker."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema)
        self.options = options
        self.columns = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of one partition. Called once for each, on a worker; it may block."""
        if not isinstance(partition, MessagePartition):
            # Spark plans one partition of its own where there are none.
            return
        schema, names = arrow_schema(self.columns), self.columns.fieldNames()
        with StorageClient(self.options.endpoint) as client:
            for span in partition.ranges:
                try:
                    for batch in client.read(partition.selection, span.stream, span.position, span.to, names):
                        yield conform(batch, schema)
                except DataLossError as error:
                    if self.options.fail_on_data_loss:
                        raise
                    _log.warning("%s", error)


class MessageReader(_RangeReader, DataSourceReader):
    """Reads what is stored at the time of planning, between ``start`` and ``end``."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        if options.start == LATEST:
            raise OptionError("start", LATEST, "earliest or a time: a batch read of what comes later is empty")
        if options.end == EARLIEST:
            raise OptionError("end", EARLIEST, "latest or a time")

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the read. Called once, in a planning process on the driver; it asks the storage reader."""
        start, end = (time if isinstance(time, int) else None for time in (self.options.start, self.options.end))
        selection = self.options.selection(start, end)
        with StorageClient(self.options.endpoint) as client:
            plan = client.plan(selection)
            whole = [
                StreamRange(stream, "", step.position, step.messages)
                for stream, step in sorted(plan.streams.items())
                if step.position
            ]
            return plan_partitions(client, selection, whole, self.options.partition_messages)


class MessageStreamReader(_RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the streams as they grow, one micro-batch after another.

    Spark keeps one instance in a planning process on the driver for as long as the query runs; `read` runs on the
    workers. Nothing that the instance remembers decides which rows a batch has: that is said by its two offsets alone.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._start = options.start if isinstance(options.start, int) else None
        if options.end != LATEST:
            raise OptionError("end", options.end, "left out: a stream has no end (read it as a batch for that)")
        self._client: StorageClient | None = None
        self._end: int | None = None
        self._planned: tuple[Offset, dict[str, int]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A connection does not pickle, and the workers open their own.
        return {**self.__dict__, "_client": None}

    def initialOffset(self) -> Offset:  # noqa: N802
        """Where a new query begins. Called once, and never again for the same checkpoint."""
        if self.options.start == LATEST:
            return _offset(self._connection().plan(self._selection_from(None)).positions(), None)
        return _offset({}, self._start)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Where the next micro-batch ends. Called once for each trigger; `start` itself says that nothing is new."""
        positions = start["streams"]
        selection = replace(self._selection_from(start), end=self._end)
        plan = self._connection().plan(selection, positions, **self._limits(limit))
        self._tell_loss(plan)
        kept = {stream: position for stream, position in positions.items() if stream not in plan.dropped}
        end = _offset({**kept, **plan.positions()}, start.get("start"))
        self._planned = end, {stream: step.messages for stream, step in plan.streams.items()}
        return end

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit that Spark passes to `latestOffset` again; the one of bytes is applied there as well."""
        if self.options.trigger_messages_max is not None:
            return ReadMaxRows(self.options.trigger_messages_max)
        if self.options.trigger_bytes_max is not None:
            return ReadMaxBytes(self.options.trigger_bytes_max)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """The end of everything stored, for the figures of the query. Called once for each trigger."""
        return _offset(self._connection().plan(self._selection_from(None)).positions(), None)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the query at what is stored now. Called once, before the first micro-batch."""
        last = self._connection().info(self.options.database)["stored_at"]
        self._end = (last or 0) + 1

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Cut a micro-batch into partitions. Called once for each, also when it is run again after a restart."""
        known = self._planned[1] if self._planned is not None and self._planned[0] == end else {}
        whole = [
            StreamRange(stream, start["streams"].get(stream, ""), position, known.get(stream, UNKNOWN))
            for stream, position in end["streams"].items()
            if position != start["streams"].get(stream)
        ]
        selection = self._selection_from(start)
        return plan_partitions(self._connection(), selection, whole, self.options.partition_messages)

    def stop(self) -> None:
        """Close the connection. Called when the query ends."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _tell_loss(self, plan: ReadPlan) -> None:
        lost = {stream: messages for stream, messages in plan.dropped.items() if messages != 0}
        if not lost:
            return
        told = ", ".join(
            f"{'an unknown number' if messages is None else f'up to {messages}'} of {stream}"
            for stream, messages in sorted(lost.items())
        )
        if self.options.fail_on_data_loss:
            raise DataLossError(
                f"messages were removed by the broker's retention before they were read: {told}. Keep them longer with "
                "durable_storage.messages.retention, or set the option failOnDataLoss to false to go on without them"
            )
        _log.warning("messages were removed before they were read, and are left out: %s", told)

    def _connection(self) -> StorageClient:
        if self._client is None:
            self._client = StorageClient(self.options.endpoint)
        return self._client

    def _selection_from(self, offset: Offset | None) -> Selection:
        return self.options.selection(offset.get("start") if offset is not None else self._start)

    def _limits(self, limit: ReadLimit) -> dict[str, int | None]:
        if isinstance(limit, ReadAllAvailable):
            return {"messages_max": None, "bytes_max": None}
        return {"messages_max": self.options.trigger_messages_max, "bytes_max": self.options.trigger_bytes_max}


def plan_partitions(
    client: StorageClient, selection: Selection, whole: Sequence[StreamRange], size: int
) -> list[InputPartition]:
    """Make partitions of about `size` rows each of the ranges of a read.

    Large ranges are cut, so that all cores have work; small ones share a partition, since each partition costs Spark a
    task and two Python workers.

    Args:
        client: The connection to the storage reader.
        selection: The selection that the ranges were planned for.
        whole: The ranges, one for each stream.
        size: The rows that one partition should have.
    """
    ranges = _cut(client, selection, whole, size)
    groups: list[list[StreamRange]] = []
    room = 0
    for span in sorted(ranges, key=lambda span: span.messages, reverse=True):
        if span.messages > room:
            groups.append([])
            room = size
        groups[-1].append(span)
        room -= span.messages
    return [MessagePartition(selection, tuple(group)) for group in groups]


def _cut(client: StorageClient, selection: Selection, whole: Sequence[StreamRange], size: int) -> list[StreamRange]:
    # The reader is asked for the positions in between. It may by now have more than the ranges hold, so a range is
    # closed as soon as the rows up to a position make up all of its rows: positions can be counted, but not compared.
    is_cut = {span.stream: UNKNOWN > span.messages > size + size // 2 for span in whole}
    ranges = [span for span in whole if not is_cut[span.stream]]
    cuts = {span.stream: _Cut(span) for span in whole if is_cut[span.stream]}
    # Streams that are done stand still at their ends and cost a plan nothing but what has come since.
    reached = {span.stream: span.to for span in whole}
    while cuts:
        reached |= {stream: cut.reached for stream, cut in cuts.items()}
        plan = client.plan(selection, reached, messages_max=size * len(whole))
        moved = [stream for stream in cuts if stream in plan.streams and plan.streams[stream].messages]
        # Streams of a later generation wait for those of an earlier one; when nothing moves, nothing is left to ask.
        for stream in moved or list(cuts):
            if moved and cuts[stream].advance(plan.streams[stream], size):
                continue
            ranges += cuts[stream].finish()
            reached[stream] = cuts.pop(stream).whole.to
    return ranges


class _Cut:
    """A range that is being cut: the pieces so far, where the next begins, and how far the reader was asked."""

    def __init__(self, whole: StreamRange) -> None:
        self.whole = whole
        self.reached = whole.position
        self._pieces: list[StreamRange] = []
        self._begin = whole.position
        self._counted = 0
        self._counted_before = 0

    def advance(self, step: StreamStep, size: int) -> bool:
        """Take in how far a plan goes; return whether there is more after it."""
        self._counted += step.messages
        if self._counted >= self.whole.messages:
            return False
        self.reached = step.position
        if self._counted - self._counted_before >= size:
            messages = self._counted - self._counted_before
            self._pieces.append(StreamRange(self.whole.stream, self._begin, self.reached, messages))
            self._begin, self._counted_before = self.reached, self._counted
        return True

    def finish(self) -> list[StreamRange]:
        """All pieces, the last of them up to the end of the range."""
        messages = self.whole.messages - self._counted_before
        return [*self._pieces, StreamRange(self.whole.stream, self._begin, self.whole.to, messages)]


def _offset(positions: Positions, start: int | None) -> Offset:
    # Spark compares offsets as text, so the order of the streams must always be the same.
    offset: Offset = {"streams": dict(sorted(positions.items()))}
    if start is not None:
        offset["start"] = start
    return offset


def offset_positions(offset: Offset | None) -> dict[str, str]:
    """The positions in an offset that Spark reports in its progress; none for a query that has not begun."""
    return dict(offset["streams"]) if offset else {}

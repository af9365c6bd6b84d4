"""The data source ``heliograph``: stored messages as a Spark table or stream, and rows published as MQTT messages.

`HeliographDataSource` is what a session registers; the readers and writers are
here. Spark pickles all of these classes: the source to a planning process on the
driver, the readers to the workers. So they hold plain values only, and connect to the storage readers where they are
used.

A micro-batch is decided by two offsets, and a read of the same two offsets returns the same rows at any time: they are
positions in streams, which are append-only. That is what makes the source replayable after a crash.

Each task publishes its own partition over its own connection. A task ends well only when the broker has acknowledged
every row of it, so what Spark has committed was taken. A task that is run again publishes its rows again: delivery is
at least once, and a receiver that must not see doubles tells them apart by a key in the payload.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from heliograph._spark_worker import settle_process
from heliograph.pipeline.datasource.client import MessageSelection, Positions, ReadPlan, StorageClient
from heliograph.pipeline.datasource.column_pruning import prune_columns
from heliograph.pipeline.datasource.decoding import PayloadDecoder
from heliograph.pipeline.datasource.endpoints import Endpoints
from heliograph.pipeline.datasource.offsets import Offset as Offset
from heliograph.pipeline.datasource.offsets import latest_offset, make_offset, more_lost
from heliograph.pipeline.datasource.options import EARLIEST, LATEST, SourceOptions
from heliograph.pipeline.datasource.partitions import (
    MessagePartition,
    PartitionSize,
    plan_partitions,
    worker_connections,
)
from heliograph.pipeline.datasource.publisher import MqttPublisher
from heliograph.pipeline.datasource.read_bounds import ReadBound, check_not_ahead
from heliograph.pipeline.datasource.schema import (
    ROW_COUNT,
    ROW_COUNT_SCHEMA,
    arrow_schema,
    check_schema,
    columns_ddl,
    conform,
)
from heliograph.pipeline.datasource.sink_options import SinkOptions
from heliograph.pipeline.datasource.spark_versions import (
    HAS_LIMITS,
    PUSH_FILTERS,
    DataSourceStreamArrowWriter,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    UnlimitedStreamReader,
    check_limit,
    rows_of,
)
from heliograph.pipeline.datasource.worker_python import use_own_python
from heliograph.pipeline.errors import DataLossError, OptionError, PipelineError

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

FORMAT: Final = "heliograph"
_log = logging.getLogger(__name__)

#: How much more a partition has that is counted only: a task costs more than to count what one has otherwise.
_TIMES_COUNTED: Final = 16
_COLUMNS: Final = ("topic", "payload", "qos", "retain", "properties")


@dataclass(frozen=True)
class PublishedRows(WriterCommitMessage):
    """What a task says when it ends: how many rows the broker acknowledged."""

    rows: int


class _MqttWriter:
    """What both writers share: publishing one partition, on a worker."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        _check_columns(schema)
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PublishedRows:
        """Publish the rows of one partition. Called once for each, on a worker; it blocks until all is acknowledged."""
        rows = 0
        with MqttPublisher(self.options) as publisher:
            for row in rows_of(iterator):
                publisher.publish(row)
                rows += 1
            publisher.flush()
        return PublishedRows(rows)


class MqttBatchWriter(_MqttWriter, DataSourceArrowWriter):
    """Publishes the rows of a table; Spark pickles it to the workers."""


class MqttStreamWriter(_MqttWriter, DataSourceStreamArrowWriter):
    """Publishes the rows of each micro-batch; Spark pickles it to the workers."""


class HeliographDataSource(DataSource):
    """Reads the broker's stored messages and publishes rows over MQTT; see ``docs/pipeline.md`` for its options.

    Spark makes an instance of it, with the options as text, for each use of ``format("heliograph")``.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format. Spark asks the driver for it when the source is registered."""
        use_own_python()
        prune_columns()
        return FORMAT

    @property
    def read_options(self) -> Mapping[str, str]:
        """The options of a read; a source that has more of its own leaves them out here."""
        return self.options

    def schema(self) -> str:
        """The columns of stored messages and decoded payloads, or those that the option ``columns`` names."""
        options = SourceOptions.of(self.read_options)
        return columns_ddl(options.columns, options.payload_format)

    def reader(self, schema: StructType) -> "MessageReader":
        """A batch reader of the given columns, or of numbers of rows."""
        options = SourceOptions.of(self.read_options)
        return RowCountReader(options) if schema == ROW_COUNT_SCHEMA else MessageReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """A stream reader of the given columns."""
        try:
            reader = MessageStreamReader(SourceOptions.of(self.read_options), schema)
            return reader if HAS_LIMITS else UnlimitedStreamReader(reader)
        except PipelineError as error:
            refused = _RefusedStreamReader(error)
            return refused if HAS_LIMITS else UnlimitedStreamReader(refused)

    def writer(self, schema: StructType, overwrite: bool) -> MqttBatchWriter:
        """A writer that publishes the rows of a table."""
        if overwrite:
            raise OptionError("mode", "overwrite", "append: what was published cannot be taken back")
        return MqttBatchWriter(SinkOptions.of(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> MqttStreamWriter:  # noqa: N802
        """A writer that publishes the rows of each micro-batch."""
        return MqttStreamWriter(SinkOptions.of(self.options), schema)


class _RangeReader:
    """What both readers share: reading one partition, on a worker."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema, options.payload_format)
        self.options = options
        self.columns = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of one partition. Called once for each, on a worker; it may block."""
        if not isinstance(partition, MessagePartition):
            # Spark plans one partition of its own where there are none.
            return
        settle_process()
        kept = worker_connections()
        schema = arrow_schema(self.columns)
        decoder = PayloadDecoder(self.options.payload_format, self.columns)
        with ExitStack() as connections:
            clients: dict[str, StorageClient] = {}
            for span in partition.ranges:
                if span.endpoint not in clients:
                    clients[span.endpoint] = connections.enter_context(kept.borrowed(self.options, span.endpoint))
                rows = clients[span.endpoint].read(
                    partition.selection, span.stream, span.position, span.to, decoder.reads
                )
                try:
                    for batch in rows:
                        yield conform(decoder.decoded(batch, span.stream), schema)
                except DataLossError as error:
                    if self.options.fail_on_data_loss:
                        raise
                    _log.warning("messages are left out: %s", error)

    def _endpoints(self) -> Endpoints:
        return Endpoints(self.options.endpoints, self.options.connect, self.options.database)

    def _size(self) -> PartitionSize:
        return PartitionSize(self.options.partition_messages, self.options.partition_bytes)


class _PushFilters:
    """The method ``pushFilters`` of a reader that works in any session.

    Spark refuses a reader that overrides the method while ``spark.sql.python.filterPushdown.enabled`` is false, as it
    is by default: it looks whether ``__func__`` of the method is that of its own class. Without filters such a reader
    reads more than it needs, and the same rows come out, so there is nothing to refuse.
    """

    __func__: ClassVar[Callable[..., Any] | None] = staticmethod(PUSH_FILTERS) if PUSH_FILTERS is not None else None

    def __init__(self, reader: "MessageReader") -> None:
        self._reader = reader

    def __call__(self, filters: "Iterable[Filter]") -> "Iterable[Filter]":
        return self._reader.take_filters(filters)


class MessageReader(_RangeReader, DataSourceReader):
    """Reads what is stored at the time of planning, between ``start`` and ``end``."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        if options.start == LATEST:
            raise OptionError("start", LATEST, "earliest or a time: a batch read of what comes later is empty")
        if options.end == EARLIEST:
            raise OptionError("end", EARLIEST, "latest or a time")
        check_not_ahead(options.start, is_stream=False)
        self._selection: MessageSelection | None = options.selection(_time_of(options.start), _time_of(options.end, ""))

    @property
    def pushFilters(self) -> _PushFilters:  # noqa: N802
        """Narrows the read; Spark calls it before `partitions`, if pushing filters is enabled in the session."""
        return _PushFilters(self)

    def take_filters(self, filters: "Iterable[Filter]") -> "Iterable[Filter]":
        """Narrow the read to where the rows of some filters lie; return the filters that Spark must apply.

        Spark 4.3 keeps the partitions that come of it with the DataFrame that was loaded, and reads them for every
        query of it, one without these filters too: a union of two conditions then has the rows of one of them twice.
        So nothing is narrowed unless the option ``pushFilters`` says that the DataFrame is for one query.
        """
        filters = list(filters)
        if self._selection is None or not self.options.push_filters:
            return filters
        from heliograph.pipeline.datasource.pushdown import narrow  # which Spark 4.0 has no filters for

        narrowed = narrow(self._selection, filters)
        self._selection = narrowed.selection
        return narrowed.left

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the read. Called once, in a planning process on the driver; it asks the storage readers."""
        if self._selection is None:
            return []
        endpoints = self._endpoints()
        try:
            begin = endpoints.named(_positions_of(self.options.start))
            plan = endpoints.plan(self._selection, begin)
            if isinstance(self.options.end, dict):
                there = endpoints.named(_positions_of(self.options.end))
                whole = _between(begin, {name: to for name, to in there.items() if name in plan.streams})
                return plan_partitions(endpoints, self._selection, whole, self._size())
            whole = _between(begin, plan.positions())
            return plan_partitions(endpoints, self._selection, whole, self._size(), plan.streams)
        finally:
            endpoints.close()


class RowCountReader(MessageReader):
    """Counts the rows that `MessageReader` would read: gives one row for each partition.

    `ColumnPruning.java` puts it below a sum, in the place of a `count()`: that Spark takes a row out of Python's hands
    costs more than to read it.
    """

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options, StructType())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the number of rows of one partition; see `MessageReader.read`."""
        rows = sum(batch.num_rows for batch in super().read(partition))
        yield pa.RecordBatch.from_pydict({ROW_COUNT: [rows]}, schema=arrow_schema(ROW_COUNT_SCHEMA))

    def _size(self) -> PartitionSize:
        size = super()._size()
        return PartitionSize(size.messages * _TIMES_COUNTED, size.bytes * _TIMES_COUNTED)


class MessageStreamReader(_RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the streams as they grow, one micro-batch after another.

    Spark keeps one instance in a planning process on the driver for as long as the query runs; `read` runs on the
    workers. Nothing that the instance remembers decides which rows a batch has: that is said by its two offsets alone.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._start = _time_of(options.start)
        if options.end != LATEST:
            raise OptionError("end", options.end, "left out: a stream has no end (read it as a batch for that)")
        check_not_ahead(options.start, is_stream=True)
        check_limit("maxMessagesPerTrigger", options.trigger_messages_max)
        check_limit("maxBytesPerTrigger", options.trigger_bytes_max)
        self._connections: Endpoints | None = None
        self._end: int | None = None
        self._planned: tuple[Offset, ReadPlan] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A connection does not pickle, and the workers open their own.
        return {**self.__dict__, "_connections": None, "_planned": None}

    def initialOffset(self) -> Offset:  # noqa: N802
        """Where a new query begins. Called once, and never again for the same checkpoint."""
        if self.options.start == LATEST:
            return make_offset(self._connection().plan(self._selection_from(None)).positions(), None)
        return make_offset(self._connection().named(_positions_of(self.options.start)), self._start)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Where the next micro-batch ends. Called once for each trigger; `start` itself says that nothing is new."""
        positions = self._connection().named(start["streams"])
        selection = replace(self._selection_from(start), end=self._end)
        plan = self._connection().plan(selection, positions, **self._limits(limit))
        lost = {stream: messages for stream, messages in plan.dropped.items() if messages != 0}
        if lost:
            self._tell_loss(lost)
        kept = {stream: position for stream, position in positions.items() if stream not in plan.dropped}
        end = make_offset({**kept, **plan.positions()}, start.get("start"), more_lost(start, lost))
        self._planned = end, plan
        return end

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit that Spark passes to `latestOffset` again; the one of bytes is applied there as well."""
        if self.options.trigger_messages_max is not None:
            return ReadMaxRows(self.options.trigger_messages_max)
        if self.options.trigger_bytes_max is not None:
            return ReadMaxBytes(self.options.trigger_bytes_max)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """The end of everything stored, and how far behind it the query is, for its figures. Called once a trigger."""
        if self._planned is None:
            return make_offset(self._connection().plan(self._selection_from(None)).positions(), None)
        reached, plan = self._planned
        if self._end is None and plan.messages_remaining == 0:
            return latest_offset(reached["streams"], reached, 0)
        rest = self._connection().plan(self._selection_from(reached), self._connection().named(reached["streams"]))
        return latest_offset(rest.positions(), reached, rest.messages)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the query at what is stored now. Called once, before the first micro-batch."""
        self._end = (self._connection().stored_until() or 0) + 1

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Cut a micro-batch into partitions. Called once for each, also when it is run again after a restart."""
        endpoints = self._connection()
        whole = _between(endpoints.named(start["streams"]), endpoints.named(end["streams"]))
        counted = self._planned[1].streams if self._planned is not None and self._planned[0] == end else None
        return plan_partitions(endpoints, self._selection_from(start), whole, self._size(), counted)

    def stop(self) -> None:
        """Called when the query ends."""
        if self._connections is not None:
            self._connections.close()
            self._connections = None

    def _tell_loss(self, lost: dict[str, int | None]) -> None:
        text = ", ".join(
            f"{'an unknown number' if messages is None else f'up to {messages}'} of {stream}"
            for stream, messages in sorted(lost.items())
        )
        if self.options.fail_on_data_loss:
            raise DataLossError(
                f"messages were removed by the broker's retention before they were read: {text}. Keep them longer with "
                "durable_storage.messages.retention, or set the option failOnDataLoss to false to go on without them"
            )
        _log.warning("messages were removed before they were read, and are left out: %s", text)

    def _connection(self) -> Endpoints:
        if self._connections is None:
            self._connections = self._endpoints()
        return self._connections

    def _selection_from(self, offset: Offset | None) -> MessageSelection:
        return self.options.selection(offset.get("start") if offset is not None else self._start)

    def _limits(self, limit: ReadLimit) -> dict[str, int | None]:
        if isinstance(limit, ReadAllAvailable):
            return {"messages_max": None, "bytes_max": None}
        return {"messages_max": self.options.trigger_messages_max, "bytes_max": self.options.trigger_bytes_max}


class _RefusedStreamReader(DataSourceStreamReader):
    """Tells why there is no reader, but not before it is used: Spark would put a fault of its own in its place."""

    def __init__(self, error: PipelineError) -> None:
        self._error = error

    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's name)
        raise self._error

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 (Spark's name)
        raise self._error

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error


def _time_of(place: ReadBound, field: str = "start") -> int | None:
    """The time in a place, if it has one."""
    if isinstance(place, dict):
        time: int | None = place.get(field)
        return time
    return place if isinstance(place, int) else None


def _positions_of(place: ReadBound) -> dict[str, str]:
    """The positions in a place; none if it is no offset."""
    return dict(place["streams"]) if isinstance(place, dict) else {}


def _between(begin: Positions, end: Positions) -> dict[str, tuple[str, str]]:
    """The ranges of the streams that go on between two places."""
    ranges = {stream: (begin.get(stream, ""), to) for stream, to in end.items()}
    return {stream: ends for stream, ends in ranges.items() if ends[0] != ends[1]}


def _check_columns(schema: StructType) -> None:
    valid = f"some of {', '.join(_COLUMNS)}, among them topic and payload"
    for name in schema.fieldNames():
        if name not in _COLUMNS:
            raise OptionError("columns", name, valid)
    for name, kinds in (("topic", (StringType,)), ("payload", (StringType, BinaryType))):
        if name not in schema.fieldNames():
            raise OptionError("columns", ", ".join(schema.fieldNames()), valid)
        if not isinstance(schema[name].dataType, kinds):
            raise OptionError(f"columns.{name}", schema[name].dataType.simpleString(), "a string")

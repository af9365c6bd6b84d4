"""Parts of the stored messages, exactly: those between two offsets, and a stream that ends at a time.

Two data sources beside ``heliograph``, for the driver's own use. ``heliograph_range`` reads as a table what a
micro-batch read, by the two offsets in its checkpoint. ``heliograph_until`` is a stream of the messages stored before a
time, for a backfill. Both read as ``heliograph`` does, with its options.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from heliograph.pipeline.datasource.options import EARLIEST, SourceOptions
from heliograph.pipeline.datasource.source import HeliographDataSource, MessageStreamReader, Offset

RANGE: Final = "heliograph_range"
UNTIL: Final = "heliograph_until"

_FROM: Final = "fromoffset"
_TO: Final = "tooffset"
_UNTIL: Final = "untiltime"


class RangeDataSource(HeliographDataSource):
    """The messages between the offsets ``fromOffset`` and ``toOffset``, as a table."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return RANGE

    def reader(self, schema: StructType) -> "RangeReader":  # type: ignore[override]  # it shares nothing with the other
        """A reader of the given columns."""
        stream = MessageStreamReader(SourceOptions.of(_own(self.options)), schema)
        return RangeReader(stream, json.loads(self.options[_FROM]), json.loads(self.options[_TO]))


class RangeReader(DataSourceReader):
    """Reads what the stream reader reads between two offsets. It pickles to the workers."""

    def __init__(self, stream: MessageStreamReader, start: Offset, end: Offset) -> None:
        self._stream = stream
        self._start = start
        self._end = end

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the read. Called once, in a planning process on the driver."""
        return self._stream.partitions(self._start, self._end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of one partition. Called once for each, on a worker."""
        return self._stream.read(partition)


class UntilDataSource(HeliographDataSource):
    """The messages stored before ``untilTime`` (microseconds since the epoch), as a stream."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return UNTIL

    def streamReader(self, schema: StructType) -> "UntilStreamReader":  # noqa: N802 (Spark's name)
        """A stream reader of the given columns."""
        return UntilStreamReader(SourceOptions.of(_own(self.options)), schema, int(self.options[_UNTIL]))


class UntilStreamReader(MessageStreamReader):
    """A stream reader for `Trigger.AvailableNow` that ends at a time of storing."""

    def __init__(self, options: SourceOptions, schema: StructType, until: int) -> None:
        super().__init__(options, schema)
        self._until = until

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Fix the end of the query. Called once, before the first micro-batch."""
        super().prepareForTriggerAvailableNow()
        self._end = self._until if self._end is None else min(self._end, self._until)


def register_sources(session: SparkSession) -> None:
    """Make ``heliograph`` and the formats of this module known to a session."""
    for source in (HeliographDataSource, RangeDataSource, UntilDataSource):
        session.dataSource.register(source)


def read_range(session: SparkSession, options: dict[str, str], start: Offset, end: Offset) -> DataFrame:
    """The messages between two offsets."""
    places = {_FROM: json.dumps(start), _TO: json.dumps(end)}
    return session.read.format(RANGE).options(**options, **places).load()


def stream_until(session: SparkSession, options: dict[str, str], until: int) -> DataFrame:
    """A stream of the messages stored before a time, in microseconds since the epoch."""
    return session.readStream.format(UNTIL).options(**options, **{_UNTIL: str(until)}).load()


def initial_offset(start: str) -> Offset:
    """The offset at which a query begins: ``earliest``, microseconds since the epoch, or an offset, all as text."""
    if start.startswith("{"):
        offset: Offset = json.loads(start)
        return offset
    return {"streams": {}} if start == EARLIEST else {"streams": {}, "start": int(start)}


def _own(options: Any) -> dict[str, str]:
    places = (_FROM, _TO, _UNTIL)
    return {name: value for name, value in options.items() if name.lower() not in places}

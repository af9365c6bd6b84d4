"""Parts of the stored messages, exactly: those between two offsets, and a stream that ends at a time.

Two data sources beside ``heliograph``, for the driver's own use. ``heliograph_range`` reads as a table what a
micro-batch read, by the two offsets in its checkpoint. ``heliograph_until`` is a stream of the messages stored before a
time and up to an offset, for a backfill. Both read as ``heliograph`` does, with its options.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from heliograph.pipeline.datasource.offsets import make_offset, parse_offset, position_order
from heliograph.pipeline.datasource.options import SourceOptions
from heliograph.pipeline.datasource.read_bounds import SESSION_ZONE
from heliograph.pipeline.datasource.source import HeliographDataSource, MessageStreamReader, Offset

RANGE: Final = "heliograph_range"
UNTIL: Final = "heliograph_until"

_FROM: Final = "fromoffset"
_TO: Final = "tooffset"
_UNTIL: Final = "untiltime"
_BORDER: Final = "borderoffset"


class _PartDataSource(HeliographDataSource):
    """What both sources share: the options of ``heliograph`` beside those of their own."""

    @property
    def read_options(self) -> Mapping[str, str]:
        """The options of ``heliograph``. Spark has their names in lower case, and finds them in any."""
        own = (_FROM, _TO, _UNTIL, _BORDER)
        return CaseInsensitiveDict({name: value for name, value in self.options.items() if name.lower() not in own})


class RangeDataSource(_PartDataSource):
    """The messages between the offsets ``fromOffset`` and ``toOffset``, as a table."""

    @classmethod
    def name(cls) -> str:
        return RANGE

    def reader(self, schema: StructType) -> "RangeReader":  # type: ignore[override]  # it shares nothing with the other
        stream = MessageStreamReader(SourceOptions.of(self.read_options), schema)
        return RangeReader(stream, json.loads(self.options[_FROM]), json.loads(self.options[_TO]))


class RangeReader(DataSourceReader):
    """Reads what the stream reader reads between two offsets. It pickles to the workers."""

    def __init__(self, stream: MessageStreamReader, start: Offset, end: Offset) -> None:
        self.stream = stream
        self._start = start
        self._end = end

    def partitions(self) -> Sequence[InputPartition]:
        return self.stream.partitions(self._start, self._end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.stream.read(partition)


class UntilDataSource(_PartDataSource):
    """The messages stored before ``untilTime`` (microseconds) and up to the offset ``borderOffset``, as a stream."""

    @classmethod
    def name(cls) -> str:
        return UNTIL

    def streamReader(self, schema: StructType) -> "UntilStreamReader":  # noqa: N802 (Spark's name)
        border = parse_offset(_BORDER, self.options[_BORDER]) if _BORDER in self.options else None
        return UntilStreamReader(SourceOptions.of(self.read_options), schema, int(self.options[_UNTIL]), border)


class UntilStreamReader(MessageStreamReader):
    """A stream reader for `Trigger.AvailableNow` that ends at a time of storing, and at an offset if there is one.

    What is stored behind the offset is not read even where its time is before `until`: the clocks of nodes differ.
    """

    def __init__(self, options: SourceOptions, schema: StructType, until: int, border: Offset | None = None) -> None:
        super().__init__(options, schema)
        self._until = until
        self._border = border

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        super().prepareForTriggerAvailableNow()
        self._end = self._until if self._end is None else min(self._end, self._until)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 (Spark's name)
        """Where the next micro-batch ends. Called once for each trigger; `start` itself says that nothing is new."""
        end = super().latestOffset(start, limit)
        if self._border is None:
            return end
        before = self._up_to_border(start)
        seen = start
        # A bounded step may have met only what is after the border, with more of this side after that.
        while self._up_to_border(end) == before and end != seen:
            seen, end = end, super().latestOffset(end, limit)
        return make_offset(self._up_to_border(end), end.get("start"), end.get("lost"))

    def _up_to_border(self, offset: Offset) -> dict[str, str]:
        """The positions of an offset, none of them behind the border."""
        border = self._connection().named(self._border["streams"] if self._border is not None else {})
        there = self._connection().named(offset["streams"])
        return {
            stream: min(position, border[stream], key=position_order)
            for stream, position in there.items()
            if stream in border
        }


#: Variables that Spark puts into the environment of a source's Python processes when a stream begins. The streams of a
#: source share that map and begin in threads of their own, and a map that two threads enlarge at once stays broken: no
#: task of the source can be sent any more (java.io.OptionalDataException). What is there already is replaced only.
SET_BY_STREAMS: Final = {
    "SPARK_AUTH_SOCKET_TIMEOUT": "",
    "SPARK_BUFFER_SIZE": "",
    "SPARK_LOCAL_DIRS": "",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}

#: The setting of Spark's time zone, which the source's options have as well.
ZONE_SETTING: Final = "spark.sql.session.timeZone"


def register_sources(session: SparkSession) -> None:
    """Make ``heliograph`` and the formats of this module known to a session."""
    environment = session.sparkContext.environment
    for name, value in SET_BY_STREAMS.items():
        environment.setdefault(name, value)
    # Spark tells a source nothing of its session; what is in the environment now goes with the source.
    environment[SESSION_ZONE] = session.conf.get(ZONE_SETTING)
    for source in (HeliographDataSource, RangeDataSource, UntilDataSource):
        session.dataSource.register(source)


def read_range(session: SparkSession, options: dict[str, str], start: Offset, end: Offset) -> DataFrame:
    places = {_FROM: json.dumps(start), _TO: json.dumps(end)}
    return session.read.format(RANGE).options(**options, **places).load()


def stream_until(session: SparkSession, options: dict[str, str], until: int, border: Offset | None) -> DataFrame:
    """A stream of the messages stored before a time, in microseconds since the epoch, and not behind an offset."""
    ends = {_UNTIL: str(until)} | ({_BORDER: json.dumps(border)} if border is not None else {})
    return session.readStream.format(UNTIL).options(**options, **ends).load()

"""Reading stored messages into Spark, each figure beside its reference in the same run.

JSON messages of 20 stations are stored, two million in one database and eight in another, then measured in turn, so
that both sides meet the same machine:

- `json`: one field taken out of the JSON, grouped by topic and averaged, by the data source's `schema=json` and by
  Spark's `get_json_object`; beside the same query over Parquet, which has the latter only.
- `raw`: topics and payloads of the eight million counted and measured without looking into them; beside a fixed rate.
- `count`: `count()` of the eight million, with no columns named; beside that of Parquet files of the same rows.
- `closed`: the same query over the eight million in a closed generation that was exported, by `read_messages`; beside
  Spark's own reader over a table that Spark wrote.
- `offloaded`: topics and payloads of two million messages whose generation was offloaded, to a directory and to an S3
  server on this machine, read by the data source; beside the same while they were in the database.
- `floor`: the duration of a micro-batch of one commit; beside a Python source that makes up its one row.

    python benchmarks/pipeline_read.py [json] [raw] [count] [closed] [offloaded] [floor] [--messages N] [--runs N]
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.findings import checked

from heliograph.pipeline.history import read_messages
from heliograph.pipeline.spark.session import spark_session
from heliograph.storage.columnar.node_databases import NodeDatabases
from heliograph.storage.interface import DatabaseOptions
from support.s3 import BUCKET, s3_server

_DATA: Final = "data"
_MESSAGES: Final = "messages"
# What is planned once for a query must not weigh against a read that takes less than a second.
_MORE: Final = "more"
_TIMES_MORE: Final = 4
_STATIONS: Final = 20
_COMMIT: Final = 2_000
_BEGIN_US: Final = 1_767_225_600_000_000
_JSON_TARGET: Final = 0.7
_COUNT_TARGET: Final = 0.4
_RAW_TARGET: Final = 2_500_000
_DECODED: Final = "schema=json"
_FLOOR_TARGET: Final = 1.3
_CLOSED_TARGET: Final = 0.9
_OFFLOADED_TARGET: Final = 0.5
_EXPORTED: Final = "exported"
_WARM_RUNS: Final = 5
_FLOOR_BATCHES: Final = 25
_FLOOR_WARM: Final = 5


class StationMessage:
    """What storage reads of a message."""

    def __init__(self, number: int) -> None:
        station = number % _STATIONS
        self.id_high = self.received_at = _BEGIN_US + number
        self.id_low = number
        self.topic = f"sensors/station-{station:02d}/obs"
        self.payload = (
            b'{"station":"station-%02d","seq":%d,"temp":%.1f,"humidity":%d,"time":"2026-01-01T00:00:00Z"}'
            % (station, number, number % 400 / 10, number % 100)
        )
        self.qos = 1
        self.retain = False
        self.clientid = f"station-{station:02d}"
        self.username = None
        self.property_bytes = b""


def store(data_dir: Path, name: str, messages: int) -> None:
    """Store the messages in a database, in commits such as a busy broker makes."""
    database = NodeDatabases(data_dir).database(name, DatabaseOptions())
    database.open()
    for begin in range(0, messages, _COMMIT):
        database.write([StationMessage(number) for number in range(begin, min(begin + _COMMIT, messages))])
    database.close()


def average_by_topic(rows: DataFrame) -> None:
    """Take one field out of the JSON, group and average."""
    is_decoded = "value" in rows.columns
    text = F.get_json_object(F.col("payload").cast("string"), "$.temp") if not is_decoded else F.col("value.temp")
    temperatures = rows.select("topic", text.cast("double").alias("temp"))
    groups = temperatures.groupBy("topic").agg(F.avg("temp"), F.count("temp")).collect()
    if len(groups) != _STATIONS:
        raise SystemExit(f"the query gave {len(groups)} groups instead of {_STATIONS}")


def measure_raw(rows: DataFrame) -> None:
    """Touch the topic and the payload of every row."""
    rows.agg(F.count("topic"), F.sum(F.length("payload"))).collect()


def alternate(actions: dict[str, Callable[[], None]], runs: int) -> dict[str, list[float]]:
    """Seconds of each action, in turn; the first round warms up the Java compiler and is left out."""
    durations: dict[str, list[float]] = {name: [] for name in actions}
    for run in range(runs + 1):
        for name, action in actions.items():
            begin = time.perf_counter()
            action()
            if run:
                durations[name].append(time.perf_counter() - begin)
    return durations


def compare_json(session: SparkSession, endpoint: str, directory: Path, messages: int, runs: int) -> bool:
    """The query over both sources; whether the target is met."""
    source = session.read.format("heliograph").option("endpoint", endpoint)
    source.load().write.mode("overwrite").parquet(str(directory / "parquet"))
    decoded = session.read.format("heliograph").option("endpoint", endpoint).option("columns", "topic,value")
    tables = {
        _DECODED: decoded.option("schema", "json").option("jsonSchema", "temp DOUBLE").load(),
        "get_json_object, 2 columns": source.option("columns", "topic,payload").load(),
        "get_json_object, all columns": session.read.format("heliograph").option("endpoint", endpoint).load(),
        "parquet": session.read.parquet(str(directory / "parquet")),
    }
    durations = alternate({name: _bound(average_by_topic, table) for name, table in tables.items()}, runs)
    medians = {name: statistics.median(found) for name, found in durations.items()}
    for name, median in medians.items():
        rate, ratio = messages / median, medians["parquet"] / median
        print(f"json   {name:30}{median:8.2f} s{rate:14,.0f} messages/s{ratio:8.2f} x parquet")
    best = max(parquet / ours for parquet, ours in zip(durations["parquet"], durations[_DECODED], strict=True))
    return _told("json", medians["parquet"] / medians[_DECODED], best, _JSON_TARGET, "x parquet")


def compare_raw(session: SparkSession, endpoint: str, directory: Path, messages: int, runs: int) -> bool:
    """Rows read without looking into them; whether the target is met."""
    source = session.read.format("heliograph").option("endpoint", endpoint).option("database", _MORE)
    rows = source.option("columns", "topic,payload").load()
    found = alternate({"raw": _bound(measure_raw, rows)}, runs)["raw"]
    rates = [_TIMES_MORE * messages / duration for duration in found]
    return _told("raw", statistics.median(rates), max(rates), _RAW_TARGET, "messages/s")


def compare_count(session: SparkSession, endpoint: str, directory: Path, messages: int, runs: int) -> bool:
    """`count()` where nothing says which columns are needed; whether the target is met."""
    rows = session.read.format("heliograph").option("endpoint", endpoint).option("database", _MORE).load()
    rows.write.mode("overwrite").parquet(str(directory / "counted"))
    tables = {"heliograph": rows, "parquet": session.read.parquet(str(directory / "counted"))}
    durations = alternate({name: _bound(_count, table) for name, table in tables.items()}, runs)
    medians = {name: statistics.median(found) for name, found in durations.items()}
    for name, median in medians.items():
        print(f"count  {name:30}{median:8.2f} s{_TIMES_MORE * messages / median:14,.0f} messages/s")
    best = max(parquet / ours for parquet, ours in zip(durations["parquet"], durations["heliograph"], strict=True))
    return _told("count", medians["parquet"] / medians["heliograph"], best, _COUNT_TARGET, "x parquet")


def _count(rows: DataFrame) -> None:
    rows.count()


def compare_closed(session: SparkSession, endpoint: str, directory: Path, messages: int, runs: int) -> bool:
    """A closed generation out of Parquet files beside plain Parquet; whether the target is met."""
    exported = str(directory / _EXPORTED)
    read_messages(session, exported, endpoint=endpoint, database=_MORE).write.parquet(str(directory / "plain"))
    tables = {
        "read_messages": read_messages(session, exported, endpoint=endpoint, database=_MORE, columns="topic,payload"),
        "parquet": session.read.parquet(str(directory / "plain")),
    }
    actions = {name: _bound(measure_raw, table) for name, table in tables.items()}
    alternate(actions, _WARM_RUNS)
    durations = alternate(actions, runs)
    medians = {name: statistics.median(found) for name, found in durations.items()}
    for name, median in medians.items():
        print(f"closed {name:30}{median:8.2f} s{_TIMES_MORE * messages / median:14,.0f} messages/s")
    best = max(parquet / ours for parquet, ours in zip(durations["parquet"], durations["read_messages"], strict=True))
    return _told("closed", medians["parquet"] / medians["read_messages"], best, _CLOSED_TARGET, "x parquet")


def close_and_export(data_dir: Path, directory: Path) -> None:
    """Begin a generation after the messages that are there, and export what is closed."""
    database = NodeDatabases(data_dir).database(_MORE, DatabaseOptions())
    database.open()
    database.add_generation()
    database.close()
    _storage("export", _MORE, data_dir, str(directory / _EXPORTED))


def compare_offloaded(session: SparkSession, endpoint: str, directory: Path, messages: int, runs: int) -> bool:
    """An offloaded generation read by the data source beside a local one; whether the target is met."""
    with ExitStack() as stack:
        places = {"directory": str(directory / "cold"), "S3": stack.enter_context(_bucket())}
        endpoints = {"local": endpoint}
        for name, target in places.items():
            copy = _offloaded_copy(directory / _DATA, directory / name, target)
            endpoints[name] = stack.enter_context(storage_reader(copy))
        tables = {
            name: session.read.format("heliograph").options(endpoint=one, columns="topic,payload").load()
            for name, one in endpoints.items()
        }
        durations = alternate({name: _bound(measure_raw, table) for name, table in tables.items()}, runs)
    medians = {name: statistics.median(found) for name, found in durations.items()}
    met = []
    for name, median in medians.items():
        print(f"offloaded {name:27}{median:8.2f} s{messages / median:14,.0f} messages/s")
        if name in places:
            best = max(local / cold for local, cold in zip(durations["local"], durations[name], strict=True))
            met.append(_told(f"offloaded {name}", medians["local"] / median, best, _OFFLOADED_TARGET, "x local"))
    return all(met)


@contextmanager
def _bucket() -> Iterator[str]:
    """The place of a bucket of the S3 server that the tests use, while it runs."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "benchmark")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "benchmark")
    with s3_server() as store:
        yield f"s3://{BUCKET}/cold?endpoint_override={store.endpoint}&scheme=http&region=eu"


def _offloaded_copy(data_dir: Path, copy: Path, target: str) -> Path:
    """A copy of the stored messages, with all of them offloaded."""
    shutil.copytree(data_dir / "storage", copy / "storage")
    database = NodeDatabases(copy).database(_MESSAGES, DatabaseOptions())
    database.open()
    database.add_generation()
    database.close()
    _storage("offload", _MESSAGES, copy, target)
    return copy


def _storage(action: str, database: str, data_dir: Path, target: str) -> None:
    command = [sys.executable, "-m", "heliograph.cli.main", "storage", action, database, "--data-dir", str(data_dir)]
    subprocess.run([*command, "--to", target], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def storage_reader(data_dir: Path) -> Iterator[str]:
    """The host:port of a storage reader, while it runs."""
    command = [sys.executable, "-m", "heliograph.storage.reader", "--data-dir", str(data_dir)]
    reader = subprocess.Popen([*command, "--bind", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        assert reader.stdout is not None
        yield reader.stdout.readline().split()[-1]
    finally:
        reader.terminate()
        reader.wait()


def compare_floor(session: SparkSession, endpoint: str, directory: Path, messages: int, runs: int) -> bool:
    """Micro-batches of one commit beside those of a source that has nothing to read; whether the target is met."""
    session.dataSource.register(EmptySource)
    ours = session.readStream.format("heliograph").option("endpoint", endpoint).option("columns", "topic,payload")
    sources = {
        "heliograph": ours.option("maxMessagesPerTrigger", 1).option("topics", "sensors/station-01/obs"),
        "empty": session.readStream.format("empty_python_source"),
    }
    ratios = []
    for run in range(max(2, runs // 2) + 1):
        medians = {}
        for name, source in sources.items():
            checkpoint = Path(tempfile.mkdtemp(dir=directory))
            medians[name] = _batch_ms(source.load(), checkpoint)
            print(f"floor  {name:12}{medians[name]:8.1f} ms for a micro-batch")
        if run:
            ratios.append(medians["heliograph"] / medians["empty"])
    return _told("floor", statistics.median(ratios), min(ratios), _FLOOR_TARGET, "x an empty source", is_most=True)


def _batch_ms(rows: DataFrame, checkpoint: Path) -> float:
    query = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    running = query.trigger(processingTime="0 seconds").start()
    while running.lastProgress is None or running.lastProgress.batchId < _FLOOR_BATCHES:
        if not running.isActive:
            raise SystemExit(f"the query ended: {running.exception()}")
        time.sleep(0.1)
    progress = [one for one in running.recentProgress if one.numInputRows and one.batchId >= _FLOOR_WARM]
    running.stop()
    if "-v" in sys.argv:
        print(progress[-1].durationMs, progress[-1].numInputRows)
    return statistics.median(one.durationMs["triggerExecution"] for one in progress)


class EmptySource(DataSource):
    """A stream that makes up one row for each micro-batch: what a Python source costs Spark at least."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "empty_python_source"

    def schema(self) -> str:
        """The columns that the other side reads."""
        return "topic string, payload binary"

    def streamReader(self, schema: StructType) -> "EmptyReader":  # noqa: N802 (Spark's name)
        """Its reader."""
        return EmptyReader()


class EmptyReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Counts micro-batches."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Zero."""
        return {"n": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """One more."""
        return {"n": start["n"] + 1}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """Something, since the other side tells its end as well."""
        return {"n": 1 << 30}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """It has no end."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One row."""
        yield pa.RecordBatch.from_arrays([pa.array(["t"]), pa.array([b"p"])], names=["topic", "payload"])


def _bound(action: Callable[[DataFrame], None], table: DataFrame) -> Callable[[], None]:
    return lambda: action(table)


def _told(name: str, median: float, best: float, target: float, unit: str, is_most: bool = False) -> bool:
    is_met = median <= target if is_most else median >= target
    word = "at most" if is_most else "at least"
    digits = ",.0f" if target > 1000 else ".2f"
    print(
        f"{name:6} median {median:{digits}}, best {best:{digits}} {unit}; target {word} {target:{digits}}: "
        f"{'met' if is_met else 'missed'}",
        flush=True,
    )
    return is_met


_COMPARISONS: Final[dict[str, Callable[..., bool]]] = {
    "json": compare_json,
    "raw": compare_raw,
    "count": compare_count,
    "closed": compare_closed,
    "offloaded": compare_offloaded,
    "floor": compare_floor,
}


def main() -> int:
    """Run the benchmark; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="*", help=f"some of {', '.join(_COMPARISONS)}; all if none is named")
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each source")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--data", type=Path, help="keep the stored messages here, and use those that are there")
    parser.add_argument("--check", action="store_true", help="exit 1 if a target is missed")
    parser.add_argument("-v", action="store_true", help="show what a micro-batch consists of")
    args = parser.parse_args()
    unknown = set(args.what) - set(_COMPARISONS)
    if unknown:
        parser.error(f"there is no measurement {', '.join(sorted(unknown))}; there are {', '.join(_COMPARISONS)}")
    with tempfile.TemporaryDirectory(prefix="heliograph-bench-") as name:
        directory = Path(name)
        data_dir = args.data or directory / _DATA
        if args.data:
            (directory / _DATA).symlink_to(args.data.absolute())
        if not (data_dir / "storage").exists():
            _store_and_tell(data_dir, _MESSAGES, args.messages)
            if not args.what or {"raw", "count", "closed"} & set(args.what):
                _store_and_tell(data_dir, _MORE, _TIMES_MORE * args.messages)
        if not args.what or "closed" in args.what:
            close_and_export(data_dir, directory)
        with (
            storage_reader(data_dir) as endpoint,
            spark_session(args.master, "pipeline benchmark", log_file=directory / "spark.log") as session,
        ):
            settings: tuple[Any, ...] = session, endpoint, directory, args.messages, args.runs
            met = [_COMPARISONS[what](*settings) for what in args.what or _COMPARISONS]
    whats = args.what or list(_COMPARISONS)
    return checked(args.check, [what for what, is_met in zip(whats, met, strict=True) if not is_met])


def _store_and_tell(data_dir: Path, name: str, messages: int) -> None:
    begin = time.perf_counter()
    store(data_dir, name, messages)
    duration = time.perf_counter() - begin
    files = (file for file in data_dir.rglob("*") if file.is_file() and name in file.parts)
    stored = sum(file.stat().st_size for file in files)
    print(f"stored {messages:,} messages in {duration:.1f} s, {stored / 1e6:.0f} MB on disk", flush=True)


if __name__ == "__main__":
    sys.exit(main())

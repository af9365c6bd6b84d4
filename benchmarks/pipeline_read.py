"""Reading stored messages into Spark, beside reading the same rows from Parquet files.

Two million JSON messages of 20 stations are stored, then one query runs over both in turn: take one field out of the
JSON, group by topic, average. Printed are the medians and the ratio of the rates; the target is at least 0.5.

    python benchmarks/pipeline_read.py [--messages N] [--runs N]
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from heliograph.pipeline.spark import spark_session
from heliograph.storage.interface import DatabaseOptions
from heliograph.storage.local import LocalBackend

_STATIONS = 20
_COMMIT = 2_000
_BEGIN_US = 1_767_225_600_000_000
_TARGET = 0.5


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


def store(data_dir: Path, messages: int) -> None:
    """Store the messages in commits such as a busy broker makes."""
    database = LocalBackend(data_dir).open_db("messages", DatabaseOptions())
    for begin in range(0, messages, _COMMIT):
        database.store_batch([StationMessage(number) for number in range(begin, min(begin + _COMMIT, messages))])
    database.close()


def query(rows: DataFrame) -> float:
    """Run the query; return its duration in seconds."""
    begin = time.perf_counter()
    temperature = F.get_json_object(F.col("payload").cast("string"), "$.temp").cast("double")
    groups = (
        rows.select("topic", temperature.alias("temp")).groupBy("topic").agg(F.avg("temp"), F.count("temp")).collect()
    )
    duration = time.perf_counter() - begin
    if len(groups) != _STATIONS:
        raise SystemExit(f"the query gave {len(groups)} groups instead of {_STATIONS}")
    return duration


def measure(session: SparkSession, endpoint: str, directory: Path, messages: int, runs: int) -> bool:
    """Compare the sources and print the result; return whether the target is met."""
    source = session.read.format("heliograph").option("endpoint", endpoint)
    source.load().write.parquet(str(directory / "parquet"))
    tables = {
        "heliograph, 2 columns": source.option("columns", "topic,payload").load(),
        "heliograph, all columns": session.read.format("heliograph").option("endpoint", endpoint).load(),
        "parquet": session.read.parquet(str(directory / "parquet")),
    }
    durations: dict[str, list[float]] = {name: [] for name in tables}
    for run in range(runs + 1):
        for name, table in tables.items():
            duration = query(table)
            if run:  # the first warms up the Java compiler
                durations[name].append(duration)
    medians = {name: statistics.median(found) for name, found in durations.items()}
    for name, median in medians.items():
        rate, ratio = messages / median, medians["parquet"] / median
        print(f"{name:26}{median:8.2f} s{rate:14,.0f} messages/s{ratio:8.2f} x parquet")
    ratio = medians["parquet"] / medians["heliograph, 2 columns"]
    print(f"target: at least {_TARGET} x parquet: {'met' if ratio >= _TARGET else 'missed'}")
    return ratio >= _TARGET


def main() -> int:
    """Run the benchmark; the exit code says whether the target is met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each source")
    parser.add_argument("--master", default="local[2]")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="heliograph-bench-") as name:
        directory = Path(name)
        begin = time.perf_counter()
        store(directory, args.messages)
        duration = time.perf_counter() - begin
        stored = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
        print(f"stored {args.messages:,} messages in {duration:.1f} s, {stored / 1e6:.0f} MB on disk")
        command = [sys.executable, "-m", "heliograph.storage.reader", "--data-dir", name, "--bind", "127.0.0.1:0"]
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert reader.stdout is not None
            endpoint = reader.stdout.readline().split()[-1]
            with spark_session(args.master, "pipeline benchmark", log_file=directory / "spark.log") as session:
                is_met = measure(session, endpoint, directory, args.messages, args.runs)
        finally:
            reader.terminate()
            reader.wait()
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())

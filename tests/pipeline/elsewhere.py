"""A program that reads and streams with a Spark that is not in its own process; run by `test_elsewhere`.

    python -m pipeline.elsewhere cluster|connect MASTER_OR_REMOTE ENDPOINT DIRECTORY

It prints one line of JSON: the numbers in the payloads that a table gave, and those that a stream gave.
"""

import json
import sys
from pathlib import Path
from typing import Any

from heliograph.pipeline.datasource.source import HeliographDataSource
from heliograph.pipeline.spark.session import spark_session


def read_and_stream(session: Any, endpoint: str, directory: Path) -> dict[str, list[int]]:
    """What a table and a stream give; the stream goes into files, so that nothing of it runs in this process."""
    options = {"endpoint": endpoint, "partitionMessages": "20"}
    table = session.read.format("heliograph").options(**options).load()
    rows = session.readStream.format("heliograph").options(**options, columns="payload").load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(directory / "table"))
    query.awaitTermination(200)
    streamed = session.read.parquet(str(directory / "table"))
    return {"table": _numbers(table.where("topic = 'a/1'")), "stream": _numbers(streamed)}


def _numbers(rows: Any) -> list[int]:
    return sorted(json.loads(row["payload"])["n"] for row in rows.select("payload").collect())


def main() -> None:
    """Run it."""
    kind, place, endpoint, path = sys.argv[1:]
    directory = Path(path)
    if kind == "cluster":
        conf = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
        }
        with spark_session(place, "heliograph test", conf, log_file=directory / "driver.log") as session:
            sys.stdout.write(json.dumps(read_and_stream(session, endpoint, directory)) + "\n")
        return
    from pyspark.sql.connect.session import SparkSession

    remote = SparkSession.builder.remote(place).getOrCreate()
    remote.dataSource.register(HeliographDataSource)
    sys.stdout.write(json.dumps(read_and_stream(remote, endpoint, directory)) + "\n")
    remote.stop()


if __name__ == "__main__":
    main()

"""Checks `heliograph-spark` with each version of Spark that it is for: `make spark-versions`.

For each, an environment of its own gets the wheel and that pyspark, and nothing of the checkout. A program there
publishes rows, reads them as a table and as decoded JSON, streams them with a restart in between, and streams them back
to the broker, which runs out of the checkout. Environments are kept in `build/spark-versions` for the next run.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from scripts import spark_wheel
from scripts.check_wheel import running_broker
from scripts.packages import CHECKOUT, CONSTRAINTS, PackageError, environment_in, run

#: The newest of each minor version; docs/spark_cluster.md says the same range.
VERSIONS: Final = ("4.0.5", "4.1.4", "4.2.1", "4.3.0")
ENVIRONMENTS: Final = CHECKOUT / "build" / "spark-versions"
ROWS: Final = 200
# Runs in an environment that has the wheel: prints a line of JSON with what each way gave.
PROGRAM: Final = """
import json, sys
from pathlib import Path
import pyspark_heliograph  # so that the workers run this Python
from pyspark.sql import SparkSession, functions as F

endpoint, port, folder, rows = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
spark = builder.config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "Asia/Kolkata").getOrCreate()
half = rows // 2

def publish(first, last):
    made = spark.range(first, last).select(
        F.concat(F.lit("wheel/"), F.col("id") % 3).alias("topic"),
        F.to_json(F.struct(F.col("id").alias("n"))).alias("payload"),
        F.create_map(F.lit("User-Property.k"), F.lit("v")).alias("properties"),
    )
    made.write.format("heliograph").mode("append").option("port", port).save()

def options(**more):
    return {"endpoint": endpoint, "topics": "wheel/+", "schema": "json", "jsonSchema": "n INT", **more}

def numbers(table):
    return sorted(row.n for row in table.select("value.n").collect())

def stream(name):
    source = spark.readStream.format("heliograph").options(**options(columns="topic,value,stored_at,properties")).load()
    writer = source.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "table"))
    query.awaitTermination()

publish(0, half)
stream("first")
publish(half, rows)
stream("second")
table = spark.read.format("heliograph").options(**options()).load()
found = {"table": numbers(table), "stream": numbers(spark.read.parquet(str(folder / "table")))}
found["properties"] = table.where("properties['User-Property.k'] = 'v'").count()
found["topic"] = table.where("topic = 'wheel/1'").count()
variants = spark.read.format("heliograph").options(endpoint=endpoint, topics="wheel/+", schema="variant").load()
found["variant"] = variants.selectExpr("variant_get(value, '$.n', 'int') AS n").agg(F.sum("n")).first()[0]
copies = spark.readStream.format("heliograph").options(endpoint=endpoint, topics="wheel/+").load()
copies = copies.select(F.concat(F.lit("wheel/copy/"), "topic").alias("topic"), "payload", "properties")
sink = copies.writeStream.format("heliograph").option("port", port)
query = sink.option("checkpointLocation", str(folder / "copies"))
query.trigger(availableNow=True).start().awaitTermination()
found["copied"] = numbers(spark.read.format("heliograph").options(**options(topics="wheel/copy/#")).load())
# Times do not move with the zone of the session, and a running query sees what comes.
ages = table.selectExpr("max(abs(unix_micros(current_timestamp()) - unix_micros(stored_at))) / 1e6 AS s").first()
found["is_recent"] = float(ages.s) < 3600
source = spark.readStream.format("heliograph").options(endpoint=endpoint, topics="wheel/+", start="latest").load()
query = source.writeStream.format("memory").queryName("seen").trigger(processingTime="200 milliseconds").start()
query.processAllAvailable()
publish(rows, rows + 5)
while spark.table("seen").count() < 5:
    query.processAllAvailable()
query.stop()
found["running"] = spark.table("seen").count()
import pyspark, heliograph
found["version"], found["found"] = pyspark.__version__, heliograph.__file__
spark.stop()
print(json.dumps(found))
"""


def main() -> int:
    """Check each version; 0 if all pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS, help=f"some of {', '.join(VERSIONS)}, or others")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, metavar="DIR", help="where they are kept")
    args = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory(prefix="heliograph-spark-") as name:
        wheel = spark_wheel.build(Path(name))
        for version in args.versions:
            begin = time.monotonic()
            try:
                check(wheel, version, args.environments / version)
            except PackageError as error:
                failed.append(version)
                print(f"  fails: {wheel.name} with Spark {version}\n{error}", file=sys.stderr, flush=True)
            else:
                print(f"  works: {wheel.name} with Spark {version} ({time.monotonic() - begin:.0f} s)", flush=True)
    return 1 if failed else 0


def check(wheel: Path, version: str, environment: Path) -> None:
    """Read, stream and write by the wheel in an environment with one version of Spark.

    Raises:
        PackageError: Something does not work.
    """
    python = _environment(wheel, version, environment)
    with tempfile.TemporaryDirectory(prefix="heliograph-spark-") as name:
        folder = Path(name)
        command = [sys.executable, "-m", "heliograph.cli.main"]
        with running_broker(command, folder, PYTHONPATH=str(spark_wheel.SOURCES)) as (port, endpoint):
            arguments: list[str | Path] = [endpoint, port, folder, str(ROWS)]
            said = run([python, "-c", PROGRAM, *arguments], cwd=environment)
    found = json.loads(said.splitlines()[-1])
    numbers = list(range(ROWS))
    where = f"/{spark_wheel.PATH}/heliograph/__init__.py"
    if not found.pop("found").endswith(where):
        raise PackageError(f"heliograph was not found in {where}")
    expected = {
        "table": numbers,
        "stream": numbers,
        "copied": numbers,
        "properties": ROWS,
        "topic": len(numbers[1::3]),
        "variant": sum(numbers),
        "is_recent": True,
        "running": 5,
        "version": version,
    }
    wrong = [
        f"{key} is {found.get(key)!r}, not {value!r}" for key, value in expected.items() if found.get(key) != value
    ]
    if wrong:
        raise PackageError("\n".join(wrong))


def _environment(wheel: Path, version: str, folder: Path) -> Path:
    """The Python of an environment with this pyspark and this wheel."""
    python = folder / "bin" / "python"
    if not python.exists():
        folder.mkdir(parents=True, exist_ok=True)
        environment_in(folder)
    constraints = folder / "constraints.txt"
    lines = CONSTRAINTS.read_text().splitlines()
    constraints.write_text("\n".join(line for line in lines if not line.startswith(("pyspark==", "py4j=="))))
    install: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--quiet",
        "-c",
        constraints,
    ]
    run([*install, f"{wheel}[pyspark]", f"pyspark=={version}"], cwd=folder)
    run([*install, "--no-deps", "--force-reinstall", wheel], cwd=folder)
    return python


if __name__ == "__main__":
    sys.exit(main())

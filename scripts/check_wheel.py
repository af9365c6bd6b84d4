"""Checks that what a user installs works: `make wheel`, and part of `.ci/run`; `make release` keeps what it checked.

Builds the source distribution, out of it the wheel of this Python, `heliograph-bench` and `heliograph-spark`. Then, in
new virtual environments outside the checkout, installs the compiled wheels, and the source distribution where the C
compiler fails. In both a broker starts, takes messages from clients and stores them; `[pipeline,sinks]` brings what
Spark needs. Spark reads the stored messages by `heliograph-spark` alone.

With `--all`, everything is built as it is released: a wheel for each supported Python of this machine, the pure wheel,
and the image.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scripts import packages, spark_wheel
from scripts.packages import Interpreter, PackageError, environment_in, pip, run

FELL_BACK: Final = re.compile(r"^.*heliograph: .*installing it uncompiled.*$", re.MULTILINE)
MESSAGES: Final = 500
CONFIG: Final = """
listeners.tcp.default.bind = "127.0.0.1:0"
dashboard.listeners.http.bind = "127.0.0.1:0"
durable_storage.flight.bind = "127.0.0.1:0"
durable_storage.messages.topics = ["wheel/#"]
"""
# Reads what is stored, in a session without options for the format, and shows where that was found.
SPARK: Final = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
read = spark.read.format("heliograph").option("topics", "wheel/#").option("endpoint", sys.argv[1]).load()
print("read", read.count(), "messages")
spark.stop()
import heliograph, heliograph.client.connection
print("found", heliograph.__file__)
"""
# What the extras bring and what is imported late.
EXTRAS: Final = """
import pyspark, pandas, deltalake, pyiceberg, psycopg, pymysql, redis, confluent_kafka
import pyspark_heliograph
import heliograph.pipeline.running.driver
from heliograph.pipeline.datasource.source import HeliographDataSource
"""
# The page that the management process serves; its modules are no Python.
DASHBOARD: Final = """
from heliograph.management.dashboard.page import DashboardFiles
files = DashboardFiles()
missing = {"index.html", "main.js", "pages/overview.js", "vendor/preact.mjs", "vendor/README.md"} - files.names
assert not missing, missing
"""


def main() -> int:
    """Run every check; 0 if all pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="build and check everything of a release")
    parser.add_argument("--into", type=Path, metavar="DIR", help="put what passed there, with a file of checksums")
    parser.add_argument("--keep", action="store_true", help="leave the temporary directory where it is")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="heliograph-wheel-"))
    try:
        dist = check(folder, is_whole=args.all)
        if args.into is not None:
            packages.write_sums(dist)
            shutil.rmtree(args.into, ignore_errors=True)
            shutil.copytree(dist, args.into)
    except (PackageError, spark_wheel.SparkWheelError) as error:
        print(f"check_wheel: {error}", file=sys.stderr)
        return 1
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def check(folder: Path, *, is_whole: bool) -> Path:
    """Build and install everything below `folder`; the directory of packages.

    Raises:
        PackageError: Something does not work.
    """
    checkout, dist = packages.export(folder / "checkout"), folder / "dist"
    dist.mkdir()
    with _step("source distribution"):
        source = packages.source_distribution(checkout, dist)
    repairer = packages.Repairer(folder / "tools", _say)
    pythons = packages.interpreters(_say) if is_whole else packages.interpreters(_ignore)[:1]
    wheels = [_compiled(folder, checkout, source, python, repairer) for python in pythons]
    with _step("heliograph-spark"):
        spark = spark_wheel.build(dist)
        _check_contents(spark)
    python = folder / f"compiled-{pythons[0].version}" / "bin" / "python"
    _check_spark(folder, spark, python.parent / "heliograph")
    with _step("extras pipeline and sinks"):
        pip(python, f"{wheels[0]}[pipeline,sinks]")
        run([python, "-c", EXTRAS], cwd=folder)
    with _step(f"a broker from {source.name} without a C compiler that works"):
        python = environment_in(folder / "pure")
        said = pip(python, source, "--verbose", CC="/bin/false")
        if len(FELL_BACK.findall(said)) != 1:
            raise PackageError(f"the installation does not say in one line that it is uncompiled:\n{said}")
        load_tool = packages.wheel_of(checkout / "bench", Path(sys.executable), dist, HELIOGRAPH_PURE="1")
        pip(python, "--no-deps", load_tool)
        _check_broker(python, folder / "pure", "pure Python")
    if is_whole:
        with _step("the pure wheel"):
            pure = packages.wheel_of(source, Path(sys.executable), dist, HELIOGRAPH_PURE="1")
            pip(python, "--no-deps", "--force-reinstall", pure)
            _check_broker(python, folder / "pure", "pure Python")
        with _step("the image"):
            packages.image(checkout, wheels[0], pythons[0].version, _say)
    return dist


def _compiled(folder: Path, checkout: Path, source: Path, python: Interpreter, repairer: packages.Repairer) -> Path:
    """The wheel of a Python, from which a broker starts there."""
    with _step(f"a broker from the wheel of Python {python.version}"):
        wheel = packages.wheel_of(source, python.path, folder / "dist")
        own = environment_in(folder / f"compiled-{python.version}", python.path)
        wheel = repairer.repair(wheel)
        pip(own, wheel)
        _check_load_tool_is_missing(own)
        load_tool = repairer.repair(packages.wheel_of(checkout / "bench", python.path, folder / "dist"))
        pip(own, "--no-deps", load_tool)
        _check_broker(own, own.parents[1], "compiled")
        _say(f"made: {wheel.name}, {load_tool.name}")
    return wheel


def _check_load_tool_is_missing(python: Path) -> None:
    """Look for the sentence of a command that another package has."""
    answer = subprocess.run(
        [python.parent / "heliograph", "bench", "pub"],
        cwd=python.parents[1],
        env=packages.clean_environment({}),
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 2 or "pip install heliograph-bench" not in answer.stderr:
        raise PackageError(f"without heliograph-bench, the command ends with {answer.returncode}: {answer.stderr}")


def _check_contents(wheel: Path) -> None:
    """Look for what `heliograph-spark` must not have."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(archive.read(name).decode() for name in names if name.endswith("/METADATA"))
    rooms = {name.split("/")[2] for name in names if name.startswith(f"{spark_wheel.PATH}/heliograph/")}
    foreign = {room for room in rooms if "." not in room} - spark_wheel.ROOMS
    compiled = [name for name in names if name.endswith(".so")]
    brought = [line for line in metadata.splitlines() if re.match(r"Requires-Dist: (fastapi|rocksdict|uvloop)\b", line)]
    if foreign or compiled or brought:
        raise PackageError(f"{wheel.name} has parts of a broker: {sorted(foreign)} {compiled} {brought}")


def _check_spark(folder: Path, wheel: Path, heliograph: Path) -> None:
    """Read the messages of a broker by the wheel for Spark, in an environment without the broker."""
    with _step(f"Spark reads by {wheel.name}"):
        if shutil.which("java") is None:
            _say("skipped: reading by Spark, since there is no Java")
            return
        python = environment_in(folder / "spark")
        pip(python, f"{wheel}[pyspark]")
        broker = heliograph.parents[1]
        with running_broker([heliograph], broker) as (port, endpoint):
            _publish(heliograph, broker, port)
            said = run([python, "-c", SPARK, endpoint], cwd=folder / "spark", PYSPARK_PYTHON=str(python))
        # Those of the check before are stored as well.
        if f"read {2 * MESSAGES} messages" not in said or f"/{spark_wheel.PATH}/heliograph/__init__.py" not in said:
            raise PackageError(f"Spark does not read the {2 * MESSAGES} messages by this wheel:\n{said}")


def _check_broker(python: Path, folder: Path, kind: str) -> None:
    """Start a broker, publish through it, and look for the messages in its data."""
    heliograph = python.parent / "heliograph"
    version = run([heliograph, "--version"], cwd=folder)
    if f"({kind})" not in version:
        raise PackageError(f"`heliograph --version` says {version.strip()!r} instead of {kind!r}")
    run([python, "-c", DASHBOARD], cwd=folder)
    shutil.rmtree(folder / "data", ignore_errors=True)
    with running_broker([heliograph], folder) as (port, _):
        _publish(heliograph, folder, port)
    stored = run([heliograph, "storage", "info", "messages", "--data-dir", folder / "data"], cwd=folder)
    if not re.search(rf"\b{MESSAGES}\b", stored):
        raise PackageError(f"of {MESSAGES} messages not all were stored: {stored}")


def _publish(heliograph: Path, folder: Path, port: str) -> None:
    """Publish messages and receive them."""
    load = ["pair", "-p", port, "-t", "wheel/%i", "-q", "1", "-n", str(MESSAGES), "--json", "--quiet"]
    result = run([heliograph, "bench", *load], cwd=folder)
    if f'"received": {MESSAGES}' not in result:
        raise PackageError(f"of {MESSAGES} messages not all were received: {result}")


@contextmanager
def running_broker(heliograph: Sequence[str | Path], folder: Path, **environment: str) -> Iterator[tuple[str, str]]:
    """A broker that runs for as long as the block; its port, and where its storage reader listens."""
    (folder / "heliograph.conf").write_text(CONFIG)
    command = [*heliograph, "start", "--config", "heliograph.conf", "--data-dir", "data"]
    variables = packages.clean_environment({"PYTHONUNBUFFERED": "1", **environment})
    process = subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline() if process.stdout is not None else ""
        port, endpoint = re.search(r"tcp://[^\s,]*:(\d+)", line), re.search(r"flight grpc://([^\s,]+)", line)
        if port is None or endpoint is None:
            raise PackageError(f"the broker does not start: {line!r}")
        yield port[1], endpoint[1]
        process.terminate()
        if process.wait(60) != 0:
            raise PackageError(f"the broker ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()


def _say(sentence: str) -> None:
    print(f"  {sentence}", flush=True)


def _ignore(sentence: str) -> None:
    """For what is not built anyway."""


@contextmanager
def _step(what: str) -> Iterator[None]:
    begin = time.monotonic()
    yield
    print(f"  works: {what} ({time.monotonic() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    sys.exit(main())

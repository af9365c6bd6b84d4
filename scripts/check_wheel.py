"""Checks that what a user installs works: `make wheel`, and part of `.ci/run`.

Builds source distribution and wheel as `python -m build` does, each in an environment of its own. Then, in new virtual
environments outside the checkout, installs the compiled wheel, and the source distribution where the C compiler fails.
In both a broker starts, takes messages from clients and stores them; `[pipeline,sinks]` brings what Spark needs.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[1]
CONSTRAINTS: Final = CHECKOUT / "constraints.txt"
FELL_BACK: Final = re.compile(r"^.*heliograph: .*installing it uncompiled.*$", re.MULTILINE)
MESSAGES: Final = 500
CONFIG: Final = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage.flight.bind = "127.0.0.1:0"
durable_storage.messages.topics = ["wheel/#"]
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
from heliograph.management.dashboard.files import DashboardFiles
files = DashboardFiles()
missing = {"index.html", "main.js", "pages/overview.js", "vendor/preact.mjs", "vendor/README.md"} - files.names
assert not missing, missing
"""


class WheelError(Exception):
    """What was built or installed does not work."""


def main() -> int:
    """Run every check; 0 if all pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave the temporary directory where it is")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="heliograph-wheel-"))
    try:
        check(folder)
    except WheelError as error:
        print(f"check_wheel: {error}", file=sys.stderr)
        return 1
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def check(folder: Path) -> None:
    """Build and install everything below `folder`.

    Raises:
        WheelError: Something does not work.
    """
    checkout = _export(folder / "checkout")
    with _step("source distribution and wheel"):
        # Compiled quickly: how fast the broker is, is not checked here.
        build: list[str | Path] = [sys.executable, "-m", "build", "--outdir", folder / "dist", checkout]
        _run(build, cwd=folder, HELIOGRAPH_OPT_LEVEL="0")
    (source,), (wheel,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    with _step(f"a broker from {wheel.name}"):
        python = _environment(folder / "compiled")
        _pip(python, wheel)
        _check_broker(python, folder / "compiled", "compiled")
    with _step("its extras pipeline and sinks"):
        _pip(python, f"{wheel}[pipeline,sinks]")
        _run([python, "-c", EXTRAS], cwd=folder)
    with _step(f"a broker from {source.name} without a C compiler that works"):
        python = _environment(folder / "pure")
        said = _pip(python, source, "--verbose", CC="/bin/false")
        if len(FELL_BACK.findall(said)) != 1:
            raise WheelError(f"the installation does not say in one line that it is uncompiled:\n{said}")
        _check_broker(python, folder / "pure", "pure Python")


def _export(folder: Path) -> Path:
    """The checkout's files without what builds and tests have left in it."""
    listed = _run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=CHECKOUT).split("\0")
    for name in filter(None, listed):
        if (CHECKOUT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, folder / name)
    return folder


def _environment(folder: Path) -> Path:
    """A new virtual environment; its Python."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def _pip(python: Path, what: str | Path, *options: str, **environment: str) -> str:
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "-c", CONSTRAINTS, *options, what]
    return _run(command, cwd=python.parents[1], **environment)


def _check_broker(python: Path, folder: Path, kind: str) -> None:
    """Start a broker, publish through it, and look for the messages in its data."""
    heliograph = python.parent / "heliograph"
    version = _run([heliograph, "--version"], cwd=folder)
    if f"({kind})" not in version:
        raise WheelError(f"`heliograph --version` says {version.strip()!r} instead of {kind!r}")
    _run([python, "-c", DASHBOARD], cwd=folder)
    with _broker(heliograph, folder) as port:
        load = ["pair", "-p", port, "-t", "wheel/%i", "-q", "1", "-n", str(MESSAGES), "--json", "--quiet"]
        result = _run([heliograph, "bench", *load], cwd=folder)
    if f'"received": {MESSAGES}' not in result:
        raise WheelError(f"of {MESSAGES} messages not all were received: {result}")
    stored = _run([heliograph, "storage", "info", "messages", "--data-dir", folder / "data"], cwd=folder)
    if not re.search(rf"\b{MESSAGES}\b", stored):
        raise WheelError(f"of {MESSAGES} messages not all were stored: {stored}")


@contextmanager
def _broker(heliograph: Path, folder: Path) -> Iterator[str]:
    """A broker that runs for as long as the block; its port."""
    (folder / "heliograph.conf").write_text(CONFIG)
    command = [str(heliograph), "start", "--config", "heliograph.conf", "--data-dir", "data"]
    environment = _clean_environment({"PYTHONUNBUFFERED": "1"})
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline() if process.stdout is not None else ""
        found = re.search(r"tcp://[^\s,]*:(\d+)", line)
        if found is None:
            raise WheelError(f"the broker does not start: {line!r}")
        yield found[1]
        process.terminate()
        if process.wait(60) != 0:
            raise WheelError(f"the broker ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()


def _run(command: Sequence[str | Path], *, cwd: Path, **environment: str) -> str:
    """Run a command and return what it prints.

    Raises:
        WheelError: It failed.
    """
    answer = subprocess.run(
        command,
        cwd=cwd,
        env=_clean_environment(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise WheelError(f"{' '.join(map(str, command))} ended with {answer.returncode}:\n{answer.stdout}")
    return answer.stdout


def _clean_environment(more: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would lead a new Python back to the checkout or change what is built."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "HELIOGRAPH_PURE", "HELIOGRAPH_OPT_LEVEL")
    return {**{name: value for name, value in os.environ.items() if name not in dropped}, **more}


@contextmanager
def _step(what: str) -> Iterator[None]:
    begin = time.monotonic()
    yield
    print(f"  works: {what} ({time.monotonic() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    sys.exit(main())

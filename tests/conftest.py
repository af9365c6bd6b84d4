"""What holds for every test."""

import gc
import logging
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, Phase, settings

from support.collecting import IMPORTED
from support.forms import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Where it is set, each process that a test starts compiles all its modules once more.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Java processes live for seconds here: the second compiler and the parallel collector cost a third of their CPU time,
# and verifying what is in Spark's own archives a quarter of their start.
_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
os.environ.setdefault("JDK_JAVA_OPTIONS", _JAVA)

# Nodes that tests start have no management process beside them; tests of that one say otherwise.
os.environ.setdefault("HELIOGRAPH_MANAGEMENT__ENABLE", "false")

pytest_plugins = ["support.watchdog", "support.skips", "support.workers", "support.outcomes", "support.cpu_times"]

# How long an example takes says more about the machine than about the code. To explain a failure, Hypothesis traces
# each line, which makes finding its smallest example twenty times slower.
settings.register_profile(
    "heliograph",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[phase for phase in Phase if phase is not Phase.explain],
)
settings.load_profile("heliograph")

_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 4 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of tests in memory where there is room for them and TMPDIR says nothing else.

    A commit then does not wait for a disk, which is what most tests of storage do otherwise. What kills processes finds
    the same: what was written outlives them, synced or not.
    """
    is_here = "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK)
    if is_here and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES_MIN:
        os.environ["TMPDIR"] = str(_MEMORY)
        tempfile.tempdir = None  # so that it is found anew
    gc.disable()  # nothing that collecting the tests makes is garbage


@pytest.hookimpl(trylast=True)  # behind what leaves tests out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with tests that take long come first, so that workers end together with what takes little."""
    weights: dict[Path, int] = {}
    for item in items:
        names = {mark.name for mark in item.iter_markers()}
        fixtures = getattr(item, "fixturenames", ())
        weight = ("slow" in names or "chromium_ends" in fixtures) + 2 * ("spark" in fixtures) + 4 * ("long" in names)
        weights[item.path] = max(weights.get(item.path, 0), weight)
    items.sort(key=lambda item: -weights[item.path])


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported stays: who collects garbage in a test need not look through millions of objects."""
    session.config.stash[IMPORTED] = frozenset(sys.modules)
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Collections after a file do not look through what it left: modules that it imported, and what they keep."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        with warnings.catch_warnings():
            # Sockets that clients of other projects left would fail the next file.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        gc.freeze()
    return result


@pytest.fixture(autouse=True)
def level_of_the_log() -> Iterator[None]:
    """What a node that runs in the process of the tests sets for the whole process ends with its test."""
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """The Spark session of all tests of this process, which can have one only; starting it takes seconds."""
    # Imported here: most tests need no Spark.
    from heliograph.pipeline.spark.session import start_session, stop_session
    from support.quick_spark import SESSION, workers

    log_file = tmp_path_factory.mktemp("spark") / "spark.log"
    with pytest.MonkeyPatch.context() as patch:
        for name, program in workers().items():
            patch.setenv(name, program)
        patch.setenv("JDK_JAVA_OPTIONS", "-Xms512m", prepend=" ")
        session = start_session("local[2]", "heliograph tests", SESSION, log_file=log_file)
    yield session
    stop_session(session)

"""The lake of the weather example under `kill -9`: a node, a Spark cluster, a pipeline driver and PostgreSQL.

Stations publish at QoS 2 while the driver, a Spark worker or the broker is killed, whichever the seed says. At the end
every table must equal the one that pandas makes of the same observations.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from deltalake import DeltaTable

from support.postgresql import Postgresql, postgresql
from support.process import NodeProcess
from support.spark_cluster import SparkCluster

_EXAMPLE = Path(__file__).parents[2] / "examples" / "weather"
sys.path.insert(0, str(_EXAMPLE))

from lake_expected import expect_lake  # noqa: E402 (of the example)
from observations import read_weather, to_messages  # noqa: E402
from stations import replay  # noqa: E402

KINDS = ("driver", "worker", "broker")

# Spark adds up in another order than pandas, and so may the last digits differ.
_TOLERANCE = 1e-9
_ONCE_S = 300.0
_FIRST_BATCH_S = 180.0
_PAUSE_MAX_S = 2.0


@dataclass
class Outcome:
    """What a run has shown.

    Attributes:
        published: Observations published, and acknowledged.
        kills: How often each kind of process was killed.
        rows: Rows of each table.
        differences: What differs from the expected tables; empty when nothing does.
    """

    published: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    rows: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)

    def text(self) -> str:
        """One line for people."""
        kills = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kills.items()))
        rows = ", ".join(f"{table} {count:,}" for table, count in self.rows.items())
        told = "; ".join(self.differences) or "every table equals the one computed without Spark"
        return f"{self.published:,} observations, killed: {kills or 'nothing'}; rows: {rows}; {told}"


class World:
    """One run; `run` is called once.

    Args:
        directory: Where everything is kept; empty or new.
        seed: Says what is killed when.
        days: How many days of weather are published.
        kills: How many kills.
    """

    def __init__(self, directory: Path, *, seed: int, days: int, kills: int) -> None:
        self._directory = directory
        self._pipeline = directory / "pipeline"
        self._random = random.Random(seed)
        weather = read_weather()
        last = sorted(weather["time_hour"].str[:10].unique())[days - 1]
        self._weather = weather[weather["time_hour"].str[:10] <= last]
        # Each kind in its turn, in an order that the seed says, so that few kills are of all kinds, too.
        self._plan = [kind for _ in range(-(-kills // len(KINDS))) for kind in self._shuffled()][:kills]
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Publish, kill, finish, compare."""
        with ExitStack() as stack:
            database = stack.enter_context(postgresql())
            self._cluster = stack.enter_context(SparkCluster(self._directory / "spark"))
            self._node = stack.enter_context(NodeProcess(self._directory, 'durable_storage.messages.topics = ["#"]'))
            self._write_pipeline(database)
            with self._driver():
                self._publish()
            self._once()
            self._compare(database)
        return self.outcome

    def _shuffled(self) -> list[str]:
        return self._random.sample(KINDS, len(KINDS))

    def _write_pipeline(self, database: Postgresql) -> None:
        """The pipeline of the example, with the database of this run."""
        shutil.copytree(_EXAMPLE / "lake", self._pipeline)
        file = self._pipeline / "pipeline.hocon"
        text = file.read_text().replace('"127.0.0.1:5432"', f'"127.0.0.1:{database.port}"')
        file.write_text(text.replace("password = heliograph", f'password = "{database.password}"'))

    @contextmanager
    def _driver(self) -> Iterator[None]:
        self._process = self._start_driver()
        try:
            self._await_first_batch()
            yield
        finally:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _start_driver(self) -> "subprocess.Popen[bytes]":
        with (self._directory / "pipeline.log").open("ab") as log:
            return subprocess.Popen(
                self._command("run", "--trigger", "500ms"),
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def _command(self, action: str, *more: str) -> list[str]:
        broker = ["--endpoint", f"127.0.0.1:{self._node.flight_port}", "--mqtt", f"127.0.0.1:{self._node.port}"]
        places = ["--checkpoint", str(self._directory / "state"), "--output", str(self._directory / "tables")]
        spark = ["--master", self._cluster.url, "--conf", "spark.executor.memory=512m"]
        spark += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.sql.shuffle.partitions=2"]
        command = [sys.executable, "-m", "heliograph.cli.main", "pipeline", action, str(self._pipeline)]
        return [*command, *places, *broker, *spark, *more]

    def _await_first_batch(self) -> None:
        """Wait until the queries run: what is killed before would show nothing."""
        end = time.monotonic() + _FIRST_BATCH_S
        status = self._directory / "state" / "status.json"
        while not status.exists() or not all(query["state"] == "running" for query in _queries(status)):
            if self._process.poll() is not None or time.monotonic() > end:
                log = (self._directory / "pipeline.log").read_text(errors="replace")
                raise AssertionError(f"the pipeline does not run: {log[-3000:]}")
            time.sleep(0.2)

    def _publish(self) -> None:
        messages = to_messages(self._weather)
        step = max(100, len(messages) // (len(self._plan) + 1))

        def on_acknowledged(count: int) -> None:
            done = self.outcome.kills.total()
            if done < len(self._plan) and count >= step * (done + 1):
                time.sleep(self._random.uniform(0, _PAUSE_MAX_S))  # to meet the pipeline at any step of its work
                self._kill(self._plan[done])

        published, acknowledged = replay(messages, "127.0.0.1", self._node.port, on_acknowledged, qos=2)
        assert published == acknowledged == len(messages)
        self.outcome.published = published

    def _kill(self, kind: str) -> None:
        self.outcome.kills[kind] += 1
        if kind == "broker":
            self._node.kill()
            self._node.start()
        elif kind == "worker":
            self._cluster.kill_worker(self._random.randrange(2))
        else:
            self._process.kill()
            self._process.wait()
            self._process = self._start_driver()

    def _once(self) -> None:
        """Process what is left."""
        done = subprocess.run(self._command("once"), capture_output=True, text=True, timeout=_ONCE_S, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]

    def _compare(self, database: Postgresql) -> None:
        expected = expect_lake(self._weather)
        tables = self._directory / "tables"
        observations = pd.DataFrame(
            database.query("SELECT station, observed_at, temp_f FROM observations"),
            columns=["station", "observed_at", "temp_f"],
        )
        observations["observed_at"] = pd.to_datetime(observations["observed_at"], utc=True)
        observations["temp_f"] = observations["temp_f"].astype(float)
        self._check("observations", observations, expected.observations, ["station", "observed_at"])
        self._check("readings", _delta(tables / "readings"), expected.readings, ["station", "observed_at"])
        self._check("quarters", _delta(tables / "quarters"), expected.quarters, ["station", "begins_at"])

    def _check(self, name: str, found: pd.DataFrame, expected: pd.DataFrame, key: list[str]) -> None:
        self.outcome.rows[name] = len(found)
        ours, theirs = (table[list(expected)].sort_values(key, ignore_index=True) for table in (found, expected))
        try:
            pd.testing.assert_frame_equal(ours, theirs, check_dtype=False, check_exact=False, rtol=0, atol=_TOLERANCE)
        except AssertionError as error:
            self.outcome.differences.append(f"{name}: {' '.join(str(error).split())}")


def _delta(path: Path) -> pd.DataFrame:
    return DeltaTable(path).to_pyarrow_table().to_pandas()


def _queries(status: Path) -> list[dict[str, Any]]:
    queries: list[dict[str, Any]] = json.loads(status.read_bytes())["queries"]
    return queries

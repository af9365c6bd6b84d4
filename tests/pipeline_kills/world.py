"""The lake of the weather example under `kill -9`: a node, a Spark cluster, a pipeline driver and PostgreSQL.

Stations publish at QoS 2 while the driver, a Spark worker or the broker is killed, whichever the seed says: in the
middle of a micro-batch, and not before every query has recovered from the kill before. At the end every table must
equal the one that pandas makes of the same observations.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from support.postgresql import Postgresql, postgresql
from support.process import NodeProcess
from support.spark_cluster import SparkCluster
from support.waiting import wait_until

_EXAMPLE = Path(__file__).parents[2] / "examples" / "weather"
sys.path.insert(0, str(_EXAMPLE))

from lake_expected import expect_lake  # noqa: E402 (of the example)
from observations import read_weather, to_messages  # noqa: E402
from stations import replay  # noqa: E402

_QUERIES = 3
KINDS = ("driver", "worker", "broker")

# Spark adds up in another order than pandas, and so may the last digits differ.
_TOLERANCE = 1e-9
_ONCE_S = 600.0
_RECOVERY_S = 300.0
_POLL_S = 0.05
_PAUSE_MAX_S = 2.0
# Observations published between two kills at least; `replay` tells how far it is as often.
_STEP_MIN = 100


def days_max() -> int:
    """How many days of weather there are."""
    return len(_days(read_weather()))


def kills_max(days: int) -> int:
    """How many kills come between the observations of so many days."""
    return max(0, len(_first(read_weather(), days)) // _STEP_MIN - 1)


@dataclass
class Outcome:
    """What a run has shown.

    Attributes:
        published: Observations published, and acknowledged.
        kills: How often each kind of process was killed.
        interrupted: How many of these kills came while a batch was being written.
        rows: Rows of each table.
        differences: What differs from the expected tables; empty when nothing does.
    """

    published: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    interrupted: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)

    def text(self) -> str:
        """One line for people."""
        kills = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kills.items()))
        rows = ", ".join(f"{table} {count:,}" for table, count in self.rows.items())
        told = "; ".join(self.differences) or "every table equals the one computed without Spark"
        killed = f"killed: {kills or 'nothing'} ({self.interrupted} in the middle of a batch)"
        return f"{self.published:,} observations, {killed}; rows: {rows}; {told}"


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
        self._weather = _first(read_weather(), days)
        # Each kind in its turn, in an order that the seed says, so that few kills are of all kinds, too.
        self._plan = [kind for _ in range(-(-kills // len(KINDS))) for kind in self._shuffled()][:kills]
        self._batches_before: dict[str, int] = {}
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Publish, kill, finish, compare."""
        with ExitStack() as stack:
            database = stack.enter_context(postgresql())
            self._cluster = stack.enter_context(SparkCluster(self._directory / "spark"))
            stored = 'durable_storage.messages.topics = ["#"]'
            self._node = stack.enter_context(NodeProcess(self._directory, stored, reader=True))
            self._write_pipeline(database)
            with self._driver():
                self._await("the queries run", self._is_running)
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

    def _publish(self) -> None:
        messages = to_messages(self._weather)
        step = max(_STEP_MIN, len(messages) // (len(self._plan) + 1))
        recovering_since: int | None = None

        def on_acknowledged(count: int) -> None:
            nonlocal recovering_since
            done = self.outcome.kills.total()
            if recovering_since is not None and count > recovering_since and done < len(self._plan):
                self._await("every query has written a batch since the last kill", self._has_recovered)
                recovering_since = None
            if done < len(self._plan) and count >= step * (done + 1):
                self._await("a batch is being written", self._is_at_work)
                time.sleep(self._random.uniform(0, _PAUSE_MAX_S))  # to meet it at any step
                self._kill(self._plan[done])
                recovering_since = count

        published, acknowledged = replay(messages, "127.0.0.1", self._node.port, on_acknowledged, qos=2)
        assert published == acknowledged == len(messages)
        assert self.outcome.kills.total() == len(self._plan)
        self.outcome.published = published

    def _kill(self, kind: str) -> None:
        assert self._process.poll() is None, f"the driver ended by itself: {self._log()}"
        self.outcome.kills[kind] += 1
        self._batches_before = {} if kind == "driver" else self._batches()
        self.outcome.interrupted += self._is_at_work()
        if kind == "broker":
            self._node.kill()
            self._node.start()
        elif kind == "worker":
            self._cluster.kill_worker(self._random.randrange(2))
        else:
            self._process.kill()
            self._process.wait()
            if self.outcome.kills.total() < len(self._plan):  # else `once` goes on for it
                self._process = self._start_driver()

    def _is_running(self) -> bool:
        return len(self._batches()) == _QUERIES

    def _has_recovered(self) -> bool:
        batches = self._batches()
        return len(batches) == _QUERIES and all(
            count > self._batches_before.get(name, 0) for name, count in batches.items()
        )

    def _batches(self) -> dict[str, int]:
        """How many batches each query that runs has written in this life of the driver."""
        try:
            status = json.loads((self._directory / "state" / "status.json").read_bytes())
        except FileNotFoundError:
            return {}
        if status["pid"] != self._process.pid:
            return {}
        return {query["name"]: query["batches"] for query in status["queries"] if query["state"] == "running"}

    def _is_at_work(self) -> bool:
        """Whether the checkpoint of a query has a batch that is planned and not written."""
        state = self._directory / "state"
        return any(_newest(query / "offsets") > _newest(query / "commits") for query in state.iterdir())

    def _await(self, what: str, condition: Callable[[], bool]) -> None:
        wait_until(
            condition,
            lambda: f"{what}: {self._log()}",
            is_alive=lambda: self._process.poll() is None,
            deadline_s=_RECOVERY_S,
        )

    def _log(self) -> str:
        return (self._directory / "pipeline.log").read_text(errors="replace")[-3000:]

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


def _days(weather: pd.DataFrame) -> list[str]:
    return sorted(weather["time_hour"].str[:10].unique())


def _first(weather: pd.DataFrame, days: int) -> pd.DataFrame:
    return weather[weather["time_hour"].str[:10] <= _days(weather)[days - 1]]


def _delta(path: Path) -> pd.DataFrame:
    from deltalake import DeltaTable  # heavy: not while tests are collected

    return DeltaTable(path).to_pyarrow_table().to_pandas()


def _newest(numbered: Path) -> int:
    """The highest number that names a file of a directory of Spark's checkpoint."""
    return max((int(file.name) for file in numbered.glob("*") if file.name.isdigit()), default=-1)

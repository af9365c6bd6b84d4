"""Spark's own processes on this machine, from the PySpark package: a standalone cluster, all on the loopback."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.find_spark_home import _find_spark_home

from heliograph.pipeline.spark.gateway import MODULE_OPTIONS
from heliograph.pipeline.spark.jre import find_java
from support.waiting import wait_until

_READY_S = 120.0
_HOST = "127.0.0.1"

# Each process lives for seconds: what a thorough compiler would gain is less than what it costs.
_SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"


def spark_environment(directory: Path) -> dict[str, str]:
    """The environment of Spark's processes, of what they start, and of a program that uses them.

    Workers start executors with an option that only a whole JDK understands, and the runtime here may be less: what is
    called `java` leaves that option out. Spark uses the module for a part of its machine learning library only.
    """
    program = directory / "java" / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        "#!/bin/bash\n"
        'for one; do [[ "$one" == --add-modules=jdk.incubator.vector ]] || kept+=("$one"); done\n'
        f'exec "{find_java().program}" "${{kept[@]}}"\n'
    )
    program.chmod(0o755)
    return {
        **os.environ,
        "JAVA_HOME": str(directory / "java"),
        "JDK_JAVA_OPTIONS": _SMALL,
        "SPARK_HOME": _find_spark_home(),
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": _HOST,
        # Spark's launcher scripts say it; without it a worker looks for the directory of a build.
        "SPARK_SCALA_VERSION": "2.13",
    }


class SparkProcess:
    """One of Spark's Java processes, with those that it starts; owned by who made it.

    Args:
        environment: As `spark_environment` says.
        log: Where its output goes.
        ready: What its log says once it is ready; the first group is kept in `said`.
        arguments: The class to run and its arguments, after options of Java.
        memory: Its heap.
    """

    def __init__(
        self, environment: dict[str, str], log: Path, ready: str, *arguments: str, memory: str = "256m"
    ) -> None:
        classes = f"{environment['SPARK_HOME']}/jars/*"
        command = [f"{environment['JAVA_HOME']}/bin/java", "-cp", classes, f"-Xmx{memory}", *MODULE_OPTIONS]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Executors are children of their worker: a group of its own ends all of them.
                start_new_session=True,
            )
        try:
            self.said = self._await(log, ready)
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """`kill -9`, with everything that it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def _await(self, log: Path, ready: str) -> str:
        def said() -> "re.Match[str] | None":
            return re.search(ready, log.read_text(errors="replace"))

        # Its log is the only way in which it tells that it is ready.
        wait_until(
            said,
            lambda: f"{log} does not say {ready!r}: {log.read_text(errors='replace')[-2000:]}",
            is_alive=lambda: self._process.poll() is None,
            deadline_s=_READY_S,
        )
        found = said()
        assert found is not None
        return found[found.lastindex or 0]


class SparkCluster:
    """A standalone cluster of a master and some workers; owned by the test.

    Args:
        directory: Where logs and the files of executors go.
        workers: How many workers, each with one core.
        memory: Memory of each worker, in Spark's words.
    """

    def __init__(self, directory: Path, workers: int = 2, memory: str = "1g") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.environment = spark_environment(directory)
        self.url = ""
        self._directory = directory
        self._workers_count = workers
        self._memory = memory
        self._processes: list[SparkProcess] = []
        self._starts = 0

    def __enter__(self) -> Self:
        try:
            master = self._start("master.Master", r"Starting Spark master at (spark://\S+)")
            self._processes.append(master)
            self.url = master.said
            for _ in range(self._workers_count):
                self._processes.append(self._start_worker())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def kill_worker(self, number: int) -> None:
        """`kill -9` a worker and its executors, and start another in its place."""
        self._processes[1 + number].kill()
        self._processes[1 + number] = self._start_worker()

    def _start_worker(self) -> SparkProcess:
        size = ("--cores", "1", "--memory", self._memory, "--work-dir", str(self._directory / "work"))
        return self._start("worker.Worker", "Successfully registered with master", *size, self.url)

    def _start(self, program: str, ready: str, *options: str) -> SparkProcess:
        self._starts += 1
        log = self._directory / f"{program}-{self._starts}.log"
        place = ("--host", _HOST, "--port", "0", "--webui-port", "0")
        return SparkProcess(self.environment, log, ready, f"org.apache.spark.deploy.{program}", *place, *options)

    def _end(self) -> None:
        for process in reversed(self._processes):
            process.kill()

"""A standalone Spark cluster on this machine, from the PySpark package: a master and workers, all on the loopback."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.find_spark_home import _find_spark_home

from heliograph.pipeline.gateway import MODULE_OPTIONS
from heliograph.pipeline.jre import find_java

_READY_S = 60.0
_HOST = "127.0.0.1"


class SparkCluster:
    """A master and its workers, each a process of its own; owned by the test.

    Args:
        directory: Where logs and the files of executors go.
        workers: How many workers.
        cores: Cores that each worker says it has.
        memory: Memory of each worker, in Spark's words.
    """

    def __init__(self, directory: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self.directory = directory
        self.url = ""
        self._workers_count = workers
        self._worker_options = ["--cores", str(cores), "--memory", memory]
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self._starts = 0

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._master, log = self._start("master", "org.apache.spark.deploy.master.Master", [])
        try:
            self.url = _await(log, r"Starting Spark master at (spark://\S+)", self._master)
            for _ in range(self._workers_count):
                self._workers.append(self._start_worker())
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
        self._kill(self._workers[number])
        self._workers[number] = self._start_worker()

    def _start_worker(self) -> "subprocess.Popen[bytes]":
        options = [*self._worker_options, "--work-dir", str(self.directory / "work"), self.url]
        process, log = self._start("worker", "org.apache.spark.deploy.worker.Worker", options)
        _await(log, "(Successfully registered with master)", process)
        return process

    def _start(self, kind: str, program: str, options: list[str]) -> "tuple[subprocess.Popen[bytes], Path]":
        self._starts += 1
        log = self.directory / f"{kind}-{self._starts}.log"
        home = Path(_find_spark_home())
        command = [str(find_java().program), "-Xmx256m", "-cp", str(home / "jars" / "*"), *MODULE_OPTIONS, program]
        # Executors are started by their worker, and Python by them, with the worker's environment.
        environment = {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_SCALA_VERSION": "2.13",
        }
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--host", _HOST, "--port", "0", "--webui-port", "0", *options],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=os.environ | environment,
                # Executors are children of their worker: a group of its own kills all of them.
                start_new_session=True,
            )
        return process, log

    def _end(self) -> None:
        for process in [*self._workers, *([self._master] if self._master is not None else [])]:
            self._kill(process)

    def _kill(self, process: "subprocess.Popen[bytes]") -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def _await(log: Path, pattern: str, process: "subprocess.Popen[bytes]") -> str:
    end = time.monotonic() + _READY_S
    while (found := re.search(pattern, log.read_text(errors="replace"))) is None:
        if process.poll() is not None or time.monotonic() > end:
            raise AssertionError(f"not ready; {log} says: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)
    return found[1]

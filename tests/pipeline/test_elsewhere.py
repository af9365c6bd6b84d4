"""The data source on a standalone cluster of a master and two workers, and through Spark Connect."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.find_spark_home import _find_spark_home

from heliograph.pipeline.gateway import MODULE_OPTIONS
from heliograph.pipeline.jre import find_java

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.timeout(400)]

# Each process lives for seconds: what a thorough compiler would gain is less than what it costs.
_SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"


def _environment(java_home: Path) -> dict[str, str]:
    return {
        **os.environ,
        "JAVA_HOME": str(java_home),
        "JDK_JAVA_OPTIONS": _SMALL,
        "SPARK_HOME": _find_spark_home(),
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Spark's launcher scripts say it; without it a worker looks for the directory of a build.
        "SPARK_SCALA_VERSION": "2.13",
        "HELIOGRAPH_PURE": "1",
    }


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of all processes of a cluster.

    Workers start executors with an option that only a whole JDK understands, and the runtime here may be less: what is
    called `java` leaves that option out. Spark uses the module for a part of its machine learning library only.
    """
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/bash\n"
        'for one; do [[ "$one" == --add-modules=jdk.incubator.vector ]] || kept+=("$one"); done\n'
        f'exec "{find_java().program}" "${{kept[@]}}"\n'
    )
    program.chmod(0o755)
    return _environment(tmp_path / "java")


@contextmanager
def _java(environment: dict[str, str], log: Path, memory: str, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    classes = f"{_find_spark_home()}/jars/*"
    command = [f"{environment['JAVA_HOME']}/bin/java", "-cp", classes, f"-Xmx{memory}", *MODULE_OPTIONS]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *arguments], env=environment, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_log(process: "subprocess.Popen[bytes]", log: Path, pattern: str, deadline_s: float = 120) -> None:
    """Wait until a log says something: it is the only way in which these processes tell that they are ready."""
    end = time.monotonic() + deadline_s
    while not re.search(pattern, log.read_text(errors="replace")):
        if process.poll() is not None or time.monotonic() > end:
            raise TimeoutError(f"{log.name} does not say {pattern!r}:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _run_elsewhere(environment: dict[str, str], *arguments: str) -> dict[str, list[int]]:
    command = [sys.executable, "-m", "pipeline.elsewhere", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, list[int]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_standalone_cluster_reads_and_streams(stored: "Stored", tmp_path: Path, environment: dict[str, str]) -> None:
    stored.put_commits("a/1", 10, 10)
    stored.put("b/1", [b'{"n": 100}'])
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as running:
        log = tmp_path / "master.log"
        address = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        process = running.enter_context(
            _java(environment, log, "128m", "org.apache.spark.deploy.master.Master", *address)
        )
        _await_log(process, log, "I have been elected leader")
        for number in range(2):
            size = ("--cores", "1", "--memory", "600m", "--work-dir", str(tmp_path / f"work-{number}"))
            place = ("--host", "127.0.0.1", "--webui-port", "0", master)
            log = tmp_path / f"worker-{number}.log"
            running.enter_context(
                _java(environment, log, "128m", "org.apache.spark.deploy.worker.Worker", *size, *place)
            )
        found = _run_elsewhere(environment, "cluster", master, stored.endpoint, str(tmp_path))
    assert found == {"table": list(range(100)), "stream": list(range(101))}


def test_spark_connect_reads_and_streams(stored: "Stored", tmp_path: Path, environment: dict[str, str]) -> None:
    stored.put_commits("a/1", 10, 10)
    stored.put("b/1", [b'{"n": 100}'])
    port = _free_port()
    log = tmp_path / "connect.log"
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.shuffle.partitions": "2",
    }
    options = [f"-D{name}={value}" for name, value in settings.items()]
    program = "org.apache.spark.sql.connect.service.SparkConnectServer"
    with _java(environment, log, "600m", *options, program) as process:
        _await_log(process, log, "Spark Connect server started")
        found = _run_elsewhere(environment, "connect", f"sc://127.0.0.1:{port}", stored.endpoint, str(tmp_path))
    assert found == {"table": list(range(100)), "stream": list(range(101))}

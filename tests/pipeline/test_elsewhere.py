"""The data source on a standalone cluster of a master and two workers, and through Spark Connect."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.spark_cluster import SparkCluster, SparkProcess, spark_environment

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(400)]


def _run_elsewhere(environment: dict[str, str], *arguments: str) -> dict[str, list[int]]:
    command = [sys.executable, "-m", "pipeline.elsewhere", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, list[int]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_standalone_cluster_reads_and_streams(stored: "Stored", tmp_path: Path) -> None:
    stored.put_commits("a/1", 10, 10)
    stored.put("b/1", [b'{"n": 100}'])
    with SparkCluster(tmp_path / "spark", memory="600m") as cluster:
        found = _run_elsewhere(cluster.environment, "cluster", cluster.url, stored.endpoint, str(tmp_path))
    assert found == {"table": list(range(100)), "stream": list(range(101))}


def test_spark_connect_reads_and_streams(stored: "Stored", tmp_path: Path) -> None:
    stored.put_commits("a/1", 10, 10)
    stored.put("b/1", [b'{"n": 100}'])
    environment = spark_environment(tmp_path)
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.shuffle.partitions": "2",
    }
    options = [f"-D{name}={value}" for name, value in settings.items()]
    program = "org.apache.spark.sql.connect.service.SparkConnectServer"
    ready = r"Spark Connect server started at: \S+:(\d+)"
    with SparkProcess(environment, tmp_path / "connect.log", ready, *options, program, memory="600m") as server:
        place = f"sc://127.0.0.1:{server.said}"
        found = _run_elsewhere(environment, "connect", place, stored.endpoint, str(tmp_path))
    assert found == {"table": list(range(100)), "stream": list(range(101))}

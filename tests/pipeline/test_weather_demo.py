"""The weather example: the demo as a newcomer runs it, and its path with the broker killed while stations publish."""

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from heliograph.pipeline.files.rulefile import load_pipeline
from heliograph.pipeline.running.driver import PipelineDriver
from heliograph.pipeline.running.queries import RunSettings
from support.process import NodeProcess
from support.waiting import wait_until

_EXAMPLE = Path(__file__).parents[2] / "examples" / "weather"
sys.path.insert(0, str(_EXAMPLE))

# The modules of the example; it needs the extra `demo`.
observations = pytest.importorskip("observations", exc_type=ImportError)
stations = pytest.importorskip("stations", exc_type=ImportError)

_RULES = """
rules.obs {
  sql = "SELECT payload.origin AS station, payload.time_hour AS at FROM \\"weather/+/obs\\""
  sink { type = parquet, path = obs, columns { station = string, at = string } }
}
"""

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.mark.long
@pytest.mark.timeout(240)
def test_the_demo_ends_well_and_leaves_nothing_running(tmp_path: Path) -> None:
    earlier = tmp_path / "out" / "tables" / "obs"
    earlier.mkdir(parents=True)
    (earlier / "old.parquet").write_text("of an earlier run")
    (tmp_path / "out" / ".heliograph-demo").touch()
    command: list[str | Path] = [sys.executable, _EXAMPLE / "demo.py", "--output", tmp_path / "out", "--days", "60"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"^published +4,2\d\d +4,2\d\d$", run.stdout, re.MULTILINE)
    assert (tmp_path / "out" / "temperatures.png").stat().st_size > 10_000
    assert not _processes_that_name(tmp_path)


def test_the_live_demo_tells_how_to_log_in_and_moves_until_it_is_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, str(_EXAMPLE / "live.py"), "--output", str(tmp_path / "out"), "--pace", "0.05"]
    without = {name: value for name, value in os.environ.items() if name != "HELIOGRAPH_MANAGEMENT__ENABLE"}
    with subprocess.Popen([*command, "--without-pipeline"], stdout=subprocess.PIPE, text=True, env=without) as live:
        assert live.stdout is not None
        try:
            told = "".join(itertools.takewhile(lambda line: "Ctrl-C" not in line, live.stdout))
            url, token = re.findall(r"^(?:dashboard|set-up token) +(\S+)", told, re.MULTILINE)
            with httpx.Client(base_url=f"{url}api/v5", timeout=30) as api:
                made = {"token": token, "username": "admin", "password": "first-password-1"}
                api.headers["authorization"] = f"Bearer {api.post('/heliograph/set_up', json=made).json()['token']}"
                wait_until(lambda: "station-JFK" in api.get("/clients").text, "the stations are connected")
                wait_until(lambda: _republished(api) > 0, "the rule has republished strong wind")
        finally:
            live.send_signal(signal.SIGINT)
        assert live.wait(60) == 0
    assert not _processes_that_name(tmp_path)


def _republished(api: httpx.Client) -> int:
    return int(api.get("/rules/strong_wind/metrics").json()["metrics"]["actions.success"])


def test_the_demo_does_not_clear_a_directory_that_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("all my work")
    run = subprocess.run(
        [sys.executable, _EXAMPLE / "demo.py", "--output", tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1
    assert "holds files that are not this demo's" in run.stderr
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.timeout(240)
def test_nothing_acknowledged_is_missing_after_the_broker_was_killed_twice(spark: SparkSession, tmp_path: Path) -> None:
    messages = observations.to_messages(observations.read_weather())[:3_000]
    node = NodeProcess(tmp_path, reader=True).start()
    kills = 0
    source = {"endpoint": f"127.0.0.1:{node.flight_port}"}
    settings = RunSettings(tmp_path / "checkpoint", tmp_path / "tables", "127.0.0.1:9", source, trigger_s=0.2)
    settings.checkpoint.mkdir()
    (tmp_path / "rules.hocon").write_text(_RULES)
    driver = PipelineDriver(spark, load_pipeline(tmp_path / "rules.hocon"), settings)
    running = threading.Thread(target=driver.run)
    running.start()
    try:

        def on_acknowledged(count: int) -> None:
            nonlocal kills
            if count >= 1_000 * (kills + 1) and kills < 2:
                kills += 1
                node.kill()
                node.start()

        published, acknowledged = stations.replay(messages, "127.0.0.1", node.port, on_acknowledged)
        assert (published, acknowledged, kills) == (len(messages), len(messages), 2)
        expected = {(message["origin"], message["time_hour"]) for message in map(_payload, messages)}
        wait_until(lambda: driver.figures[0].rows_written >= len(messages), is_alive=running.is_alive, deadline_s=120)
    finally:
        driver.stop()
        running.join(60)
        node.stop()
    rows = ds.dataset(tmp_path / "tables" / "obs", format="parquet").to_table().to_pylist()
    assert {(row["station"], row["at"]) for row in rows} == expected


def _payload(message: Any) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(message.payload)
    return payload


def _processes_that_name(path: Path) -> list[str]:
    """Command lines of running processes that have the path in them."""
    commands = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            commands.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [command for command in commands if str(path) in command]

"""A node in a process of its own, for clients that other people wrote.

`HELIOGRAPH_CLIENTS_PORT=1884 pytest tests/clients` asks another broker on this host the same questions.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_CONFIG = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage.flight.bind = "127.0.0.1:0"
mqtt.max_inflight = 100
"""


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Host and port of a broker; one for the whole run, so a test uses client ids and topics of its own."""
    other = os.environ.get("HELIOGRAPH_CLIENTS_PORT")
    if other is not None:
        yield "127.0.0.1", int(other)
        return
    folder = tmp_path_factory.mktemp("node")
    config = folder / "heliograph.conf"
    config.write_text(_CONFIG)
    command = [sys.executable, "-m", "heliograph.cli.main", "start", "--config", str(config)]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            [*command, "--data-dir", str(folder / "data")], stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            yield "127.0.0.1", _port(process, folder / "log")
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 0, (folder / "log").read_text()
        finally:
            if process.poll() is None:
                process.kill()


def _port(process: "subprocess.Popen[str]", log: Path) -> int:
    """The MQTT port in the ready line."""
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"mqtt tcp://127\.0\.0\.1:(\d+)", line)
    if found is None:
        process.kill()
        pytest.fail(f"the node did not become ready: {line!r}\n{log.read_text()}")
    return int(found[1])


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A client id and topic prefix that no other test uses."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())

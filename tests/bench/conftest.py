"""A real broker for the load tool: mosquitto, where it is installed."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int)
    return port


@pytest.fixture(scope="session")
def mosquitto_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a mosquitto that lets everyone in and drops nothing."""
    program = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
    if program is None:
        pytest.skip("mosquitto is not installed")
    port = free_port()
    folder: Path = tmp_path_factory.mktemp("mosquitto")
    config = folder / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nlog_dest stderr\nlog_type information\n"
        "log_type error\nconnection_messages false\nmax_inflight_messages 1000\nmax_queued_messages 0\n"
    )
    with subprocess.Popen([program, "-c", str(config)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            if not any("running" in line for line in process.stderr):
                pytest.fail(f"mosquitto ended with {process.wait()}")
            yield port
        finally:
            process.terminate()

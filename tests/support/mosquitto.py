"""A mosquitto to test against: another broker for our clients, another implementation for our listeners."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_SETTINGS = """
allow_anonymous true
persistence false
log_dest stderr
log_type information
log_type error
connection_messages false
max_inflight_messages 1000
max_queued_messages 0
"""


@dataclass(frozen=True)
class Listeners:
    """Where a mosquitto listens: its port for each transport, and who has signed its certificate."""

    ports: dict[str, int]
    cafile: Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int)
    return port


@contextmanager
def mosquitto(folder: Path, listeners: str) -> Iterator[None]:
    """A mosquitto that lets everyone in and drops nothing."""
    program = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
    if program is None:
        pytest.skip("mosquitto is not installed")
    config = folder / "mosquitto.conf"
    config.write_text(f"user root\n{_SETTINGS}{listeners}")
    with subprocess.Popen([program, "-c", str(config)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            if not any("running" in line for line in process.stderr):
                pytest.fail(f"mosquitto ended with {process.wait()}")
            yield
        finally:
            process.terminate()

"""A mosquitto to test against: another broker for our clients, another implementation for our listeners."""

import random
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

_CHANCE = random.SystemRandom()  # no test that seeds chance has two processes ask for the same ports

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
    """A port on which nothing listens, below those that systems give to outgoing connections.

    A port of the latter could be an outgoing connection's before the server that it is meant for binds it.
    """
    while True:
        port = _CHANCE.randrange(10_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def mosquitto(folder: Path, listeners: str, settings: str = _SETTINGS) -> Iterator[None]:
    """A mosquitto that lets everyone in and drops nothing, unless its settings say otherwise.

    Args:
        settings: What stands before its listeners; its log goes to standard error.
    """
    program = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
    if program is None:
        pytest.skip("mosquitto is not installed")
    config = folder / "mosquitto.conf"
    config.write_text(f"user root\n{settings}{listeners}")
    with subprocess.Popen([program, "-c", str(config)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            if not any("running" in line for line in process.stderr):
                pytest.fail(f"mosquitto ended with {process.wait()}")
            yield
        finally:
            process.terminate()

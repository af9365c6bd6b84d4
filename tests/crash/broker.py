"""The broker under test: a `heliograph start` that is killed again and again on one data directory and one port."""

import asyncio
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from support.fork_server import Copy, ForkServer, shared_server
from support.ports import held_port

_START_S: Final = 60.0
_STOP_S: Final = 30.0


class BrokerError(Exception):
    """It did not start, or did not stop; the message says what its log has."""


class Broker:
    """One data directory and the process that serves it, if one runs. Owned by a run.

    Args:
        directory: Where configuration, data and log go.
        settings: HOCON.
        environment: More environment variables.
    """

    def __init__(self, directory: Path, settings: str, environment: Mapping[str, str]) -> None:
        self.port = held_port(self)
        self.data_dir = directory / "data"
        self.log = directory / "node.log"
        self.starts = 0
        self._config = directory / "heliograph.conf"
        self._config.write_text(
            f'listeners.tcp.default.bind = "127.0.0.1:{self.port}"\ndurable_storage.flight.enable = false\n{settings}\n'
        )
        without_management = {"HELIOGRAPH_MANAGEMENT__ENABLE": "false"}  # what it would do is no promise to clients
        self._environment = {**os.environ, **without_management, **environment, "PYTHONUNBUFFERED": "1"}
        self._shared = shared_server(self._environment)
        self._server = self._shared or ForkServer(self._environment)  # of this run, whose libraries are its own
        self._process: Copy | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    async def start(self) -> bool:
        """Start it and wait until it is ready; False if it was killed before.

        Raises:
            BrokerError: It ended by itself, or says nothing.
        """
        self.starts += 1
        arguments = ["start", "--config", str(self._config), "--data-dir", str(self.data_dir)]
        with self.log.open("ab") as log:
            self._process = self._server.start(arguments, self._environment, log.fileno())
        try:
            async with asyncio.timeout(_START_S):
                line = await asyncio.to_thread(self._process.stdout.readline)
        except TimeoutError:
            line = ""
            self.kill()
        if line:
            return True
        if await self._gone() == -signal.SIGKILL:
            return False
        raise BrokerError(f"the broker does not start; its log ends with\n{self.log_tail()}")

    def kill(self) -> None:
        """`kill -9`, if it lives."""
        if self._process is not None:
            self._process.kill()

    async def wait_dead(self) -> None:
        """Wait until the process is gone.

        Raises:
            BrokerError: It ended otherwise than by a kill.
        """
        code = await self._gone()
        if code != -signal.SIGKILL:
            raise BrokerError(f"the broker ended by itself ({code}); its log ends with\n{self.log_tail()}")

    async def stop(self) -> int:
        """SIGTERM, and its exit code.

        Raises:
            BrokerError: It does not stop.
        """
        assert self._process is not None
        self._process.terminate()
        try:
            async with asyncio.timeout(_STOP_S):
                return await self._gone()
        except TimeoutError as error:
            self.kill()
            raise BrokerError(f"the broker does not stop; its log ends with\n{self.log_tail()}") from error

    async def end(self) -> None:
        """Leave no process behind, whatever happened."""
        self.kill()
        if self._process is not None:
            await self._gone()
        if self._shared is None:
            self._server.end()

    async def _gone(self) -> int:
        """Wait until the process is gone; its exit code."""
        assert self._process is not None
        code = await self._process.ended()
        self._process.stdout.close()
        return code

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def faults_logged(self) -> list[str]:
        """Lines of its log that name an unforeseen error: what no disk fault and no kill may bring about."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if re.search(r"Traceback|a tick failed|exception_handler", line)]

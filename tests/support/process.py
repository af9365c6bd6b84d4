"""A node as its own process: `heliograph start` with a configuration file, on free loopback ports."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self

from support.ports import held_port


class NodeProcess:
    """One `heliograph start`; owned by the test, in whose directory it keeps its data.

    Args:
        directory: Where configuration, data and log go.
        settings: More HOCON, put behind the listener's.
        port: The MQTT port; 0 for a free one, which stays its own between a stop and a start.
        file_bytes_max: The largest file that the process may write, to have its disk run full.
        open_files_max: How many files the process may have open.
        cgroup: The cgroup that it runs in; None for that of the test.
        without: Environment variables of the test that it does not get.
    """

    def __init__(
        self,
        directory: Path,
        settings: str = "",
        *,
        port: int = 0,
        file_bytes_max: int | None = None,
        open_files_max: int | None = None,
        cgroup: Path | None = None,
        without: Collection[str] = (),
    ) -> None:
        self.directory = directory
        self.settings = settings
        self.port = port or held_port(self)
        self.flight_port = 0
        self._flight_port = held_port(self)  # of the storage reader, if there is one
        self.file_bytes_max = file_bytes_max
        self.open_files_max = open_files_max
        self.cgroup = cgroup
        self.without = without
        self.log = directory / "node.log"
        self.ready_line = ""
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def data_dir(self) -> Path:
        """Where it stores messages."""
        return self.directory / "data"

    def start(self) -> Self:
        """Start it and wait for its ready line."""
        config = self.directory / "heliograph.conf"
        config.write_text(
            f'listeners.tcp.default.bind = "127.0.0.1:{self.port}"\n'
            f'durable_storage.flight.bind = "127.0.0.1:{self._flight_port}"\n{self.settings}\n'
        )
        command = [sys.executable, "-m", "heliograph.cli.main", "start", "--config", str(config)]
        if self.file_bytes_max is not None:
            command = ["prlimit", f"--fsize={self.file_bytes_max}", *command]
        if self.open_files_max is not None:
            command = ["prlimit", f"--nofile={self.open_files_max}", *command]
        if self.cgroup is not None:
            enter = 'echo $$ > "$0" && exec "$@"'
            command = ["sh", "-c", enter, str(self.cgroup / "cgroup.procs"), *command]
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [*command, "--data-dir", str(self.data_dir)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment(),
            )
        assert self._process.stdout is not None
        self.ready_line = self._process.stdout.readline().strip()
        ports = dict(re.findall(r"(tcp|grpc)://[^\s,]*:(\d+)", self.ready_line))
        if "tcp" not in ports:
            self.kill()
            raise AssertionError(f"no ready line but {self.ready_line!r}; log: {self.log.read_text()}")
        self.port = int(ports["tcp"])
        self.flight_port = int(ports.get("grpc", 0))
        return self

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """`kill -9`."""
        self._end(signal.SIGKILL)

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def end(self) -> None:
        """Have it be gone, whether or not it runs still, also where its start has failed."""
        if self.is_alive():
            self.kill()
        elif self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def _environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name not in self.without} | {
            "PYTHONUNBUFFERED": "1"
        }

    def _end(self, number: signal.Signals) -> int:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        process.send_signal(number)
        code = process.wait(60)
        process.stdout.close()
        return code

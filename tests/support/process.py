"""A node as its own process: `heliograph start` with a configuration file, on free loopback ports."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from support.fork_server import MODULE, Copy, shared_server
from support.ports import held_port
from support.python_copies import python


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
        reader: Whether it has the process beside it that serves what is stored.
        is_copy: Whether it may be a copy of a process that has loaded a node, as `fork_server` makes them.
        are_programs_copies: Whether a copy with a reader starts its programs as copies, too, as `python_copies` makes
            them: they are not its children then, but children of their server.
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
        reader: bool = False,
        is_copy: bool = True,
        are_programs_copies: bool = True,
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
        self.reader = reader
        self.is_copy = is_copy
        self.are_programs_copies = are_programs_copies
        self.log = directory / "node.log"
        self.ready_line = ""
        self.was_killed = False
        self._process: subprocess.Popen[str] | Copy | None = None

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
        self.was_killed = False
        config = self.directory / "heliograph.conf"
        config.write_text(
            f'listeners.tcp.default.bind = "127.0.0.1:{self.port}"\n'
            f'durable_storage.flight {{ bind = "127.0.0.1:{self._flight_port}", enable = {json.dumps(self.reader)} }}\n'
            f"{self.settings}\n"
        )
        with self.log.open("a") as log:
            self._process = self._begin(["start", "--config", str(config), "--data-dir", str(self.data_dir)], log)
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
        return self.end_by(signal.SIGTERM)

    def kill(self) -> None:
        """`kill -9`."""
        self.was_killed = True
        self.end_by(signal.SIGKILL)

    def end_by(self, number: signal.Signals) -> int:
        """A signal, and its exit code, which is negative where the signal ended it."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        process.send_signal(number)
        code = process.wait(60)
        process.stdout.close()
        return code

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

    def _begin(self, arguments: Sequence[str], log: IO[str]) -> subprocess.Popen[str] | Copy:
        environment = {name: value for name, value in os.environ.items() if name not in self.without}
        environment["PYTHONUNBUFFERED"] = "1"
        limits = {"fsize": self.file_bytes_max, "nofile": self.open_files_max}
        given = {name: value for name, value in limits.items() if value is not None}
        server = shared_server(environment) if self.is_copy and self.cgroup is None else None
        if server is not None:
            programs = python() if self.reader and self.are_programs_copies else ""
            return server.start(arguments, environment, log.fileno(), given, programs)
        command = [sys.executable, "-m", MODULE, *arguments]
        if given:
            command = ["prlimit", *(f"--{name}={value}" for name, value in given.items()), *command]
        if self.cgroup is not None:
            enter = 'echo $$ > "$0" && exec "$@"'
            command = ["sh", "-c", enter, str(self.cgroup / "cgroup.procs"), *command]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)

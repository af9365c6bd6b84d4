"""Nodes that begin as copies of a process that has loaded what `heliograph start` loads, which is most of a start.

The copy gets the standard output and error, directory, environment, limits and arguments of the start, and then runs
the module of the command as `python -m` does, to the end of the interpreter. It is a process like any other: signals
do what they do by default, and its exit code is its own. What only a new interpreter has is a new hash seed, which each
server of copies has instead, and variables that the interpreter and its libraries read when they begin: a start whose
environment differs from the server's in any of those begins as a new process.
"""

import asyncio
import atexit
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from heliograph.processes.programs import PROGRAMS

MODULE: Final = "heliograph.cli.main"
_MESSAGE_MAX: Final = 1 << 17
_LIMITS: Final = {"fsize": resource.RLIMIT_FSIZE, "nofile": resource.RLIMIT_NOFILE}  # as `prlimit` calls them
_READ_AT_THE_BEGINNING: Final = ("HELIOGRAPH_PURE", "HELIOGRAPH_FAULTS_")
_READ_LATER: Final = ("HELIOGRAPH_", "PYTEST_", "PYTHONUNBUFFERED")


class Copy:
    """A node that was copied; owned by who started it, and used as a `subprocess.Popen`.

    Args:
        server: The server, whose child it is.
        pid: Its process.
        stdout: What it writes to its standard output.
    """

    def __init__(self, server: "ForkServer", pid: int, stdout: IO[str]) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self.pidfd = os.pidfd_open(pid)  # readable when it has ended; the server keeps what is left of it until `wait`
        self._server = server
        self._asking = threading.Lock()

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        return self.returncode if self.returncode is not None or not self._has_ended(0) else self.wait()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns its exit code.

        Raises:
            subprocess.TimeoutExpired: It goes on.
        """
        if self.returncode is None:
            if not self._has_ended(timeout):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            with self._asking:
                if self.returncode is None:
                    self.returncode = self._server.exit_code(self.pid)
                    os.close(self.pidfd)
        return self.returncode

    async def ended(self) -> int:
        """Wait for its end in an event loop; returns its exit code."""
        if self.returncode is None:
            loop, end = asyncio.get_running_loop(), asyncio.Event()
            loop.add_reader(self.pidfd, end.set)
            try:
                await end.wait()
            finally:
                loop.remove_reader(self.pidfd)
        return self.wait()

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self.pidfd, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _has_ended(self, timeout: float | None) -> bool:
        waiting = select.poll()
        waiting.register(self.pidfd, select.POLLIN)
        return bool(waiting.poll(None if timeout is None else timeout * 1_000))


class ForkServer:
    """A process that has loaded a node and has begun nothing: it has one thread, no event loop and no open file.

    Lives until `end` or the end of this process, which it sees at its socket.

    Args:
        environment: What it begins in.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = _lasting(environment)
        self._asking = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],  # modules beside it have names of packages
                pass_fds=(theirs.fileno(),),
                env={**environment, "PYTHONUNBUFFERED": "1"},
            )

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Whether a node in an environment may be a copy."""
        return _lasting(environment) == self._environment

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        stderr: int,
        limits: Mapping[str, int] | None = None,
        programs: str = "",
    ) -> Copy:
        """Start a command.

        Args:
            arguments: Of the command line.
            environment: All of its variables; the server must suit them.
            stderr: Where its log goes.
            limits: Limits of the process as `prlimit` calls them.
            programs: What it starts its programs with instead of Python, if anything.
        """
        ours, stdout = os.pipe()
        try:
            request = {
                "arguments": list(arguments),
                "directory": os.getcwd(),
                "environment": dict(environment),
                "limits": dict(limits or {}),
                "programs": programs,
                "umask": _umask(),
            }
            pid = self._ask(request, [stdout, stderr])
        finally:
            os.close(stdout)
        return Copy(self, pid, open(ours, encoding="utf-8"))

    def exit_code(self, pid: int) -> int:
        """The exit code of a copy that has ended; can be asked for once."""
        return self._ask({"ended": pid}, [])

    def end(self) -> None:
        """End the server."""
        self._control.close()
        self._process.wait()

    def _ask(self, request: Mapping[str, Any], files: Sequence[int]) -> int:
        with self._asking:
            try:
                socket.send_fds(self._control, [json.dumps(request).encode()], files)
                answer = self._control.recv(_MESSAGE_MAX)
            except BaseException:  # a limit of time: what comes later would answer another request
                self._control.close()
                _servers[:] = [one for one in _servers if one is not self]
                raise
        if not answer:
            raise RuntimeError(f"the server of copies has ended with code {self._process.wait()}")
        return int(answer)


def _lasting(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that may be read when a process begins; settings of a node are read when it starts."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ_AT_THE_BEGINNING) or not name.startswith(_READ_LATER)
    }


_servers: list[ForkServer] = []  # the one of this process, from its first use


def shared_server(environment: Mapping[str, str]) -> ForkServer | None:
    """The server of this process; None where an environment must begin otherwise."""
    if not _servers:
        _servers.append(ForkServer(environment))
        atexit.register(_servers[0].end)
    return _servers[0] if _servers[0].suits(environment) else None


def _umask() -> int:
    """Of this process, which only Linux says without setting it."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask:"))
    return int(line.partition(":")[2], 8)


def _serve(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Copy this process at each request. Returns in copies, with the request and its files; None at the end."""
    while True:
        message, files, _, _ = socket.recv_fds(control, _MESSAGE_MAX, 2)
        if not message:
            return None
        request = json.loads(message)
        if "ended" in request:
            _, status = os.waitpid(request["ended"], 0)
            control.send(b"%d" % os.waitstatus_to_exitcode(status))
            continue
        pid = os.fork()
        if not pid:
            return request, files
        for file in files:
            os.close(file)
        try:
            control.send(b"%d" % pid)
        except OSError:  # nobody owns it
            os.kill(pid, signal.SIGKILL)
            return None


def _run(request: Mapping[str, Any], files: Sequence[int]) -> None:
    """Be the command, in its place and circumstances."""
    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["directory"])
    sys.path.insert(0, request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.umask(request["umask"])
    for name, value in request["limits"].items():
        resource.setrlimit(_LIMITS[name], (value, value))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[1:] = request["arguments"]
    if request["programs"]:
        PROGRAMS.python = lambda: str(request["programs"])
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


def _load() -> None:
    """Load what a node has loaded when it is ready, and see that nothing of it has begun."""
    import heliograph.cli.start
    import heliograph.hocon.lalr
    import heliograph.node
    import heliograph.node.checked_config  # noqa: F401

    assert MODULE not in sys.modules, "it is to run as the main module"
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{threads} threads run, of which a copy would have one"


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, and their end ends it
    begun = None
    with socket.socket(fileno=int(sys.argv[1])) as control:
        control.set_inheritable(False)
        _load()
        begun = _serve(control)
    if begun is not None:
        _run(*begun)


if __name__ == "__main__":
    _main()

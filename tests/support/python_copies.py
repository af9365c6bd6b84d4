"""Python programs that begin as copies of a process which has loaded what those need that work on stored messages.

These are Spark's workers, the storage reader, programs that search or replay what it has, and what else a node or its
management process starts. Most of what such a program does until it is ready is loading, and Spark starts some for each
query. `python` gives a program that takes the place of Python's: it passes on its arguments, environment, directory,
umask and standard streams to a server, which is copied, and it ends as the copy does. A signal to end goes to the copy;
where the program is killed, so is the copy. What only a new interpreter has is a new hash seed, and variables that
Python and libraries read once; and a copy ends without taking down what it has loaded, which takes longer than most
programs do: it waits for its threads and calls what is to be called at the exit, as every program of Python. Programs
that tell the node their process id are no copies.
"""

import atexit
import gc
import importlib
import marshal
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from heliograph.processes.programs import PROGRAMS

_CLIENT: Final = Path(__file__).with_name("copied_program.py")
_MESSAGE_MAX: Final = 1 << 18

#: What programs load that not every server of copies is asked for: loaded at the first request.
_LOADED_LATER: Final = {
    ("-m", "heliograph.management"): "heliograph.management.program",
    ("-m", "heliograph.pipeline.runner"): "heliograph.pipeline.runner.worker",
    ("-m", "heliograph.sources"): "heliograph.sources.worker",
    ("-m", "heliograph.cli.main"): "heliograph.cli.pipeline_actions",
}

_directories: list[Path] = []  # the one of the server of this process, from its first use


def python() -> str:
    """A program to start as Python, with `-m` or `-c`; its server lives until the end of this process."""
    if not _directories:
        _directories.append(_start())
    return str(_directories[0] / "python")


def _start() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="python-copies-"))
    place = directory / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(place))
        listening.listen(64)
        command = [sys.executable, "-P", __file__, str(listening.fileno())]  # modules beside it have names of packages
        # With threads for numbers there would be more than the one that a copy has.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        server = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(listening.fileno(),), env=environment)

    def end() -> None:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
        shutil.rmtree(directory)

    atexit.register(end)
    program = directory / "python"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{_CLIENT}" "{place}" "$@"\n')
    program.chmod(0o755)
    return directory


class _Server:
    """The copies of this process that have not ended, each with the connection of the program that it stands for.

    Args:
        listening: Where programs connect.
    """

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._poller = select.poll()
        self._pids: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor that tells of the end
        self._connections: dict[int, tuple[int, socket.socket]] = {}
        for file in (0, listening.fileno()):
            self._poller.register(file, select.POLLIN)

    def serve(self) -> tuple[Mapping[str, Any], list[int]] | None:
        """Copy this process at each request. Returns in copies, with the request and its files; None at the end."""
        while True:
            for file, _ in self._poller.poll():
                if file == 0:  # closed by the process that began this one, or by its end
                    return None
                if file == self._listening.fileno():
                    begun = self._copied()
                    if begun is not None:
                        return begun
                elif file in self._pids:
                    self._ended(file)
                elif file in self._connections:
                    self._signalled(file)

    def _copied(self) -> tuple[Mapping[str, Any], list[int]] | None:
        connection, _ = self._listening.accept()
        message, files, _, _ = socket.recv_fds(connection, _MESSAGE_MAX, 3)
        if len(files) < 3:  # the program was killed before it asked
            connection.close()
            return None
        request = marshal.loads(message)
        request["python"] = str(Path(self._listening.getsockname()).with_name("python"))
        if later := _LOADED_LATER.get(tuple(request["arguments"][:2])):
            importlib.import_module(later)
            gc.freeze()
        pid = os.fork()
        if not pid:
            for _, other in self._connections.values():
                other.close()
            connection.close()
            for ended in self._pids:
                os.close(ended)
            return request, files
        for file in files:
            os.close(file)
        ended = os.pidfd_open(pid)
        self._pids[ended] = self._connections[connection.fileno()] = (pid, connection)
        self._poller.register(ended, select.POLLIN)
        self._poller.register(connection, select.POLLIN)
        return None

    def _ended(self, file: int) -> None:
        pid, connection = self._pids.pop(file)
        self._poller.unregister(file)
        os.close(file)
        _, status = os.waitpid(pid, 0)
        if self._connections.pop(connection.fileno(), None) is not None:
            self._poller.unregister(connection)
            connection.send(b"%d" % os.waitstatus_to_exitcode(status))
        connection.close()

    def _signalled(self, file: int) -> None:
        pid, connection = self._connections[file]
        number = connection.recv(_MESSAGE_MAX)
        if not number:
            del self._connections[file]
            self._poller.unregister(file)
        os.kill(pid, int(number or signal.SIGKILL))


def _run(request: Mapping[str, Any], files: list[int]) -> None:
    """Be the program, in its place and circumstances."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.umask(request["umask"])
    paths = [request["directory"], *request["environment"].get("PYTHONPATH", "").split(os.pathsep)]
    sys.path[:0] = [path for path in paths if path and path not in sys.path]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    PROGRAMS.python = lambda: str(request["python"])
    option, program, *arguments = request["arguments"]
    sys.argv[1:] = arguments
    if option == "-c":  # how Spark asks for the version
        exec(program, {"__name__": "__main__"})
        return
    assert option == "-m", request["arguments"]
    runpy.run_module(program, run_name="__main__", alter_sys=True)


def _code_of(request: Mapping[str, Any], files: list[int]) -> int:
    """Be the program until its end: its exit code."""
    try:
        _run(request, files)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    return 0


def _end(code: int) -> None:
    """End as the interpreter does, but leave what is loaded to the kernel."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter does at its end
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _load() -> None:
    """Load what the programs load, and see that nothing of it has begun."""
    import pandas  # noqa: F401
    import pyarrow.pandas_compat  # noqa: F401
    import pyspark.sql.streaming.python_streaming_source_runner
    import pyspark.sql.worker.create_data_source
    import pyspark.sql.worker.plan_data_source_read
    import pyspark.worker  # noqa: F401

    import heliograph.cli.publish
    import heliograph.cli.subscribe
    import heliograph.pipeline.datasource.client
    import heliograph.pipeline.replay.running
    import heliograph.pipeline.running.ranges
    import heliograph.rules.spark.row_evaluator
    import heliograph.storage.offload.steps
    import heliograph.storage.reader.databases
    import heliograph.storage.reader.flight_server  # noqa: F401
    from heliograph.rules.parser import parse_rule

    parse_rule('SELECT 1 AS n FROM "a"')  # makes the tables of the parser
    threads = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    others = threads[1:]  # the allocator of Arrow begins its own again in a copy
    assert set(others) <= {"jemalloc_bg_thd"}, f"{others} run, which a copy would not have"
    gc.collect()
    gc.freeze()


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, and their end ends it
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        listening.set_inheritable(False)
        _load()
        begun = _Server(listening).serve()
    if begun is not None:
        _end(_code_of(*begun))


if __name__ == "__main__":
    _main()

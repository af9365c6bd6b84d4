"""The worker processes that run jq programs, as their user sees them: `evaluate`, and a pool of at most two of them.

jq evaluates in C, holds the lock of the interpreter meanwhile and cannot be interrupted, so a program that never ends
would stop a broker for good. In a process of its own it can be killed. A worker starts at the first use, keeps the
programs that it has compiled, and ends with its parent, also when that is killed: an idle one reads the end of its
input, and one that is busy has an alarm set (`heliograph.rules.jq_worker`).
"""

import os
import select
import struct
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Final

from heliograph.rules.errors import EvaluationFault

WORKERS_MAX: Final = 2
DEFAULT_TIMEOUT_S: Final = 10.0

_PROGRAM: Final = Path(__file__).with_name("jq_worker.py")
_KEPT_VARIABLES: Final = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")
_START_S: Final = 30.0
_ALARM_MARGIN_S: Final = 1.0
_READ_BYTES: Final = 1024 * 1024
# The same as in `jq_worker`, which cannot be imported where jq is not installed.
_REQUEST: Final = struct.Struct(">IId")
_ANSWER: Final = struct.Struct(">BI")


class _Late(Exception):  # noqa: N818 - a fault for people is made of it
    pass


class _Ended(Exception):  # noqa: N818 - a fault for people is made of it
    pass


class Worker:
    """One worker process. Owned by a `WorkerPool`, used by one thread at a time, ended by `close`."""

    def __init__(self) -> None:
        environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        # Unbuffered: the pipes are read and written by their numbers.
        self._process = subprocess.Popen(
            # -P, because the folder of the program holds modules whose names are those of Python's own.
            [sys.executable, "-P", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=environment,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._input.fileno(), False)
        os.set_blocking(self._output.fileno(), False)

    def __repr__(self) -> str:
        return f"Worker(pid={self._process.pid}, {'running' if self.is_running() else 'ended'})"

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        try:
            self._read(1, time.monotonic() + _START_S)
        except (_Late, _Ended):
            raise EvaluationFault("its worker process does not start; is the Python package jq installed?") from None

    def ask(self, program: bytes, document: bytes, deadline: float) -> tuple[bool, str]:
        """Run a program on a document; whether it succeeded, and the answer. After `_Late` the worker is of no use."""
        alarm_s = max(deadline - time.monotonic(), 0.0) + _ALARM_MARGIN_S
        self._write(_REQUEST.pack(len(program), len(document), alarm_s) + program + document, deadline)
        status, length = _ANSWER.unpack(self._read(_ANSWER.size, deadline))
        return status == 0, self._read(length, deadline).decode()

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self.kill()
        for pipe in (self._input, self._output):
            pipe.close()
        self._process.wait()

    def _write(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            self._wait(self._input.fileno(), select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self._input.fileno(), rest) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise _Ended from None

    def _read(self, count: int, deadline: float) -> bytes:
        parts: list[bytes] = []
        missing = count
        while missing:
            self._wait(self._output.fileno(), select.POLLIN, deadline)
            try:
                part = os.read(self._output.fileno(), min(missing, _READ_BYTES))
            except BlockingIOError:
                continue
            if not part:
                raise _Ended
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _wait(self, fileno: int, event: int, deadline: float) -> None:
        """Wait until a pipe can be used or has ended, without the interpreter's lock."""
        poll = select.poll()
        poll.register(fileno, event)
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not poll.poll(left_s * 1000 + 1):
            raise _Late


class WorkerPool:
    """The workers of one owner, in the process that made it; for any thread. They end with the pool at latest."""

    def __init__(self, workers_max: int = WORKERS_MAX, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._workers_max = workers_max
        self.timeout_s = timeout_s
        self._changed = threading.Condition()
        self._idle: list[Worker] = []
        self._workers: list[Worker] = []
        self._places_taken = 0
        weakref.finalize(self, _end, self._workers)

    def __repr__(self) -> str:
        return f"WorkerPool({self.statistics()})"

    def statistics(self) -> dict[str, int]:
        return {"workers": len(self._workers), "idle": len(self._idle)}

    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    def evaluate(self, program: bytes, document: bytes, timeout_s: float | None = None) -> str:
        """The JSON array of all outputs of a program.

        Args:
            timeout_s: How long to wait for a worker and for its answer, together; the start of a worker is not counted.
                None for the pool's own timeout.

        Raises:
            EvaluationFault: The program does not compile, fails, or takes too long.
        """
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        worker, deadline = self._take(timeout_s)
        finished = False
        try:
            succeeded, answer = worker.ask(program, document, deadline)
            finished = True
        except _Late:
            raise EvaluationFault(f"the program was stopped after {_milliseconds(timeout_s)}") from None
        except _Ended:
            raise EvaluationFault("the program ended its process; it needs too much memory or nests too deep") from None
        finally:
            self._give_back(worker, finished)
        if not succeeded:
            raise EvaluationFault(answer.strip())
        return answer

    def close(self) -> None:
        """End every worker; the next program starts new ones."""
        with self._changed:
            workers, idle = self._workers.copy(), self._idle.copy()
            self._workers.clear()
            self._idle.clear()
        for worker in workers:
            if worker in idle:
                worker.close()
            else:
                worker.kill()

    def _take(self, timeout_s: float) -> tuple[Worker, float]:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            if not self._changed.wait_for(lambda: self._places_taken < self._workers_max, timeout_s):
                raise EvaluationFault(f"every worker was busy for {_milliseconds(timeout_s)}")
            self._places_taken += 1
            worker = self._idle_worker()
        if worker is not None:
            return worker, deadline
        return self._started(deadline)

    def _idle_worker(self) -> Worker | None:
        while self._idle:
            worker = self._idle.pop()
            if worker.is_running():
                return worker
            self._workers.remove(worker)
            worker.close()
        return None

    def _started(self, deadline: float) -> tuple[Worker, float]:
        began = time.monotonic()
        worker: Worker | None = None
        try:
            worker = Worker()
            worker.wait_until_ready()
        except OSError as error:
            self._give_back(worker, False)
            raise EvaluationFault(f"its worker process does not start: {error}") from None
        except BaseException:
            self._give_back(worker, False)
            raise
        with self._changed:
            self._workers.append(worker)
        return worker, deadline + (time.monotonic() - began)

    def _give_back(self, worker: Worker | None, usable: bool) -> None:
        with self._changed:
            self._places_taken -= 1
            # One that `close` has ended meanwhile is no longer among them, also where it had just answered.
            known = worker in self._workers
            is_kept = usable and known
            if worker is not None and is_kept:
                self._idle.append(worker)
            elif worker is not None and known:
                self._workers.remove(worker)
            self._changed.notify()
        if worker is not None and not is_kept:
            worker.close()


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000):,} ms"


def _end(workers: list[Worker]) -> None:
    for worker in workers:
        worker.close()

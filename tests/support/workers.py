"""`--workers N`: runs the tests in N processes, a file at a time, which begin as copies of the one that collected them.

Collecting some thousand tests takes longer than most files of them, so it is done once. A worker that dies fails the
test that it was at, and another copy takes its place.

Files that use Spark all go to one worker, whose session they share: a session starts a Java process, which takes a long
time to become fast. Those of the dashboard and those that look at the syntax of our sources go to one as well.
"""

import faulthandler
import os
import re
import signal
import sys
import traceback
from atexit import _clear, _run_exitfuncs
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

_OPTION: Final = "--workers"
_DASHBOARD: Final = "tests/dashboard/"  # their node and their browser start once
_SYNTAX: Final = re.compile(r"^from architecture\.syntax import", re.MULTILINE)  # which is read once
_ENDING_S: Final = 60.0


class Hooks:
    """What plugins are called for in workers and about them."""

    def pytest_worker_begins(self, config: pytest.Config) -> None:
        """In a worker, before its first test."""

    def pytest_worker_ends(self, config: pytest.Config) -> dict[str, Any] | None:
        """In a worker, after its last test: what the first process has to know; each plugin has keys of its own."""

    def pytest_worker_ended(self, config: pytest.Config, results: dict[str, Any]) -> None:
        """In the first process: what the plugins of a worker had to say at its end."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """The option; without it the tests run in the process that collected them."""
    parser.addoption(_OPTION, type=int, default=0, metavar="N", help="run files of tests in N processes")
    pluginmanager.add_hookspecs(Hooks)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in workers where the command line says so."""
    if not session.config.getoption(_OPTION) or session.config.option.collectonly or session.testsfailed:
        return None  # pytest's own loop, which also says that a file could not be read
    with _Workers(session) as workers:
        workers.run()
    return True


@dataclass
class _Worker:
    """A copy of this process; owned by `_Workers`, until it has ended.

    Args:
        number: Which of those that have begun it is.
        tests: Numbers of the tests that it was given and has not finished, in their order.
        pid: Its process.
        ended: The descriptor that is readable when it has ended.
        connection: What it asks and reports.
        has_begun: Whether it runs the first of these.
    """

    number: int
    tests: deque[int]
    pid: int
    ended: int
    connection: Connection
    has_begun: bool = False


class _Workers:
    """The workers of a run; a context manager, behind which none lives."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._config = session.config
        self._files: dict[Path, list[int]] = {}
        for number, item in enumerate(session.items):
            self._files.setdefault(item.path, []).append(number)
        self._queue = deque(self._files.values())
        self._shared = {file: _what_is_shared(session, tests) for file, tests in self._files.items()}
        self._worker_of: dict[str, int] = {}  # the one that has what files share
        self._workers: list[_Worker] = []
        # Made here: workers would each look for one.
        self._temporary: pytest.TempPathFactory = getattr(self._config, "_tmp_path_factory")  # noqa: B009
        self._temporary.getbasetemp()
        self._begun = 0

    def __enter__(self) -> "_Workers":
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self._workers:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
            self._reap(worker)

    def run(self) -> None:
        """Begin workers, and give them files until all tests are done."""
        for _ in range(min(self._config.getoption(_OPTION), len(self._files))):
            self._begin()
        while self._workers:
            ready = wait([file for worker in self._workers for file in (worker.connection, worker.ended)])
            for worker in [worker for worker in self._workers if worker.connection in ready or worker.ended in ready]:
                # What it wrote before it ended comes first.
                if not self._heard(worker) and worker.ended in ready:
                    self._ended(worker)
            if self._session.shouldfail:
                raise self._session.Failed(self._session.shouldfail)
            if self._session.shouldstop:
                raise self._session.Interrupted(self._session.shouldstop)

    def _begin(self) -> None:
        # Its first file comes with it: one that asks already for its second would take the other's first.
        self._begun += 1
        tests = self._next(self._begun)
        if not tests:
            return
        ours, theirs = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            for file in [ours, *(worker.connection for worker in self._workers)]:
                file.close()
            for worker in self._workers:
                os.close(worker.ended)
            _become_worker(self._session, theirs, self._temporary, self._begun, tests)
        theirs.close()
        self._workers.append(_Worker(self._begun, deque(tests), pid, os.pidfd_open(pid), ours))

    def _heard(self, worker: _Worker) -> bool:
        """Act on what a worker has sent; False where nothing is there."""
        try:
            if not worker.connection.poll():
                return False
            what, value = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            return False
        hook = self._session.items[worker.tests[0]].ihook if worker.tests else self._config.hook
        if what == "next":
            tests = self._next(worker.number)
            worker.tests += tests
            with suppress(BrokenPipeError):  # it has died, which is seen next
                worker.connection.send(tests)
        elif what == "begin":
            worker.has_begun = True
            hook.pytest_runtest_logstart(nodeid=value[0], location=value[1])
        elif what == "report":
            report = self._config.hook.pytest_report_from_serializable(config=self._config, data=value)
            hook.pytest_runtest_logreport(report=report)
        elif what == "end":
            worker.has_begun = False
            worker.tests.popleft()
            hook.pytest_runtest_logfinish(nodeid=value[0], location=value[1])
        else:
            self._config.hook.pytest_worker_ended(config=self._config, results=value)
        return True

    def _next(self, worker: int) -> list[int]:
        """The tests of a file for a worker; none where all that is left belongs to others."""
        for tests in self._queue:
            shared = self._shared[self._session.items[tests[0]].path]
            if self._worker_of.get(shared, worker) == worker:
                break
        else:
            return []
        self._queue.remove(tests)
        if shared:
            self._worker_of[shared] = worker
        return tests

    def _ended(self, worker: _Worker) -> None:
        """Fail the test of which a worker died, and have another one do what it left."""
        self._workers.remove(worker)
        code = self._reap(worker)
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        if not worker.tests:
            if code:
                raise self._session.Interrupted(f"a worker died after its last test: {how}")
            return
        self._worker_of = {shared: other for shared, other in self._worker_of.items() if other != worker.number}
        item = self._session.items[worker.tests.popleft()]
        if not worker.has_begun:
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        text = f"a worker died while it ran {item.nodeid!r}: {how}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        left: dict[Path, list[int]] = {}
        for number in worker.tests:
            left.setdefault(self._session.items[number].path, []).append(number)
        self._queue.extendleft(reversed(left.values()))
        if self._queue:
            self._begin()

    def _reap(self, worker: _Worker) -> int:
        worker.connection.close()
        os.close(worker.ended)
        return os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])


def _what_is_shared(session: pytest.Session, tests: list[int]) -> str:
    """What the file of some tests shares with others that have to run in the same worker; empty for most."""
    if any("spark" in getattr(session.items[number], "fixturenames", ()) for number in tests):
        return "spark"
    first = session.items[tests[0]]
    if first.nodeid.startswith(_DASHBOARD):
        return "dashboard"
    return "syntax" if _SYNTAX.search(first.path.read_text(encoding="utf-8")) else ""


class _Sender:
    """Sends what becomes of the tests of this worker to the first process."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
        self._connection.send(("begin", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:
        self._connection.send(("end", (nodeid, location)))


class _Stderr:
    """What a worker has instead of a terminal: the stacks of a test that takes too long are in its captured output."""

    def __init__(self, writer: Any) -> None:
        self._tw = writer


def _become_worker(
    session: pytest.Session, connection: Connection, temporary: pytest.TempPathFactory, number: int, tests: list[int]
) -> NoReturn:
    """Run tests, and end the process; what the first process does at its end is not done here."""
    code = 1
    try:
        _clear()  # what the first process registered is its own
        _set_up(session.config, connection, temporary, number)
        for item, nextitem in _pairs(session, connection, tests):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        faulthandler.dump_traceback_later(_ENDING_S, exit=True)
        results: dict[str, Any] = {}
        for each in session.config.hook.pytest_worker_ends(config=session.config):
            results |= each
        connection.send(("results", results))
        code = 0
    except KeyboardInterrupt:
        pass
    except BaseException:  # noqa: BLE001 - whatever it is, the first process fails the test
        traceback.print_exc(file=sys.__stderr__)
    with suppress(BaseException):
        _run_exitfuncs()
    os._exit(code)


def _set_up(config: pytest.Config, connection: Connection, temporary: pytest.TempPathFactory, number: int) -> None:
    manager = config.pluginmanager
    capture = manager.getplugin("capturemanager")
    if capture.is_globally_capturing():
        # The files in which output is captured are the first process's.
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
    if (reporter := manager.getplugin("terminalreporter")) is not None:
        manager.unregister(reporter)
        manager.register(_Stderr(type(reporter._tw)(sys.__stderr__)), "terminalreporter")
    own = temporary.getbasetemp() / f"worker{number}"
    own.mkdir(mode=0o700)
    setattr(temporary, "_basetemp", own)  # noqa: B010
    manager.register(_Sender(config, connection))
    config.hook.pytest_worker_begins(config=config)


def _pairs(
    session: pytest.Session, connection: Connection, tests: list[int]
) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """The tests that this worker is given, each with the one behind it."""

    def numbers() -> Iterator[int]:
        more = tests
        while more:
            yield from more
            connection.send(("next", None))
            more = connection.recv()

    given = numbers()
    item = next(given, None)
    while item is not None:
        following = next(given, None)
        yield session.items[item], session.items[following] if following is not None else None
        item = following

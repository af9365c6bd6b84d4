"""The process of the action runner: `python -m heliograph.pipeline.runner FILE`.

`--check FILE` judges the actions of a file, `--replay FILE` brings their dead letters to their targets, and
`--probe FILE` tests the target of an action, whose file is one of the pipeline with one rule.

The file has its settings, see `heliograph.pipeline.runner.settings`. The node writes lines to its standard input:
`rows BYTES` when rows were stored for an action, which follow, `stored QUERY ...` when others were, `again` when a
person asks for another try, `settings` when the file has changed. The end of the input is the end of the process.
"""

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from importlib import invalidate_caches
from pathlib import Path
from threading import Event, Thread
from typing import Final

from heliograph.actions.handover import HANDED, rows_of
from heliograph.observe.side_log import log_to_stderr
from heliograph.pipeline.errors import PipelineError, sentence_of
from heliograph.pipeline.files.definition import DeadLetterSettings
from heliograph.pipeline.runner.backlog import RunnerBacklog
from heliograph.pipeline.runner.batch_memory import BatchMemory
from heliograph.pipeline.runner.inbox import handed_memory
from heliograph.pipeline.runner.settings import RunnerSettings, read_settings, tested_sink
from heliograph.pipeline.runner.worker import ActionWorker
from heliograph.pipeline.running.figures import FAILED, QueryFigures
from heliograph.pipeline.side_outputs.retention import DEFAULT_RETENTION, keep_within
from heliograph.pipeline.sinks.interface import INSTALL_WITHOUT_SPARK
from heliograph.pipeline.sinks.libraries import library_fault
from heliograph.processes.signals import on_signals
from heliograph.processes.without_pandas import keep_pandas_out
from heliograph.storage.durable_files import write_whole

_log = logging.getLogger("heliograph.pipeline.runner")

STATUS_FILE: Final = "status.json"
LOG_FILE: Final = "runner.log"
CHECK: Final = "--check"
REPLAY: Final = "--replay"
PROBE: Final = "--probe"
_REPORT_S: Final = 0.5
_TIDY_EVERY_S: Final = 3600.0
_STOP_S: Final = 20.0


class Runner:
    """The actions of one node. Owned by the process; `take` is called by the thread that reads the input."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._settings = read_settings(file)
        self._workers: dict[str, ActionWorker] = {}
        self._leaving: list[ActionWorker] = []
        self._memory = BatchMemory()
        self._handed = handed_memory()
        self._error: str | None = None
        self._ending = Event()
        self._status = ""
        self._started_at = time.time()
        self._tidy_at = 0.0

    def __repr__(self) -> str:
        return f"Runner({', '.join(self._workers)})"

    def take(self, line: str, read: Callable[[int], bytes]) -> None:
        """Do what a line of the node says.

        Args:
            read: Gives as many bytes of what follows the line.
        """
        word, *queries = line.split()
        if word == HANDED:
            rows = rows_of(read(int(queries[0])))
            if (worker := self._workers.get(rows.query)) is not None:
                worker.hand(rows)
        elif word == "stored":
            for query in queries:
                if (worker := self._workers.get(query)) is not None:
                    worker.wake()
        elif word == "again":
            if self._settings.faults:  # what was not installed may be there now
                invalidate_caches()
                self._use_file()
            for worker in list(self._workers.values()):
                worker.try_again()
        elif word == "settings":
            self._use_file()

    def end(self) -> None:
        self._ending.set()

    def run(self) -> None:
        """Run until `end` is called."""
        self._use(self._settings)
        backlog = RunnerBacklog(lambda: list(self._workers.values()))
        Thread(target=backlog.run, args=(self._settings, self._ending), name="backlog", daemon=True).start()
        while not self._ending.wait(_REPORT_S):
            self._report()
            self._tidy()
        workers = [*self._workers.values(), *self._leaving]
        for worker in workers:
            worker.stop()
        deadline = time.monotonic() + _STOP_S
        for worker in workers:
            if not worker.join(max(0.0, deadline - time.monotonic())):
                _log.warning("%s is not done with its batch, which is brought again", worker.action.query)
        self._report()

    def _use_file(self) -> None:
        try:
            settings = read_settings(self._file)
        except (OSError, ValueError, PipelineError) as error:
            self._error = f"the changed actions are not used: {error}"
            _log.error("%s", self._error)
            return
        self._error = None
        self._use(settings)

    def _use(self, settings: RunnerSettings) -> None:
        wanted = {action.query: action for action in settings.actions}
        self._settings = settings
        for query in [query for query, worker in self._workers.items() if wanted.get(query) != worker.action]:
            worker = self._workers.pop(query)
            worker.stop()
            self._leaving.append(worker)
        for query, action in wanted.items():
            if query not in self._workers:
                before = [worker for worker in self._leaving if worker.action.query == query]
                worker = ActionWorker(action, settings, before, memory=self._memory, handed=self._handed)
                self._workers[query] = worker
                worker.start()
        self._leaving = [worker for worker in self._leaving if not worker.join(0)]

    def _figures(self) -> Iterator[QueryFigures]:
        yield from (worker.figures for worker in list(self._workers.values()))
        for query, fault in self._settings.faults.items():
            yield QueryFigures(query, FAILED, failures=1, failures_in_row=1, last_error=fault)

    def _tidy(self) -> None:
        """Remove dead letters of its actions that are beyond their retention, now and then."""
        now = time.monotonic()
        if now < self._tidy_at:
            return
        self._tidy_at = now + _TIDY_EVERY_S
        table = self._settings.output / DeadLetterSettings().path
        try:
            removed = keep_within(table, DEFAULT_RETENTION, self._workers.keys())
        except OSError as error:
            _log.warning("dead letters cannot be looked at: %s", error)
            return
        if removed.batches:
            _log.warning("%d dead letters were beyond their retention and were removed", removed.rows)

    def _report(self) -> None:
        document = {
            "pid": os.getpid(),
            "started_at": round(self._started_at, 3),
            "reload_error": self._error,
            "queries": [figures.to_json() for figures in self._figures()],
        }
        text = json.dumps(document)
        if text != self._status:
            try:
                write_whole(self._file.with_name(STATUS_FILE), text.encode())
            except OSError as error:  # a disk that is full: actions may have rows in memory that their targets can take
                _log.error("the status cannot be written: %s", error)
            else:
                self._status = text


def check(file: str) -> int:
    """Print why actions of a file cannot run; the exit code is 2 if one cannot."""
    settings = read_settings(Path(file))
    # Here only: a process that runs has the library of a target from its first row on.
    install = INSTALL_WITHOUT_SPARK
    found = {action.query: library_fault(action.sink, install=install) for action in settings.actions}
    faults = {**settings.faults, **{query: fault for query, fault in found.items() if fault is not None}}
    for query, fault in faults.items():
        sys.stderr.write(f"{query}: {fault}\n")
    return 2 if faults else 0


def replay(file: str) -> int:
    """Print what became of the dead letters of each action, as a line of JSON; the exit code is 2 if that failed."""
    from heliograph.pipeline.runner.replay import replay_letters  # which no process that runs needs

    settings = read_settings(Path(file))
    for fault in settings.faults.values():
        return _failed(fault)
    for action in settings.actions:
        try:
            sys.stdout.write(f"{json.dumps(replay_letters(action, settings).to_json())}\n")
        except (PipelineError, OSError) as error:
            return _failed(sentence_of(error))
    return 0


def probe(file: str) -> int:
    """Print why the target of an action cannot be reached, or does not let us in; the exit code is then 2."""
    from heliograph.pipeline.sinks.probing import target_fault  # which knows the sinks of all types

    try:
        sink = tested_sink(Path(file))
        fault = library_fault(sink, install=INSTALL_WITHOUT_SPARK) or target_fault(sink, mqtt="")
    except PipelineError as error:
        fault = str(error)
    return _failed(fault) if fault else 0


def _failed(text: str) -> int:
    sys.stderr.write(f"heliograph pipeline: {text}\n")
    return 2


def main(file: str) -> None:
    _prepare(Path(file))
    runner = Runner(Path(file))
    on_signals({signal.SIGTERM: runner.end})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the node ends it

    def read_input() -> None:
        try:
            for line in sys.stdin.buffer:
                runner.take(line.decode(), sys.stdin.buffer.read)
        finally:  # a runner that no longer reads would outlive its node
            runner.end()

    Thread(target=read_input, name="input", daemon=True).start()
    runner.run()
    logging.shutdown()
    os._exit(0)  # a thread that waits for its target must not hold the process up


def _prepare(file: Path) -> None:
    keep_pandas_out()
    log_to_stderr(file.with_name(LOG_FILE))


if __name__ == "__main__":
    if sys.argv[1] == CHECK:
        sys.exit(check(sys.argv[2]))
    if sys.argv[1] == REPLAY:
        _prepare(Path(sys.argv[2]))
        sys.exit(replay(sys.argv[2]))
    if sys.argv[1] == PROBE:
        _prepare(Path(sys.argv[2]))
        sys.exit(probe(sys.argv[2]))
    main(sys.argv[1])

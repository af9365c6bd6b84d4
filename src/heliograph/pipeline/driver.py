"""The pipeline driver: keeps the queries of a pipeline running and tells how they do.

One driver owns one checkpoint directory. It starts every query, starts a query that failed again after a pause that
grows with each failure in a row, writes the figures to the log and to ``status.json`` beside the checkpoints, and ends
all of them when it is told to stop. What a query does is `heliograph.pipeline.queries`'s.
"""

import fcntl
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from heliograph.pipeline.client import StorageClient
from heliograph.pipeline.definition import Pipeline
from heliograph.pipeline.errors import (
    CheckpointInUseError,
    OptionError,
    PipelineError,
    RuleFileError,
    SparkEndedError,
    sentence_of,
)
from heliograph.pipeline.options import SourceOptions
from heliograph.pipeline.progress import FAILED, FINISHED, RUNNING, WAITING, QueryFigures
from heliograph.pipeline.queries import (
    OUTPUT_METRICS,
    REFUSED_METRICS,
    RULE_METRICS,
    RunningQuery,
    RunSettings,
    start_query,
)
from heliograph.rules import parse_rule

logger = logging.getLogger(__name__)

STATUS_FILE: Final = "status.json"
_LOCK_FILE: Final = "driver.lock"

_POLL_S: Final = 0.25
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
# With --once somebody waits for the end, so a query that fails again and again is given up.
_FAILURES_MAX_ONCE: Final = 5
_LOCK_WAIT_S: Final = 60.0


@dataclass
class _Query:
    """One query of the driver: the running Spark query, if any, its figures, and when it may start again."""

    name: str
    figures: QueryFigures
    running: RunningQuery | None = None
    last_batch: tuple[str, int] = ("", -1)
    failures: int = 0
    start_at: float = 0.0

    @property
    def is_over(self) -> bool:
        return self.figures.state in (FINISHED, FAILED)


class PipelineDriver:
    """Runs the queries of one pipeline in one Spark session until they have ended or `stop` is called.

    Owned by the process that runs the pipeline; `run` is called once. `stop` may be called from a signal handler.
    """

    def __init__(
        self,
        session: SparkSession,
        pipeline: Pipeline,
        settings: RunSettings,
        *,
        report_every_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare a driver.

        Args:
            session: The Spark session.
            pipeline: What to run.
            settings: How to run it.
            report_every_s: Seconds between two lines of a query in the log.
            clock: The clock of pauses and reports.
        """
        self._session = session
        self._pipeline = pipeline
        self._settings = settings
        self._report_every_s = report_every_s
        self._clock = clock
        self._stopping = Event()
        self._status = ""
        self._queries = [_Query(name, QueryFigures(name)) for name in pipeline.query_names]
        self._storage = StorageClient(settings.source["endpoint"])

    def __repr__(self) -> str:
        return f"PipelineDriver({', '.join(self._pipeline.query_names)})"

    @property
    def figures(self) -> list[QueryFigures]:
        """What each query has done so far."""
        return [query.figures for query in self._queries]

    def stop(self) -> None:
        """Ask `run` to end all queries and return."""
        self._stopping.set()

    def run(self) -> bool:
        """Run until every query has ended or `stop` was called; return whether none of them was given up.

        Raises:
            RuleFileError: Spark finds an error in a query before it runs.
            SparkEndedError: Spark's Java process ended.
        """
        try:
            self._run()
        except Py4JJavaError:
            raise  # an answer of Spark, if not a good one
        except (Py4JError, ConnectionError) as error:
            raise SparkEndedError(
                f"Spark's Java process ended ({sentence_of(error)}); its log may tell why, and the next run goes on "
                "where this one was"
            ) from error
        finally:
            self._storage.close()
        return not any(query.figures.state == FAILED for query in self._queries)

    def _run(self) -> None:
        report_at = self._clock() + self._report_every_s
        try:
            for query in self._queries:
                self._start(query, is_first=True)
            while not self._stopping.wait(_POLL_S) and not all(query.is_over for query in self._queries):
                for query in self._queries:
                    self._attend(query)
                if self._clock() >= report_at:
                    self._report()
                    report_at = self._clock() + self._report_every_s
                else:
                    self._write_status()
        except RuleFileError:
            self._stop_queries()
            raise
        self._stop_queries()
        self._report()

    def _attend(self, query: _Query) -> None:
        if query.running is None:
            if not query.is_over and self._clock() >= query.start_at:
                query.figures.restarts += 1
                self._start(query)
            return
        is_active = query.running.is_active
        self._take_progress(query, query.running)
        if is_active:
            return
        error = query.running.why_it_ended()
        query.running = None
        if error is None and self._settings.trigger_s is not None:
            error = "Spark ended the query without a reason; its log may tell more"
        if error is None:
            query.figures.state = FINISHED
            self._ask_lag(query)
            logger.info("%s", query.figures.log_line())
        else:
            self._failed(query, error)

    def _start(self, query: _Query, is_first: bool = False) -> None:
        try:
            query.running = start_query(self._session, self._pipeline, query.name, self._settings)
        except (AnalysisException, ParseException, ValueError) as error:
            if is_first:
                raise RuleFileError(f"{self._origin(query.name)}: {query.name}: {sentence_of(error)}") from error
            self._failed(query, sentence_of(error))
        except (PySparkException, PipelineError) as error:
            self._failed(query, sentence_of(error))
        else:
            query.figures.state = RUNNING

    def _failed(self, query: _Query, error: str) -> None:
        query.failures += 1
        query.figures.last_error = error
        is_once = self._settings.trigger_s is None
        if is_once and query.failures >= _FAILURES_MAX_ONCE:
            query.figures.state = FAILED
            logger.error("%s failed %d times and is given up: %s", query.name, query.failures, query.figures.last_error)
            return
        pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(query.failures - 1, 10))
        query.figures.state = WAITING
        query.start_at = self._clock() + pause
        logger.warning("%s failed and starts again in %.0f s: %s", query.name, pause, query.figures.last_error)

    def _take_progress(self, query: _Query, running: RunningQuery) -> None:
        for document in running.recent_progress():
            number = (document["runId"], document["batchId"])
            is_idle = "addBatch" not in document["durationMs"]
            if is_idle or (number[0] == query.last_batch[0] and number[1] <= query.last_batch[1]):
                continue
            query.last_batch = number
            query.failures = 0
            query.figures.add(document, OUTPUT_METRICS, RULE_METRICS, REFUSED_METRICS)

    def _report(self) -> None:
        for query in self._queries:
            self._ask_lag(query)
        self._write_status()
        for query in self._queries:
            logger.info("%s", query.figures.log_line())

    def _ask_lag(self, query: _Query) -> None:
        options = SourceOptions.of(self._settings.source)
        start = options.start if isinstance(options.start, int) else None
        selection = replace(options, topics=self._topics(query.name)).selection(start)
        try:
            query.figures.lag = self._storage.plan(selection, query.figures.positions).messages
        except PipelineError as error:
            query.figures.lag = None
            logger.warning("the lag of %s is unknown: %s", query.name, error)

    def _topics(self, name: str) -> tuple[str, ...]:
        job = self._pipeline.stream_sql.get(name)
        return tuple(parse_rule(self._pipeline.rules[job.source if job else name].sql).topics)

    def _origin(self, name: str) -> str:
        return (self._pipeline.stream_sql.get(name) or self._pipeline.rules[name]).origin

    def _write_status(self) -> None:
        document = {"pid": os.getpid(), "queries": [query.figures.to_json() for query in self._queries]}
        text = json.dumps(document)
        if text == self._status:
            return
        self._status = text
        unfinished = self._settings.checkpoint / f".{STATUS_FILE}.unfinished"
        unfinished.write_text(text)
        unfinished.rename(self._settings.checkpoint / STATUS_FILE)

    def _stop_queries(self) -> None:
        for query in self._queries:
            if query.running is None:
                continue
            query.running.stop()
            self._take_progress(query, query.running)
            query.figures.state = FINISHED


@contextmanager
def checkpoint_lock(directory: Path, wait_s: float = _LOCK_WAIT_S) -> Iterator[int]:
    """Hold a checkpoint directory for this driver alone; yields the descriptor to pass on to Spark's Java process.

    The lock lasts until the last holder of the descriptor has ended. A driver that is killed leaves its Java process
    behind for a moment, which may still write; since it holds the descriptor too, the next driver waits for its end.

    Raises:
        CheckpointInUseError: Another driver holds the directory.
        OptionError: It cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise OptionError(
            "--checkpoint", str(directory), f"a directory that can be written ({error.strerror})"
        ) from error
    try:
        deadline = time.monotonic() + wait_s
        while not _try_lock(descriptor):
            holder = _holder(descriptor)
            if time.monotonic() > deadline or _is_alive(holder):
                raise CheckpointInUseError(
                    f"the checkpoint {directory} is in use by another pipeline driver (process {holder}): stop it, or "
                    "give this one another --checkpoint"
                )
            time.sleep(_POLL_S)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0)
    return int(text) if text.isdigit() else None


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

"""The pipeline driver: keeps the queries of a pipeline running and tells how they do.

One driver owns one checkpoint directory. It starts every query, starts a query that failed again after a pause that
grows with each failure in a row, takes over changed files, writes the figures to the log and to ``status.json`` beside
the checkpoints, and ends all of them when it is stopped. What a query does is said in
`heliograph.pipeline.running.queries`.
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import (
    DefinitionChangedError,
    PipelineError,
    RuleFileError,
    SparkEndedError,
    sentence_of,
)
from heliograph.pipeline.files.definition import Pipeline, RuleJob
from heliograph.pipeline.files.rulefile import load_pipeline, pipeline_files
from heliograph.pipeline.running.checkpoint_lock import QueryLock
from heliograph.pipeline.running.figures import FAILED, FINISHED, INTERRUPTED, RETRYING, RUNNING, WAITING, QueryFigures
from heliograph.pipeline.running.identity import query_directory
from heliograph.pipeline.running.lag import lag_of
from heliograph.pipeline.running.progress import add_counters, add_progress
from heliograph.pipeline.running.queries import PreparedQuery, RunningQuery, RunSettings, Span, prepare_query
from heliograph.pipeline.side_outputs.retention import SideTables
from heliograph.processes.backoff import Backoff

logger = logging.getLogger(__name__)
STATUS_FILE: Final = "status.json"
_POLL_S: Final = 0.25
BACKOFF: Final = Backoff(first_s=1.0, longest_s=60.0)

# How long the end waits twice at most until the tables beside the sinks are counted.
_LAST_LOOK_S: Final = 5.0

# With `once` the caller waits for the end, so a query that fails again and again is given up.
_FAILURES_MAX_ONCE: Final = 5
_EVERY_S: Final = 2.0


@dataclass
class _Query:
    name: str
    figures: QueryFigures
    running: RunningQuery | None = None
    last_batch: tuple[str, int] = ("", -1)
    failures: int = 0
    start_at: float = 0.0
    is_lag_unknown: bool = False
    lock: QueryLock | None = None

    @property
    def is_over(self) -> bool:
        return self.figures.state in (FINISHED, FAILED)


class FileWatch:
    """The files of one pipeline as they were when they were last read. Owned by the driver."""

    def __init__(self, *paths: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._paths = paths
        self._clock = clock
        self._seen = self._digest()
        self._look_at = clock() + _EVERY_S

    def __repr__(self) -> str:
        return f"FileWatch({', '.join(map(str, self._paths))})"

    def has_changed(self) -> bool:
        """Whether they are other than when they were last read; looks every two seconds at most."""
        if self._clock() < self._look_at:
            return False
        self._look_at = self._clock() + _EVERY_S
        return self._digest() != self._seen

    def load(self) -> Pipeline:
        # Seen first: what is written in between is read again.
        self._seen = self._digest()
        return load_pipeline(*self._paths)

    def _digest(self) -> str:
        digest = hashlib.sha256()
        try:
            for file in (file for path in self._paths for file in pipeline_files(path)):
                digest.update(str(file).encode() + b"\0" + file.read_bytes() + b"\0")
        except (OSError, RuleFileError) as error:
            digest.update(repr(error).encode())
        return digest.hexdigest()


class PipelineDriver:
    """Runs the queries of one pipeline in one Spark session until they have ended or `stop` is called.

    Owned by the process that runs the pipeline; `run` is called once. `stop` and `reload` may be called from a signal
    handler.
    """

    def __init__(
        self,
        session: SparkSession,
        pipeline: Pipeline,
        settings: RunSettings,
        *,
        watch: FileWatch | None = None,
        spans: dict[str, Span] | None = None,
        report_every_s: float = 10.0,
        backoff: Backoff = BACKOFF,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare a driver.

        Args:
            watch: Reports changed files; None goes on with `pipeline` whatever happens to them.
            spans: What part of the past to run which queries over, and no others; None runs all of them live.
        """
        self._session = session
        self._pipeline = pipeline
        self._settings = settings
        self._watch = watch
        self._spans = spans
        self._report_every_s = report_every_s
        self._backoff = backoff
        self._clock = clock
        self._stopping = Event()
        self._reloading = Event()
        self._status = ""
        self._started_at = time.time()
        self._reload_error: str | None = None
        self._side_tables = SideTables(settings.output)
        names = list(spans) if spans is not None else pipeline.query_names
        self._queries = {name: _Query(name, self._new_figures(pipeline, name)) for name in names}

    def __repr__(self) -> str:
        return f"PipelineDriver({', '.join(self._queries)})"

    @property
    def figures(self) -> list[QueryFigures]:
        """What each query has done so far; asked in any thread."""
        return [query.figures for query in list(self._queries.values())]

    def stop(self) -> None:
        self._stopping.set()

    def reload(self) -> None:
        self._reloading.set()

    def run(self) -> bool:
        """Run until every query has ended or `stop` was called; return whether none of them was given up."""
        try:
            self._run()
        except Py4JJavaError:
            raise  # an answer of Spark, if not a good one
        except (Py4JError, ConnectionError) as error:
            self._interrupted()
            raise SparkEndedError(
                f"Spark's Java process ended ({sentence_of(error)}); its log may tell why (the system's, where memory "
                "was short), and the next run goes on where this one was"
            ) from error
        return not any(query.figures.state == FAILED for query in self._queries.values())

    def _interrupted(self) -> None:
        for query in self._queries.values():
            if not query.is_over:
                query.figures.state, query.figures.lag, query.figures.behind_s = INTERRUPTED, None, None
        self._write_status()

    def _run(self) -> None:
        report_at = self._clock() + self._report_every_s
        try:
            # All are analyzed before the first runs, so that a mistake in the last one leaves nothing half done.
            prepared = {name: self._prepare_first(self._pipeline, name) for name in self._queries}
            for name, query in self._queries.items():
                self._start(query, prepared[name])
            prepared.clear()
            while not self._stopping.wait(_POLL_S) and not all(query.is_over for query in self._queries.values()):
                for query in self._queries.values():
                    self._attend(query)
                self._take_over_changes()
                self._side_tables.attend(self._pipeline.side_tables, self._clock())
                if self._clock() >= report_at:
                    self._report()
                    report_at = self._clock() + self._report_every_s
                else:
                    self._write_status()
        except (RuleFileError, DefinitionChangedError):
            self._stop_queries()
            raise
        self._stop_queries()
        self._report(_LAST_LOOK_S)

    def _attend(self, query: _Query) -> None:
        if query.running is None:
            if not query.is_over and self._clock() >= query.start_at:
                query.figures.restarts += 1
                self._start(query)
            return
        is_active = query.running.is_active
        self._take_progress(query, query.running)
        if is_active:
            retried_after = query.running.retried_after
            query.figures.state = RUNNING if retried_after is None else RETRYING
            query.figures.last_error = retried_after or query.figures.last_error
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

    def _prepare(self, pipeline: Pipeline, name: str) -> PreparedQuery:
        span = self._spans[name] if self._spans is not None else None
        return prepare_query(self._session, pipeline, name, self._settings, span)

    def _directory_of(self, name: str) -> Path:
        return query_directory(self._settings.checkpoint, self._pipeline.job(name))

    def _prepare_first(self, pipeline: Pipeline, name: str) -> PreparedQuery | None:
        """The query ready to start; None where that has to wait for something else, such as the broker.

        A query that stands alone waits for its mistakes to be mended: its start meets them again, and tells them.
        """
        job = pipeline.job(name)
        if isinstance(job, RuleJob) and job.alone:
            return None
        try:
            return self._prepare(pipeline, name)
        except (RuleFileError, DefinitionChangedError):
            raise
        except (AnalysisException, ParseException, ValueError) as error:
            raise RuleFileError(f"{job.origin}: {name}: {sentence_of(error)}") from error
        except (PySparkException, PipelineError):
            return None  # the start meets it again, and tries again

    def _start(self, query: _Query, prepared: PreparedQuery | None = None) -> None:
        try:
            if self._spans is None:  # otherwise it has a checkpoint of its own
                query.lock = query.lock or QueryLock(self._directory_of(query.name))
                query.lock.take()
            query.running = (prepared or self._prepare(self._pipeline, query.name)).start()
        except (PySparkException, PipelineError, ValueError) as error:
            self._failed(query, sentence_of(error))
        else:
            query.figures.state = RUNNING
            query.figures.positions = query.running.positions
            query.figures.inputs = query.running.inputs

    def _failed(self, query: _Query, error: str) -> None:
        query.failures += 1
        query.figures.failures += 1
        query.figures.failures_in_row = query.failures
        query.figures.last_error = error
        is_once = self._settings.trigger_s is None
        if is_once and query.failures >= _FAILURES_MAX_ONCE:
            query.figures.state = FAILED
            logger.error("%s failed %d times and is given up: %s", query.name, query.failures, query.figures.last_error)
            return
        pause = self._backoff.pause_s(query.failures)
        query.figures.state = WAITING
        query.start_at = self._clock() + pause
        logger.warning("%s failed and starts again in %.0f s: %s", query.name, pause, query.figures.last_error)

    def _take_progress(self, query: _Query, running: RunningQuery) -> None:
        add_counters(query.figures, running.take_counters())
        for document in running.recent_progress():
            # Also where it had nothing to write: it looked for messages, and could have written them.
            query.failures = query.figures.failures_in_row = 0
            number = (document["runId"], document["batchId"])
            is_idle = "addBatch" not in document["durationMs"]
            if is_idle or (number[0] == query.last_batch[0] and number[1] <= query.last_batch[1]):
                continue
            query.last_batch = number
            add_progress(query.figures, document)

    def _take_over_changes(self) -> None:
        if self._watch is None or not (self._watch.has_changed() or self._reloading.is_set()):
            return
        if self._reloading.is_set():  # by a person, who does not want to wait for what failed either
            for query in self._queries.values():
                query.start_at = self._clock()
        self._reloading.clear()
        try:
            changed = self._watch.load()
        except PipelineError as error:
            self._refuse_change(f"the changed files are not used: {error}")
            return
        self._reload_error = None
        names = [name for name in changed.query_names if self._is_changed(changed, name)]
        prepared: dict[str, PreparedQuery | None] = {}
        for name in names:
            try:
                prepared[name] = self._prepare_first(changed, name)
            except PipelineError as error:
                self._refuse_change(f"the changed files are not used: {error}")
                return
        # From here on nothing is refused any more: the old definitions make way.
        self._pipeline = changed
        for name in [name for name in self._queries if name not in changed.query_names]:
            self._stop_query(self._queries.pop(name))
            logger.info("%s is not in the files any more and was ended", name)
        for name in names:
            if name in self._queries:
                self._stop_query(self._queries[name])
            logger.info("%s %s", name, "was changed and starts again" if name in self._queries else "is new")
            query = self._queries.setdefault(name, _Query(name, self._new_figures(changed, name)))
            self._describe(query.figures, changed)
            query.failures = 0
            self._start(query, prepared[name])
        self._queries = {name: self._queries[name] for name in changed.query_names}

    def _is_changed(self, changed: Pipeline, name: str) -> bool:
        return name not in self._pipeline.query_names or self._pipeline.parts(name) != changed.parts(name)

    def _refuse_change(self, reason: str) -> None:
        self._reload_error = reason
        logger.error("%s; everything runs on as it was", reason)

    def _report(self, wait_s: float = 0.0) -> None:
        for query in self._queries.values():
            self._ask_lag(query)
        self._side_tables.measure(self._pipeline.side_tables, wait_s)
        self._write_status()
        for query in self._queries.values():
            logger.info("%s", query.figures.log_line())

    def _ask_lag(self, query: _Query) -> None:
        inputs = query.running.inputs if query.running is not None else query.figures.inputs
        query.figures.inputs = inputs
        if not inputs:  # it never came to ask for its messages
            query.figures.lag = query.figures.behind_s = None
            return
        found = []
        for number, messages in enumerate(inputs):
            reached = query.figures.positions[number] if number < len(query.figures.positions) else None
            try:
                found.append(lag_of(messages, reached))
            except PipelineError as error:
                query.figures.lag = query.figures.behind_s = None
                if not query.is_lag_unknown:  # logged once, not every ten seconds while the reader is down
                    logger.warning("the lag of %s is unknown: %s", query.name, error)
                query.is_lag_unknown = True
                return
        query.is_lag_unknown = False
        query.figures.lag = sum(one.messages for one in found)
        oldest = min((one.oldest for one in found if one.oldest is not None), default=None)
        query.figures.behind_s = max(0.0, round(time.time() - oldest / 1e6, 3)) if oldest is not None else 0.0

    def _new_figures(self, pipeline: Pipeline, name: str) -> QueryFigures:
        figures = QueryFigures(name)
        self._describe(figures, pipeline)
        return figures

    def _describe(self, figures: QueryFigures, pipeline: Pipeline) -> None:
        sink = pipeline.sink(figures.name)
        figures.target = sink.target
        figures.guarantee = str(sink.guarantee)

    def _write_status(self) -> None:
        document = {
            "pid": os.getpid(),
            "started_at": round(self._started_at, 3),
            "reload_error": self._reload_error,
            "queries": [query.figures.to_json() for query in self._queries.values()],
            "side_tables": self._side_tables.to_json(),
        }
        text = json.dumps(document)
        if text == self._status:
            return
        self._status = text
        unfinished = self._settings.checkpoint / f".{STATUS_FILE}.unfinished"
        unfinished.write_text(text)
        unfinished.rename(self._settings.checkpoint / STATUS_FILE)

    def _stop_queries(self) -> None:
        for query in self._queries.values():
            self._stop_query(query)

    def _stop_query(self, query: _Query) -> None:
        self._end_query(query)
        if query.lock is not None:
            query.lock.release()
            query.lock = None

    def _end_query(self, query: _Query) -> None:
        if query.running is None:
            return
        query.running.stop()
        self._take_progress(query, query.running)
        query.figures.inputs = query.running.inputs
        query.running = None
        query.figures.state = FINISHED

"""Where a query begins or goes on. Where one begins is fixed once, so that its first micro-batch is always the same.

Spark asks a source for its beginning again when a query is killed in its first micro-batch. ``latest`` would be later
then, and what came in between would be lost; so it is made an offset, which the checkpoint keeps. A time would not do:
the clocks of nodes differ, and that of one may be set back, so what is stored next may have an earlier time.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from heliograph.pipeline.datasource.endpoints import Endpoints
from heliograph.pipeline.datasource.offsets import Offset, make_offset, offset_positions
from heliograph.pipeline.datasource.options import EARLIEST, LATEST, SourceOptions
from heliograph.pipeline.errors import ReaderRefusedError
from heliograph.pipeline.files.definition import Job, Pipeline
from heliograph.pipeline.running.batch_log import last_commit, read_batch_log
from heliograph.pipeline.running.views import source_options, view_topics


def first_starts(pipeline: Pipeline, job: Job, source: Mapping[str, str]) -> dict[str, str]:
    """Where the views of a query without a checkpoint begin: ``earliest``, a time in microseconds, or an offset."""
    return {view: _start_of(pipeline, view, source) for view in job.views}


def positions_reached(checkpoint: Path) -> list[dict[str, str]]:
    """Where the inputs of a query go on, by its checkpoint; none for a query that has committed no batch."""
    done = last_commit(checkpoint)
    log = read_batch_log(checkpoint, done) if done is not None else None
    return [offset_positions(offset) for offset in log.offsets] if log is not None else []


@contextmanager
def storage_readers(options: Mapping[str, str]) -> Iterator[Endpoints]:
    source = SourceOptions.of(options)
    endpoints = Endpoints(source.endpoints, source.connect, source.database)
    try:
        yield endpoints
    finally:
        endpoints.close()


def newest(options: Mapping[str, str]) -> int | None:
    """The time of the last commit of a database, in microseconds since the epoch; None for an empty one."""
    try:
        with storage_readers(options) as readers:
            return readers.stored_until()
    except ReaderRefusedError:
        return None  # a database appears with its first message


def end_of_stored(pipeline: Pipeline, view: str, source: Mapping[str, str]) -> Offset:
    """The offset behind all messages of a view that are stored now."""
    options = {**source_options(pipeline, view, source), "start": EARLIEST}
    options["topics"] = json.dumps(list(view_topics(pipeline.view(view))))
    try:
        with storage_readers(options) as readers:
            return make_offset(readers.plan(SourceOptions.of(options).selection()).positions(), None)
    except ReaderRefusedError:
        return make_offset({}, None)  # a database appears with its first message


def _start_of(pipeline: Pipeline, view: str, source: Mapping[str, str]) -> str:
    options = source_options(pipeline, view, source)
    text = options.get("start", EARLIEST)
    start = SourceOptions.of({"start": text, "timeZone": options.get("timeZone", "UTC")}).start
    if start == LATEST:
        return json.dumps(end_of_stored(pipeline, view, source))
    return str(start) if isinstance(start, int) else text

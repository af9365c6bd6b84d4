"""Where a query begins that has no checkpoint: fixed once, so that its first micro-batch is always the same.

Spark asks a source for its beginning again when a query is killed in its first micro-batch. ``latest`` would be later
then, and what came in between would be lost; so it is made a time, which the checkpoint keeps.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from heliograph.pipeline.datasource.endpoints import Endpoints
from heliograph.pipeline.datasource.options import EARLIEST, LATEST, SourceOptions
from heliograph.pipeline.errors import ReaderRefusedError
from heliograph.pipeline.files.definition import Job, Pipeline
from heliograph.pipeline.running.views import source_options


def first_starts(pipeline: Pipeline, job: Job, source: Mapping[str, str]) -> dict[str, str]:
    """Where the views of a query without a checkpoint begin: ``earliest``, or microseconds since the epoch, as text."""
    return {view: _start_of(source_options(pipeline, view, source)) for view in job.views}


@contextmanager
def storage_readers(options: Mapping[str, str]) -> Iterator[Endpoints]:
    """Connections to the storage readers that options of the data source name."""
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


def _start_of(options: Mapping[str, str]) -> str:
    text = options.get("start", EARLIEST)
    start = SourceOptions.of({"start": text}).start
    if start == LATEST:
        last = newest(options)
        return EARLIEST if last is None else str(last + 1)
    return str(start) if isinstance(start, int) else text

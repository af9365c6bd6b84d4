"""The connections of a Python worker of Spark to storage readers, which it keeps from task to task.

A task may be done in some milliseconds, and opening and closing a connection takes nine: with the last one, gRPC ends
all its threads.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

from heliograph.pipeline.datasource.client import StorageClient
from heliograph.pipeline.datasource.options import SourceOptions

_KEPT_MAX: Final = 16


class WorkerConnections:
    """The connections of one process; lives as long as it. Tasks of a worker come one after another."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str | None, ...], StorageClient] = {}

    @contextmanager
    def borrowed(self, options: SourceOptions, endpoint: str) -> Iterator[StorageClient]:
        """A connection to a reader for the length of a `with` block, used by this task only.

        It is closed when the block ends with an exception, a read that is not read to its end among them, so the next
        task opens another; otherwise it is kept, in the place of the least recently used one where there are
        many.
        """
        key = (endpoint, options.token, options.tls_ca, options.tls_cert, options.tls_key)
        client = self._kept.pop(key, None) or options.connect(endpoint)
        try:
            yield client
        except BaseException:
            client.close()
            raise
        former = self._kept.pop(key, None)
        self._kept[key] = client
        if former is None and len(self._kept) > _KEPT_MAX:
            former = self._kept.pop(next(iter(self._kept)))
        if former is not None:
            former.close()


@cache
def worker_connections() -> WorkerConnections:
    """The connections of this process."""
    return WorkerConnections()

"""The connections of a Python worker of Spark to storage readers, which it keeps from task to task.

A task may be done in some milliseconds, and opening and closing a connection takes nine: with the last one, gRPC ends
all its threads.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from heliograph.pipeline.datasource.client import StorageClient
from heliograph.pipeline.datasource.options import SourceOptions

_KEPT_MAX: Final = 16

_kept: Final[dict[tuple[str | None, ...], StorageClient]] = {}


@contextmanager
def borrowed(options: SourceOptions, endpoint: str) -> Iterator[StorageClient]:
    """A connection to a reader for the length of a `with` block, which nobody else uses meanwhile.

    It is closed when the block ends with an exception, a read that is not read to its end among them, so the next task
    opens another; otherwise it is kept, in the place of the one that nobody used for longest where there are many.
    """
    key = (endpoint, options.token, options.tls_ca, options.tls_cert, options.tls_key)
    client = _kept.pop(key, None) or options.connect(endpoint)
    try:
        yield client
    except BaseException:
        client.close()
        raise
    former = _kept.pop(key, None)
    _kept[key] = client
    if former is None and len(_kept) > _KEPT_MAX:
        former = _kept.pop(next(iter(_kept)))
    if former is not None:
        former.close()

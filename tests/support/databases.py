"""Databases of messages as tests use them: opened at once, and written to so that each batch is on the disk."""

from collections.abc import Sequence
from pathlib import Path

from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.node_databases import NodeDatabases
from heliograph.storage.interface import Batch, DatabaseOptions, Grouped, StorableMessage


def open_database(data_dir: Path, name: str = "messages", options: DatabaseOptions | None = None) -> LocalDatabase:
    """An open database of the node with this data directory; it is created if it does not exist."""
    database = NodeDatabases(data_dir).database(name, options or DatabaseOptions())
    database.open()
    return database


def store_batch(database: Grouped[StorableMessage], messages: Sequence[StorableMessage]) -> None:
    """Store messages as one commit that waits for the disk, and tell the subscribers.

    Raises:
        StorageError: They were not stored, or may not outlive a power failure.
    """
    database.write(messages)
    request = database.sync_request()
    error: OSError | None = None
    try:
        request.run()
    except OSError as failed:
        error = failed
    database.finish_sync(request, error)
    database.committed()


def numbers_of(database: LocalDatabase, topic_filter: str = "#") -> list[int]:
    """The numbers of the messages that a filter finds: the first halves of their ids, in the order of the streams."""
    found: list[int] = []
    for stream in database.get_streams(topic_filter):
        iterator = database.make_iterator(stream.id, topic_filter)
        while isinstance(batch := database.next(iterator, 100), Batch) and batch.messages:
            found += [one.id_high for one in batch.messages]
            iterator = batch.iterator
    return found

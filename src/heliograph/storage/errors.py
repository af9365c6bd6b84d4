"""What can go wrong in storage, as errors that name the database and the place on disk; nothing here touches a disk.

Every method of a database raises `StorageError` when it is not open, or when the disk refuses; docstrings name the
narrower errors only.
"""

from pathlib import Path
from typing import ClassVar, Final

_OF_THE_NODE: Final = "messages"  # whose repair mends what no database has alone: the site id
GONE: Final = "it was made before, and its directory is gone or empty now"


class StorageError(Exception):
    """A store or a read that could not be done; the message is a sentence for a person.

    Args:
        problem: What happened, in words, with the value or the system's own text.
        path: Where on disk, if it has a place there.
        stream: In which stream (its id as text), if in one.
    """

    code: ClassVar[str] = "storage_failed"
    advice: ClassVar[str] = "Nothing of the refused batch was acknowledged; the next one is tried again."
    reason: ClassVar[str] = "storage failed"  # for clients, which get no details

    def __init__(
        self,
        problem: str,
        *,
        database: str,
        path: Path | None = None,
        shard: int | None = None,
        stream: str | None = None,
    ) -> None:
        self.needed_bytes = 0  # for a full disk: how much must be free before it is tried again
        self.problem = problem
        self.database = database
        self.path = path
        self.shard = shard
        self.stream = stream
        places = [f"database {database!r}"] if database else []
        if shard is not None:
            places.append(f"shard {shard}")
        if stream is not None:
            places.append(f"stream {stream!r}")
        if path is not None:
            places.append(f"in {path}")
        where = f" ({', '.join(places)})" if places else ""
        advice = self.advice.replace("DATABASE", database or _OF_THE_NODE)
        super().__init__(f"{problem}{where}. {advice}")

    def details(self) -> dict[str, object]:
        """What an alarm tells programs of it."""
        details: dict[str, object] = {"code": self.code, "database": self.database, "path": str(self.path or "")}
        return {**details, "needed_bytes": self.needed_bytes} if self.needed_bytes else details


class StorageFullError(StorageError):
    """The disk has no room, or a limit on file sizes was met."""

    code = "storage_full"
    reason = "storage is full"
    advice = "Free some space on that file system; storing resumes by itself."


class StorageReadOnlyError(StorageFullError):
    code = "storage_read_only"
    reason = "storage cannot be written"
    advice = "Make the files writable for the node's user; storing resumes by itself."


class StorageDamagedError(StorageError):
    code = "storage_damaged"
    reason = "storage is damaged"
    advice = (
        "Nothing of it was changed. Stop the node and mend it with `heliograph storage check --repair DATABASE`, which "
        "keeps everything that can be read, or restore it from a copy."
    )


class StorageClosedError(StorageError):
    code = "storage_closed"
    advice = "It is opened when the node starts and closed when it stops."


class StorageBusyError(StorageError):
    """RocksDB asks for a pause because flushes and compactions are behind; the same write succeeds a little later."""

    code = "storage_busy"
    advice = "Wait a moment and write again."


class UnknownLayoutError(StorageError):
    code = "storage_unknown_layout"
    advice = "Read it with the version of Heliograph that wrote it, or with a later one."


class UnknownDatabaseError(StorageError):
    code = "storage_unknown_database"
    advice = "Databases appear when the first message is stored in them."


class UnknownStreamError(StorageError):
    """There is no such stream, or the iterator or position does not belong to one."""

    code = "storage_unknown_stream"
    advice = "Ask for the streams of the topic filter again."


class InvalidFilterError(StorageError):
    """The topic filter is not one."""

    code = "storage_invalid_filter"
    advice = "Write it as in an MQTT subscription, for example 'weather/+/obs' or '#'."


class UnknownGenerationError(StorageError):
    """There is no such generation that could be dropped."""

    code = "storage_unknown_generation"
    advice = "List the generations again; the current one stays."


class PreconditionFailedError(StorageError):
    """What a batch expects to be in the database is not so; nothing of it was stored."""

    code = "storage_precondition_failed"
    advice = "Read again what is there, and decide again."


class DroppedGenerationError(UnknownStreamError):
    """The stream lay in a generation that was dropped, because of its age, its size, or by command."""

    code = "storage_generation_dropped"
    advice = "Go on with the streams of later generations; what the dropped one held is gone."

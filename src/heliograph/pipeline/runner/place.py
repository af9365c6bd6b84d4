"""How far an action is, in the checkpoint that Spark's query of it has too."""

import json
import logging
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from heliograph.pipeline.datasource.offsets import Offset, initial_offset
from heliograph.pipeline.errors import CheckpointInUseError
from heliograph.pipeline.running.batch_log import (
    forget_behind,
    last_commit,
    last_offsets,
    last_whole_offsets,
    read_batch_log,
    write_commit,
    write_offsets,
)
from heliograph.pipeline.running.identity import Identity, new_identity, read_identity, write_identity
from heliograph.storage.durable_files import write_durably

_log = logging.getLogger(__name__)

DATABASE: Final = "messages"
_METADATA: Final = "metadata"  # with the id that Spark has of a query


class ActionPlace:
    """The checkpoint of one action. Owned by the thread that runs it.

    Args:
        start: Says where it begins without one: ``earliest``, microseconds since the epoch, or an offset.
        is_sure: Whether the end of a batch is on the disk before the batch begins.

    Attributes:
        batch: The number of the next batch.
        reached: The offset behind the last batch that is done.
        begun: The end of the next batch where it was begun before, and has to be run again; otherwise None.
    """

    def __init__(self, directory: Path, topic: str, start: Callable[[], str], *, is_sure: bool) -> None:
        self._directory = directory
        self._is_sure = is_sure
        directory.mkdir(parents=True, exist_ok=True)
        identity = read_identity(directory)
        if identity is None or identity.definition is None:
            starts = identity.starts if identity is not None else {directory.name: start()}
            definition = {"sources": {directory.name: {"topics": [topic], "database": DATABASE}}, "state": None}
            made = identity or new_identity(starts)
            identity = Identity(made.id, made.starts, definition)
            write_identity(directory, identity)
        self.owner = identity.id
        if not (directory / _METADATA).exists():
            write_durably(directory / _METADATA, json.dumps({"id": str(uuid.uuid4())}).encode())
        if not is_sure:
            self._leave_out_lost()
        done = last_commit(directory)
        begun = last_offsets(directory)
        self.batch = 0 if done is None else done + 1
        self.reached = initial_offset(next(iter(identity.starts.values()))) if done is None else self._end_of(done)
        self.begun = self._end_of(self.batch) if begun is not None and begun >= self.batch else None

    def begin(self, end: Offset) -> None:
        """Fix the end of the next batch, before anything of it is written."""
        write_offsets(self._directory, self.batch, end, is_sure=self._is_sure)
        self.begun = end

    def extend(self, end: Offset) -> None:
        """Let the batch that was begun end later: for sinks that do not know batches by their numbers."""
        assert not self._is_sure
        self.begin(end)

    def finish(self) -> None:
        """The next batch is at its target."""
        assert self.begun is not None
        write_commit(self._directory, self.batch)
        self.reached, self.begun = self.begun, None
        self.batch += 1

    def _leave_out_lost(self) -> None:
        """Go back to the last batch whose end is known, where a power failure took what was not forced to the disk."""
        newest, done, whole = (last(self._directory) for last in (last_offsets, last_commit, last_whole_offsets))
        if whole is None and done:
            return  # it did not lose its last batches only
        if newest != whole or (done or 0) > (whole or 0):
            _log.warning("%s goes on behind batch %s: the disk has no end of later ones", self._directory.name, whole)
            forget_behind(self._directory, whole)

    def _end_of(self, batch: int) -> Offset:
        log = read_batch_log(self._directory, batch)
        if log is None or not log.offsets or log.offsets[0] is None:
            raise CheckpointInUseError(f"the checkpoint {self._directory} has no offsets of batch {batch}")
        return log.offsets[0]

    def __repr__(self) -> str:
        return f"ActionPlace({self._directory.name!r}, batch {self.batch})"

"""Watches the files of a pipeline for changes, by their content."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from heliograph.pipeline.errors import RuleFileError
from heliograph.pipeline.files.definition import Pipeline
from heliograph.pipeline.files.rulefile import load_pipeline, pipeline_files

_EVERY_S: Final = 2.0


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
        """Read them.

        Raises:
            RuleFileError: Something in one of them is not valid.
        """
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

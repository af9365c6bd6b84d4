"""Which inputs are worth keeping: those that take a step through the code that no smaller one takes."""

import hashlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any, Final

_MEASURED: Final = "heliograph"
_KEPT_BYTES_MAX: Final = 2048

Step = tuple[str, int, int]


class Steps:
    """Notes from which line to which the sources go while an input runs; compiled code cannot be measured."""

    def __init__(self) -> None:
        self._found: set[Step] = set()

    def of(self, run: Callable[[bytes], None], data: bytes) -> set[Step]:
        """The steps that one input takes."""
        self._found = set()
        sys.settrace(self._enter)
        try:
            run(data)
        finally:
            sys.settrace(None)
        return self._found

    def _enter(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event != "call" or _MEASURED not in frame.f_code.co_filename:
            return None
        name, before = f"{frame.f_code.co_filename}:{frame.f_code.co_name}", frame.f_lineno

        def line(inner: FrameType, inner_event: str, _inner_argument: object) -> Any:
            nonlocal before
            if inner_event == "line":
                self._found.add((name, before, inner.f_lineno))
                before = inner.f_lineno
            return line

        return line


def select(run: Callable[[bytes], None], inputs: Iterable[bytes]) -> list[bytes]:
    """The inputs that add a step, smaller ones first."""
    steps = Steps()
    seen: set[Step] = set()
    kept = []
    for data in sorted(set(inputs), key=lambda each: (len(each), each)):
        if len(data) <= _KEPT_BYTES_MAX:
            found = steps.of(run, data)
            if found - seen:
                seen |= found
                kept.append(data)
    return kept


def write(directory: Path, inputs: Iterable[bytes]) -> None:
    """Make the files of a directory these inputs, each named by its content."""
    directory.mkdir(parents=True, exist_ok=True)
    for path in directory.iterdir():
        path.unlink()
    for data in inputs:
        directory.joinpath(hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)

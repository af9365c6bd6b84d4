"""Compiles C files side by side, keeps what that gives under a name made of all that it depends on, and links it.

What is kept is never stale: its name is a hash of the C text, of the commands and their options, and of the versions of
compiler, Python and mypyc. What no build has used for two weeks is deleted.
"""

import contextlib
import filecmp
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_KEPT_S: Final = 14 * 86_400
_COMPILER_BYTES: Final = 200 << 20  # of memory, for the largest module
_MEMORY_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class CompileError(Exception):
    """A C file does not compile, or objects do not link."""


@dataclass(frozen=True)
class Extension:
    """One extension module.

    Attributes:
        name: Its dotted name.
        target: The file that it becomes.
        sources: Its C files, each with the options that it has besides those of all.
    """

    name: str
    target: Path
    sources: Sequence[tuple[Path, tuple[str, ...]]]


class Builder:
    """Compiles and links extension modules.

    Args:
        compiler: The command that compiles a C file, without files.
        linker: The command that links objects to an extension module, without files.
        folder: Where results are kept.
        progress: Called with the numbers of files that are compiled and of all, from any thread.
    """

    def __init__(
        self,
        compiler: Sequence[str],
        linker: Sequence[str],
        folder: Path,
        progress: Callable[[int, int], None] = lambda done, count: None,
    ) -> None:
        self._compiler = [*compiler]
        self._linker = [*linker]
        self._folder = folder
        self._progress = progress
        version = subprocess.run([compiler[0], "--version"], capture_output=True, text=True, check=False).stdout
        self._versions = f"{version} {sys.version} {importlib.metadata.version('mypy')}"
        self._lock = threading.Lock()
        self._done = 0

    def build(self, extensions: Sequence[Extension]) -> None:
        """Bring the targets of all extensions up to date.

        Raises:
            CompileError: A file does not compile. What does is kept for the next build.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        sources = [source for extension in extensions for source in extension.sources]
        # The largest first, so that all processors have work until the end.
        sources.sort(key=lambda source: -source[0].stat().st_size)
        with ThreadPoolExecutor(processes()) as pool:
            futures = [pool.submit(self._compile, path, options, len(sources)) for path, options in sources]
            try:
                objects = {source: future.result() for source, future in zip(sources, futures, strict=True)}
                linked = pool.map(lambda extension: self._link(extension, objects), extensions)
                for extension, library in zip(extensions, linked, strict=True):
                    _copy(library, extension.target)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        self._forget_old()

    def _compile(self, path: Path, options: tuple[str, ...], count: int) -> Path:
        command = [*self._compiler, *options]
        found = self._kept(".o", command, [path.read_bytes()], ["-c", str(path)])
        with self._lock:
            self._done += 1
            self._progress(self._done, count)
        return found

    def _link(self, extension: Extension, objects: dict[tuple[Path, tuple[str, ...]], Path]) -> Path:
        parts = [str(objects[source]) for source in extension.sources]
        return self._kept(".so", self._linker, [part.encode() for part in parts], parts)

    def _kept(self, suffix: str, command: Sequence[str], content: Sequence[bytes], arguments: Sequence[str]) -> Path:
        """What a command makes of its arguments, whose content decides it; made unless it is kept."""
        key = hashlib.sha256("\0".join([self._versions, *command]).encode())
        for part in content:
            key.update(part)
        path = self._folder / f"{key.hexdigest()}{suffix}"
        with contextlib.suppress(FileNotFoundError):
            os.utime(path)
            return path
        with tempfile.NamedTemporaryFile(dir=self._folder, suffix=suffix) as file:
            answer = subprocess.run(
                [*command, *arguments, "-o", file.name], capture_output=True, text=True, check=False
            )
            if answer.returncode != 0:
                raise CompileError(_fault(answer))
            os.link(file.name, path)
        return path

    def _forget_old(self) -> None:
        for path in self._folder.iterdir():
            if path.stat().st_mtime < time.time() - _KEPT_S:
                path.unlink()


def processes() -> int:
    """How many compilers run side by side: one for each processor, as far as the free memory reaches."""
    memory = min(_memory_bytes())
    return max(1, min(len(os.sched_getaffinity(0)), memory // _COMPILER_BYTES))


def _memory_bytes() -> Iterator[int]:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) << 10
    for limit in map(Path, _MEMORY_LIMITS):
        with contextlib.suppress(OSError, ValueError):
            yield int(limit.read_text())


def _fault(answer: "subprocess.CompletedProcess[str]") -> str:
    if answer.returncode < 0 or "Killed" in answer.stderr:
        return f"{answer.args[0]} was killed; it needs up to {_COMPILER_BYTES >> 20} MB of free memory"
    lines = answer.stderr.strip().splitlines()
    return next((line for line in lines if "error" in line), lines[-1] if lines else f"exit code {answer.returncode}")


def _copy(library: Path, target: Path) -> None:
    """Copy it in one step: a process that runs keeps the file that it has opened."""
    if target.is_file() and filecmp.cmp(library, target, shallow=False):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_suffix(".new")
    shutil.copy(library, new)
    new.replace(target)

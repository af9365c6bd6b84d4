"""Makes this checkout ready for a target of make: a virtual environment, packages, compiled modules.

    python3 -m scripts.set_up demo

What is there already stays, so that a second run takes a moment. Packages are installed while modules are compiled, by
uv where it can be had and by pip elsewhere. One process at a time sets a checkout up, and a run that was interrupted is
completed by the next one. With HELIOGRAPH_PURE=1 nothing is compiled.
"""

import argparse
import contextlib
import csv
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from scripts.compiling.sources import BENCH_COMPILED, compiled_sources

ROOT: Final = Path(__file__).resolve().parents[1]
VENV: Final = ROOT / ".venv"
PYTHON: Final = str(VENV / "bin" / "python")
STAMPS: Final = VENV / "set-up"
LOGS: Final = ROOT / "build" / "set-up"
# Extras of pyproject.toml that a target needs; every target has what a broker needs.
EXTRAS: Final[Mapping[str, Sequence[str]]] = {
    "broker": (),
    "demo": ("demo",),
    "test": ("test",),
    "lint": ("lint",),
    "bench": ("bench",),
    "wheel": ("wheel",),
    "fuzz": ("fuzz",),
    "everything": ("dev",),
}
_BUILD_TOOLS: Final = ("setuptools", "wheel", "mypy[mypyc]")
_PIP: Final = (PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", "constraints.txt")
_UV: Final = (
    *("pip", "install", "--quiet", "--python", PYTHON, "-c", "constraints.txt"),
    # PySpark has no wheel. Compressing its 400 MB for the one that is unpacked at once takes longer than all the rest.
    *("--config-settings-package", "pyspark:--build-option=--compression=stored"),
)
# The broker, then the load tool.
_COMPILE: Final = (
    *("sh", "-ec", 'for each in . bench; do cd "$each"; "$0" setup.py --quiet build_ext --inplace; done', PYTHON),
)
_MB: Final = 1 << 20
_FREE_BYTES_MIN: Final = 500 * _MB
_TELL_S: Final = 10.0  # between two lines of progress where the output is no terminal
_STOP_S: Final = 3.0
_JAVA_MIN: Final = 17

_DISK_IS_FULL: Final = re.compile(r"No space left on device|Disk quota exceeded|os error 28")
# What uv and pip say of a package that they cannot get.
_UNREACHABLE: Final = (
    re.compile(r"Failed to (?:download|fetch|build|extract)[^`\n]*`([^`\n]+)`"),
    re.compile(r"No matching distribution found for (\S+)"),
    re.compile(r"[Bb]ecause (\S+) was not found"),
    re.compile(r"Cannot install (\S+?),? (?:and|because)"),  # what pip says where it reaches no index at all
    re.compile(r"HTTPSConnectionPool\([^\n]*url: [^\n]*/([^/\s]+)/ "),
)


class SetUpError(Exception):
    """The checkout cannot be set up; the text says why and what to do."""


class DiskFullError(SetUpError):
    """There is no room for what is to be installed."""


class Step:
    """A program that runs, with a log of its own.

    Args:
        name: What it does, for people.
        command: The program.
        environment: Variables besides those of this process.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self.log = LOGS / f"{name.replace(' ', '-')}.log"
        self.begin = time.monotonic()
        with self.log.open("w") as log:
            # In a group of its own: what it has started ends with it.
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def has_failed(self) -> bool:
        """Whether it has ended with a fault."""
        return self._process.poll() not in (None, 0)

    def text(self) -> str:
        """What it has printed."""
        return self.log.read_text(errors="replace")

    def progress(self) -> str:
        """One short line: its name, how far it is, and for how long it has run."""
        compiled = re.findall(r"^compiled (\d+/\d+)$", self.text(), re.MULTILINE)
        return f"{self.name} {compiled[-1] + ', ' if compiled else ''}{time.monotonic() - self.begin:.0f} s"

    def stop(self) -> None:
        """End it with all that it has started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)


class Steps:
    """Programs that run one after the other or side by side, and one line that says which."""

    def __init__(self) -> None:
        self._running: list[Step] = []
        self._last_line_at = 0.0
        self._is_terminal = sys.stdout.isatty()

    def start(self, name: str, command: Sequence[str], **environment: str) -> Step:
        """Start a program."""
        step = Step(name, command, environment)
        self._running.append(step)
        return step

    def wait(self, step: Step) -> None:
        """Wait until a program has ended, and say meanwhile what runs.

        Raises:
            SetUpError: It has failed.
        """
        while step.is_running():
            self._say(" | ".join(each.progress() for each in self._running if each.is_running()))
            time.sleep(0.1)
        self._running.remove(step)
        if step.has_failed():
            raise _fault(step)
        self._say(f"{step.progress()}: done", is_last=True)

    def stop(self) -> None:
        """End all that run."""
        for step in self._running:
            step.stop()

    def _say(self, line: str, *, is_last: bool = False) -> None:
        if self._is_terminal:
            print(f"\r\033[Kset-up: {line}", end="\n" if is_last else "", flush=True)
        elif is_last or time.monotonic() - self._last_line_at > _TELL_S:
            self._last_line_at = time.monotonic()
            print(f"set-up: {line}", flush=True)


def set_up(targets: Sequence[str]) -> None:
    """Install and compile what is missing.

    Args:
        targets: Keys of `EXTRAS`.

    Raises:
        SetUpError: Something cannot be had.
    """
    is_pure = os.environ.get("HELIOGRAPH_PURE") == "1"
    extras = sorted({extra for target in targets for extra in EXTRAS[target]})
    if extras and not _has_java():
        extras.append("jre")
    stamps = {
        f"packages-{name or 'broker'}": _digest(("pyproject.toml", "bench/pyproject.toml", "constraints.txt"))
        for name in ["", *extras]
    }
    missing = [name for name, digest in stamps.items() if _stamp(name) != digest]
    sources = (*compiled_sources(), *(f"bench/src/heliograph_bench/{module}" for module in BENCH_COMPILED))
    compiled = _digest(("setup.py", "bench/setup.py", "constraints.txt", "scripts/compiling/**/*.[ph]*", *sources))
    has_to_compile = not is_pure and _stamp("compiled") != compiled
    if not missing and not has_to_compile:
        return
    begin = time.monotonic()
    steps = Steps()
    try:
        _make_environment(steps)
        _install(steps, "build tools", _BUILD_TOOLS[: 2 if is_pure else None])
        if has_to_compile:
            compiling = steps.start("compiling", _COMPILE, HELIOGRAPH_PROGRESS="1")
        if missing:
            own = f".[{','.join(extras)}]" if extras else "."
            _install(steps, "packages", ["--no-build-isolation", "-e", own, "-e", "./bench"])
            for name in missing:
                _write_stamp(name, stamps[name])
        (STAMPS / "unfinished").unlink()
        if has_to_compile:
            steps.wait(compiling)
            if why := re.search(r"heliograph: .*installing it uncompiled.*", compiling.text()):
                print(why[0])
            else:
                _write_stamp("compiled", compiled)
    finally:
        steps.stop()
    command = [str(VENV / "bin" / "heliograph"), "--version"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    print(f"set-up: {version} is ready after {time.monotonic() - begin:.0f} s")


def _make_environment(steps: Steps) -> None:
    """Make the virtual environment, or mend what an interrupted run has left of it."""
    free = shutil.disk_usage(ROOT).free
    if free < _FREE_BYTES_MIN:
        raise SetUpError(
            f"{ROOT} has {free // _MB} MB of free disk space, set-up needs at least {_FREE_BYTES_MIN // _MB}: "
            "free some and run make again"
        )
    has_pip = [PYTHON, "-c", "import pip._internal.cli.main"]
    if not Path(PYTHON).exists() or subprocess.run(has_pip, capture_output=True, check=False).returncode != 0:
        steps.wait(steps.start("virtual environment", [sys.executable, "-m", "venv", "--clear", str(VENV)]))
    STAMPS.mkdir(exist_ok=True)
    if (STAMPS / "unfinished").exists():
        for damaged in _damaged_packages():
            shutil.rmtree(damaged)  # without it the package is installed again
    (STAMPS / "unfinished").touch()


def _damaged_packages() -> Iterator[Path]:
    """The metadata of packages of which a file is missing."""
    for metadata in VENV.glob("lib/python3*/site-packages/*.dist-info"):
        record = metadata / "RECORD"
        rows = list(csv.reader(record.read_text().splitlines())) if record.is_file() else []
        if not rows or not all((metadata.parent / row[0]).exists() for row in rows if not row[0].endswith(".pyc")):
            yield metadata


def _install(steps: Steps, name: str, what: Sequence[str]) -> None:
    """Install packages with uv; with pip where uv cannot be had or does not reach what pip is configured for."""
    uv = shutil.which("uv") or str(VENV / "bin" / "uv")
    try:
        if not Path(uv).exists():
            steps.wait(steps.start("uv", [*_PIP, "uv"]))
        cache = Path(os.environ.get("UV_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        variables = {} if _is_writable(cache) else {"UV_CACHE_DIR": str(ROOT / "build" / "uv-cache")}
        try:  # what uv has in its cache needs no network, and no second look at each package of the index
            steps.wait(steps.start(name, [uv, *_UV, "--offline", *what], HELIOGRAPH_PURE="1", **variables))
        except DiskFullError:
            raise
        except SetUpError:
            steps.wait(steps.start(name, [uv, *_UV, *what], HELIOGRAPH_PURE="1", **variables))
    except DiskFullError:
        raise
    except SetUpError:
        steps.wait(steps.start(name, [*_PIP, *what], HELIOGRAPH_PURE="1"))


def _is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder, or it can be made."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK)


def _has_java() -> bool:
    """Whether there is a Java that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        return False
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', answer.stderr)
    return found is not None and int(found[1]) >= _JAVA_MIN


def _digest(patterns: Sequence[str]) -> str:
    """A hash of the files that match."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _stamp(name: str) -> str:
    path = STAMPS / name
    return path.read_text() if path.is_file() else ""


def _write_stamp(name: str, digest: str) -> None:
    (STAMPS / name).write_text(digest)


def _fault(step: Step) -> SetUpError:
    """What a step has failed of, and what to do."""
    text = step.text()
    if _DISK_IS_FULL.search(text):
        return DiskFullError(f"the disk of {ROOT} is full: free some space and run make again, which goes on from here")
    for pattern in _UNREACHABLE:
        if found := pattern.search(text):
            return SetUpError(
                f"cannot get the package {found[1]}: look at the connection to your package index and run make again, "
                f"which goes on from here (details: {step.log})"
            )
    lines = [line for line in text.splitlines() if line.strip()]
    return SetUpError(f"{step.name} failed: {lines[-1].strip() if lines else 'it says nothing'} (details: {step.log})")


@contextlib.contextmanager
def _only_one() -> Iterator[None]:
    """Wait until no other process sets this checkout up, and keep others waiting."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("set-up: another make sets up this checkout; waiting until it has finished", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Set up; 0 if everything is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="*", default=["broker"], help=f"what it is for: {', '.join(EXTRAS)}")
    targets = parser.parse_args().target
    if unknown := set(targets) - set(EXTRAS):
        parser.error(f"unknown target {min(unknown)}; known: {', '.join(EXTRAS)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _only_one():
            set_up(targets)
    except SetUpError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"set-up: {error.strerror}: {error.filename}; mend that and run make again", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up: interrupted; the next make goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

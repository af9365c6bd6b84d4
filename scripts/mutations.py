"""Puts faults back that were mended once, and says whether the tests find them. `make mutations`.

How light may a suite be? As light as it still finds what it found. The files of tests/mutations hold faults of the
product that users met, or could meet, and that were mended: what a user saw, the text that mends it, the text with the
fault, and the tests that find it. Each fault is put into a copy of the tree (uncompiled where it is in a compiled
module), and those tests run there. A fault that they do not find makes the program exit with 1. Run it before and after
tests are merged, moved or dropped, and change the names of tests in the files: a fault that no test finds any more has
lost its proof.

    python scripts/mutations.py                        all of them
    python scripts/mutations.py --only tracing/ queue  those of an area, or with a text in their names
    python scripts/mutations.py --tests tests/access   with other tests than those of the files
    python scripts/mutations.py --unchanged            their tests without the faults: all have to pass

To add one, write `[[fault]]` in the file of its area, with a text that stands once in the source file. A test of the
suite holds that it does; so a change of such a line changes the fault too.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
TABLES: Final = ROOT / "tests/mutations"
COPIES: Final = ROOT / "build/mutations"
LEFT_OUT: Final = ("build", "dist", "*.so", "*.egg-info", ".*_cache")
LIMIT_S: Final = 900.0  # of the tests of one fault, whatever they hang in
WIDTH: Final = 240  # of a line of output
TAIL: Final = 25  # lines of the output of tests that could not run

FOUND: Final = "found"
NOT_FOUND: Final = "NOT FOUND"
BROKEN: Final = "BROKEN"  # its tests did not run, so that nothing is known


@dataclass(frozen=True)
class Edit:
    """A text that stands once in a file, and what stands there with the fault."""

    file: str
    text: str
    fault: str


@dataclass(frozen=True)
class Fault:
    """One fault of the product.

    Attributes:
        name: Its area, which is the name of its file, and its own name.
        seen: What a user saw.
        mended: The commit that mended it.
        tests: Files or ids of tests that find it.
        select: As pytest's `-k`; empty for all of them.
        edits: What puts it back.
    """

    name: str
    seen: str
    mended: str
    tests: tuple[str, ...]
    select: str
    edits: tuple[Edit, ...]


@dataclass
class Outcome:
    """What the tests showed of a fault.

    Attributes:
        state: `FOUND`, `NOT_FOUND` or `BROKEN`.
        by: The test that failed.
        why: The message of its failure.
        seconds: How long the tests took.
        cpu_s: How much CPU time they took.
        output: The lines of their output.
    """

    state: str
    by: str
    why: str
    seconds: float
    cpu_s: float
    output: list[str] = field(default_factory=list)


def faults() -> list[Fault]:
    """Those of the tables, by the names of the files and in their order there."""
    tables = [(file.stem, tomllib.loads(file.read_text())["fault"]) for file in sorted(TABLES.glob("*.toml"))]
    return [_fault(area, entry) for area, entries in tables for entry in entries]


def _fault(area: str, entry: dict[str, object]) -> Fault:
    edits = entry.get("edits", [entry])
    assert isinstance(edits, list)
    return Fault(
        name=f"{area}/{entry['name']}",
        seen=str(entry["seen"]),
        mended=str(entry["mended"]),
        tests=tuple(str(entry["tests"]).split()),
        select=str(entry.get("select", "")),
        edits=tuple(Edit(str(edit["file"]), str(edit["text"]), str(edit["fault"])) for edit in edits),
    )


def misplaced(fault: Fault) -> Iterator[str]:
    """What keeps a fault from being put back: texts that do not stand exactly once in their file."""
    for edit in fault.edits:
        path = ROOT / edit.file
        count = path.read_text().count(edit.text) if path.is_file() else 0
        if count != 1 or edit.text == edit.fault:
            yield f"{fault.name}: {edit.file} has this text {count} times:\n{edit.text}"


class TreeCopy:
    """A copy of the tree in which one fault after the other is put; owned by the program, used by one thread at a time.

    Files are shared with the tree, except those that a fault changes.

    Args:
        path: Where it is made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pid = 0  # of the tests that run
        shutil.copytree(ROOT, path, copy_function=os.link, symlinks=True, ignore=_ignored)
        (path / ".venv").symlink_to(Path(sys.prefix))
        source = str(path / "src")
        self._environment = os.environ | {"PYTHONPATH": source}
        found = self._output(sys.executable, "-c", "import heliograph; print(heliograph.__file__)")
        if not found.startswith(source):
            raise SystemExit(f"tests in {path} would import {found.strip()}")

    def try_out(self, fault: Fault, tests: Sequence[str], *, is_put_back: bool) -> Outcome:
        """Run tests with a fault, or without it."""
        edits = fault.edits if is_put_back else ()
        is_compiled = not any((ROOT / edit.file).parent.glob(f"{Path(edit.file).stem}.*.so") for edit in fault.edits)
        try:
            for edit in edits:
                _replace(self._path / edit.file, edit)
            return self._tested(tests or fault.tests, "" if tests else fault.select, is_compiled=is_compiled)
        finally:
            for edit in edits:
                (self._path / edit.file).unlink()
                os.link(ROOT / edit.file, self._path / edit.file)

    def stop(self) -> None:
        """End the tests that run."""
        if self._pid:
            os.killpg(self._pid, signal.SIGKILL)

    def _tested(self, tests: Sequence[str], select: str, *, is_compiled: bool) -> Outcome:
        command = [sys.executable, "-m", "pytest", "-x", "-m", "not long", "-p", "no:cacheprovider", "-rfE"]
        command += ["-k", select] if select else []
        self._have_compiled(is_compiled)
        began = time.monotonic()
        process = subprocess.Popen(
            [*command, *tests],
            cwd=self._path,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._pid = process.pid
        timer = threading.Timer(LIMIT_S, self.stop)
        timer.start()
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        timer.cancel()
        _, status, usage = os.wait4(process.pid, 0)
        self._pid = 0
        process.returncode = os.waitstatus_to_exitcode(status)
        by = next((found[1] for line in lines if (found := re.match(r"(?:FAILED|ERROR) (\S+)", line))), "")
        state = {0: NOT_FOUND, 1: FOUND}.get(process.returncode, BROKEN)
        if any("Timeout (" in line for line in lines) and state == BROKEN:  # the watchdog has ended a test that hung
            state, by = FOUND, by or "a test that hangs"
        why = next((line[1:].strip() for line in lines if line.startswith("E  ")), "")
        return Outcome(state, by, why, time.monotonic() - began, usage.ru_utime + usage.ru_stime, lines)

    def _have_compiled(self, is_wanted: bool) -> None:
        """All compiled modules are one unit: there are all of them, or none."""
        for path in (ROOT / "src").rglob("*.so"):
            copy = self._path / path.relative_to(ROOT)
            copy.unlink(missing_ok=True)
            if is_wanted:
                os.link(path, copy)

    def _output(self, *command: str) -> str:
        return subprocess.run(command, cwd=self._path, env=self._environment, capture_output=True, text=True).stdout


def _ignored(folder: str, names: list[str]) -> set[str]:
    found = set(shutil.ignore_patterns(*LEFT_OUT)(folder, names))
    return found | ({".venv", ".git"} if folder == str(ROOT) else set())


def _replace(path: Path, edit: Edit) -> None:
    text = path.read_text()
    if text.count(edit.text) != 1:
        raise SystemExit(f"{edit.file} has this text {text.count(edit.text)} times:\n{edit.text}")
    path.unlink()  # the tree has the same file
    path.write_text(text.replace(edit.text, edit.fault))


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description="Puts mended faults back and says whether tests find them.")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="TEXT", help="faults with one of these in their names"
    )
    parser.add_argument("--tests", nargs="+", default=[], metavar="PATH", help="other tests than those of the tables")
    parser.add_argument(
        "--unchanged", action="store_true", help="run their tests without the faults; they have to pass"
    )
    parser.add_argument("--jobs", type=int, default=2, help="faults at a time (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="print the names, what users saw, and the tests")
    args = parser.parse_args()
    wanted = [fault for fault in faults() if any(text in fault.name for text in args.only)]
    if args.list:
        for fault in wanted:
            print(
                f"{fault.name} ({fault.mended})\n    {fault.seen}\n    {' '.join(fault.tests)} {fault.select}".rstrip()
            )
        return 0
    if wrong := [problem for fault in wanted for problem in misplaced(fault)]:
        print("\n".join(wrong))
        return 1
    expected = NOT_FOUND if args.unchanged else FOUND
    return _report(_outcomes(wanted, args.tests, args.jobs, is_put_back=not args.unchanged), len(wanted), expected)


def _outcomes(
    wanted: Sequence[Fault], tests: Sequence[str], jobs: int, *, is_put_back: bool
) -> Iterator[tuple[Fault, Outcome]]:
    """What became of each, in their order; copies of the tree are made for as many jobs as there are."""
    COPIES.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=COPIES))
    copies = [TreeCopy(folder / str(number)) for number in range(min(jobs, len(wanted)))]
    free: SimpleQueue[TreeCopy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def tried(fault: Fault) -> Outcome:
        copy = free.get()
        try:
            return copy.try_out(fault, tests, is_put_back=is_put_back)
        finally:
            free.put(copy)

    try:
        with ThreadPoolExecutor(jobs) as pool:
            try:
                yield from zip(wanted, pool.map(tried, wanted), strict=True)
            except BaseException:  # Ctrl-C, which the tests do not get: they have a session of their own
                for copy in copies:
                    copy.stop()
                raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _report(outcomes: Iterator[tuple[Fault, Outcome]], count: int, expected: str) -> int:
    good, cpu_s = 0, 0.0
    for fault, outcome in outcomes:
        cpu_s += outcome.cpu_s
        good += outcome.state == expected
        passes = {NOT_FOUND: "passes", FOUND: "FAILS"}.get(outcome.state, outcome.state)
        shown = outcome.state if expected == FOUND else passes
        print(f"{shown:9} {outcome.seconds:6.1f} s {outcome.cpu_s:6.1f} s CPU  {fault.name}", flush=True)
        if outcome.by:
            print(f"{'':30}{outcome.by}: {outcome.why}"[:WIDTH], flush=True)
        if outcome.state == BROKEN or (expected == NOT_FOUND and outcome.state == FOUND):
            print("\n".join(f"    {line}" for line in outcome.output[-TAIL:]), flush=True)
    done = "are found" if expected == FOUND else "have tests that pass without them"
    print(f"{good} of {count} faults {done}; {cpu_s:.0f} s of CPU time")
    return 0 if good == count else 1


if __name__ == "__main__":
    sys.exit(main())

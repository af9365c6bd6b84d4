"""Processes that bring batches to a target and die at each step of it, as by `kill -9`; for the tests of sinks.

`ends_of` starts a program of the tests, which calls `bring_each`. Each process brings one batch and is forked from that
program, which has imported everything and started nothing, so that a step takes no more than its own work.
"""

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

TESTS: Final = Path(__file__).parents[1]

#: The step of a process that does not die.
NEVER: Final = "never"

KILLED: Final = -signal.SIGKILL


#: What a table holds after the batches of `write_batches`, in each output mode; the key is the station.
EXPECTED: Final = {
    "append": [("EWR", 2), ("JFK", 1), ("JFK", 3), ("LGA", 4)],
    "update": [("EWR", 2), ("JFK", 3), ("LGA", 4)],
    "complete": [("JFK", 3), ("LGA", 4)],
}


def write_batches(directory: Path) -> list[str]:
    """Two batches as Parquet files."""
    files = []
    for number, rows in enumerate(([("JFK", 1), ("EWR", 2)], [("JFK", 3), ("LGA", 4)])):
        files.append(str(directory / f"{number}.parquet"))
        columns = [list(column) for column in zip(*rows, strict=True)]
        pq.write_table(pa.table(columns, ["station", "n"]), files[-1])
    return files


def ends_of(module: str, *arguments: str) -> dict[tuple[str, int, str], int]:
    """Run a program of the tests; the exit code of each process by name, number of the batch and step."""
    command = [sys.executable, "-m", module, *arguments]
    ended = subprocess.run(command, cwd=TESTS, env=os.environ, capture_output=True, text=True, timeout=280, check=True)
    sys.stderr.write(ended.stderr)  # for who reads why a test failed
    return {(name, number, step): code for name, number, step, code in json.loads(ended.stdout)}


def bring_each(
    batches: Sequence[Path], names: Mapping[str, Sequence[str]], bring: Callable[[str, Path, int, str], None]
) -> None:
    """Bring each batch by a process for each step, and print how these ended.

    Args:
        batches: The rows of each batch.
        names: What `bring` knows a target by, with the steps at which processes die before one does not.
        bring: Called with the name, the rows, the number of the batch and the step.
    """
    ends = []
    for name, steps in names.items():
        for number, file in enumerate(batches):
            for step in (*steps, NEVER):
                ends.append([name, number, step, _ended(lambda: bring(name, file, number, step))])  # noqa: B023
    sys.stdout.write(json.dumps(ends))


def die_at(step: str, here: str) -> None:
    """End this process if it is to die here."""
    if step == here:
        die()


def die(*_: object) -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def assert_died(ends: Mapping[tuple[str, int, str], int]) -> None:
    """Each process died where it was to, or not at all if it was not to."""
    for (name, number, step), code in ends.items():
        assert code == (0 if step == NEVER else KILLED), (name, number, step)


def _ended(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 (whatever it is, this process goes no further)
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)

"""Kills a broker again and again under load, has its disk fail, and judges what its clients saw. `make crash`.

    python scripts/crash.py                      120 kills, half of them power failures, with disk faults
    python scripts/crash.py --kills 1000 --seed 7
    python scripts/crash.py --no-faults --no-power
    python scripts/crash.py --keep DIR           leave configuration, data and log there

It prints counts and every broken promise; the exit code is 1 if there is one, and 2 if a run cannot be made here. A
seed shows the same choices again: how each life of the broker ends, when its disk fails, what each client does.
"""

import argparse
import asyncio
import importlib
import sys
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
_SHOWN_MAX: Final = 20


def main() -> int:
    """The exit code: 1 if a promise was broken, 2 if a run cannot be made here."""
    options = _parser().parse_args()
    sys.path[0] = str(ROOT / "tests")  # instead of this directory, where `crash` would be this file
    with tempfile.TemporaryDirectory(prefix="heliograph-crash-") as scratch:
        directory = options.keep or Path(scratch)
        found = [_storm(directory / "storm", options)]
        if options.full_disk:
            found.append(_full_disk(directory / "full-disk", options))
    return max(found)


def _storm(directory: Path, options: argparse.Namespace) -> int:
    storm, layer = importlib.import_module("crash.storm"), importlib.import_module("crash.fault_layer")
    names = ("seed", "faults", "start_faults", "power", "groups", "retained", "fsync")
    plan = storm.Plan(options.kills, **{name: getattr(options, name) for name in names})
    print(f"seed {plan.seed}: {plan.kills} kills in {directory}", flush=True)
    return _run(directory, storm.storm(directory, plan, lambda line: print(line, flush=True)), layer.FaultLayerError)


def _full_disk(directory: Path, options: argparse.Namespace) -> int:
    full_disk = importlib.import_module("crash.full_disk")
    plan = full_disk.FullDiskPlan(options.seed, retained=options.retained)
    print(f"seed {plan.seed}: a disk that fills up in {directory}", flush=True)
    return _run(directory, full_disk.fill_a_disk(directory, plan), full_disk.NoFileSystemError)


def _run(directory: Path, run: Coroutine[Any, Any, Any], impossible: type[Exception]) -> int:
    directory.mkdir(parents=True)
    began = time.monotonic()
    try:
        outcome = asyncio.run(run)
    except impossible as error:
        print(f"skipped: {error}")
        return 2
    print(f"after {time.monotonic() - began:.0f} s\n{outcome.summary()}", flush=True)
    for violation in outcome.violations[:_SHOWN_MAX]:
        print(violation, file=sys.stderr)
    return 1 if outcome.violations else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--kills", type=int, default=120, help="how often the broker is killed")
    parser.add_argument("--seed", type=int, default=1, help="what every choice begins with")
    parser.add_argument("--keep", type=Path, help="a directory for the node's files, which stay")
    for name, default, what in (
        ("faults", True, "writes and syncs that fail"),
        ("start-faults", True, "and such while the broker starts"),
        ("power", True, "kills that take what was not synced"),
        ("full-disk", True, "afterwards, a run on a small file system that fills up (root only)"),
        ("groups", True, "shared groups"),
        ("retained", True, "retained messages that outlive the broker"),
        ("fsync", True, "the broker syncs what it acknowledges; without, power failures must be found out"),
    ):
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, default=default, help=what)
    return parser


if __name__ == "__main__":
    sys.exit(main())

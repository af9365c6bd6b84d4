"""Simulates brokers with clients, faults and crashes on machines that exist only in memory. `make sim`.

    python scripts/sim.py                        10,000 seeds, as many at a time as there are processors
    python scripts/sim.py --seeds 500 --first 0
    python scripts/sim.py --seed 4711            that one again, with all that happened in it
    python scripts/sim.py --mutation ?           the orders that can be broken on purpose
    python scripts/sim.py --mutation NAME        how many seeds it takes to find that

The code is the production code, uncompiled; a seed decides everything (see docs/simulation.md). It prints what was
simulated, and each seed that found something; it exits with 1 if one did.
"""

import argparse
import importlib
import multiprocessing
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
_CHUNK: Final = 10
_FOUND_MAX: Final = 10
_TRACE_SHOWN: Final = 40

Found = tuple[int, str, list[str]]


def main() -> int:
    """The exit code: 1 if a seed found something."""
    options = _parser().parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0" or os.environ.get("HELIOGRAPH_PURE") != "1":
        # Sets of texts are walked in another order in every process unless a seed is set.
        os.environ.update(PYTHONHASHSEED="0", HELIOGRAPH_PURE="1")
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if options.mutation == "?":
        _import()
        print("\n".join(importlib.import_module("sim.mutations").MUTATIONS))
        return 0
    if options.seed is not None:
        return _replay(options.seed, options.mutation)
    return _run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=10_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first")
    parser.add_argument("--seed", type=int, help="run this one and tell what happened")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--mutation", help="an order to break on purpose; ? lists them")
    return parser


def _import() -> Any:
    """The package of simulations; instead of this directory, where `sim` would be this file."""
    sys.path[0] = str(ROOT / "tests")
    return importlib.import_module("sim.world")


def _mutated(name: str | None) -> Any:
    return nullcontext() if name is None else importlib.import_module("sim.mutations").mutated(name)


def _replay(seed: int, mutation: str | None) -> int:
    world = _import()
    world.remember_everything()
    try:
        with _mutated(mutation):
            print(world.run(seed, world.scratch_dir()))
    except world.Failure as failure:
        print("\n".join(failure.events))
        print(failure)
        return 1
    finally:
        shutil.rmtree(world.scratch_dir(), ignore_errors=True)
    return 0


def _run(options: argparse.Namespace) -> int:
    began, last = time.monotonic(), options.first + options.seeds
    chunks = [
        (range(first, min(first + _CHUNK, last)), options.mutation) for first in range(options.first, last, _CHUNK)
    ]
    totals: Counter[str] = Counter()
    found: list[Found] = []
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for counts, failures in pool.imap_unordered(_simulate, chunks):
            totals.update(counts)
            found += failures
            for seed, reason, events in failures:
                print("\n".join(events[-_TRACE_SHOWN:]))
                print(f"seed {seed}: {reason}\n(again, with everything: scripts/sim.py --seed {seed})\n", flush=True)
            if len(found) >= _FOUND_MAX or (found and options.mutation):
                break
    numbers = ", ".join(f"{number:,} {name}" for name, number in totals.items() if name != "seeds")
    print(f"{totals['seeds']:,} seeds in {time.monotonic() - began:,.0f} s: {numbers}")
    print(f"{len(found)} seeds found something" if found else "nothing found")
    return 1 if found else 0


def _simulate(chunk: tuple[range, str | None]) -> tuple[Counter[str], list[Found]]:
    """Some seeds, in a process of a pool."""
    seeds, mutation = chunk
    world = _import()
    with _mutated(mutation):
        return _outcomes(world, seeds)


def _outcomes(world: Any, seeds: range) -> tuple[Counter[str], list[Found]]:
    counts: Counter[str] = Counter()
    failures: list[Found] = []
    for outcome in _each(world, seeds):
        counts["seeds"] += 1
        if isinstance(outcome, world.Failure):
            failures.append((outcome.seed, outcome.reason, outcome.events))
        else:
            counts.update(outcome.summary())
    shutil.rmtree(world.scratch_dir(), ignore_errors=True)
    return counts, failures


def _each(world: Any, seeds: range) -> Iterator[Any]:
    for seed in seeds:
        try:
            yield world.run(seed, world.scratch_dir())
        except world.Failure as failure:
            yield failure


if __name__ == "__main__":
    sys.exit(main())

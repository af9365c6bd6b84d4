"""The canonical benchmarks: Heliograph, and mosquitto beside it where it is installed, in one run on one machine.

`python benchmarks/run.py` (or `make bench`) needs no options. What each line means stands in docs/benchmarks.md.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import brokers, load, table
from benchmarks.checkout import checkout
from benchmarks.figures import FIGURES, Bench, Outcome
from benchmarks.findings import checked, machine

OUTPUT = Path("bench-output")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    args = _options(argv)
    brokers.allow_open_files()  # brokers and load inherit it
    peer = brokers.mosquitto_program() is not None and not args.no_peer
    broker_core, load_core = brokers.cores()
    before = None if args.before is None else brokers.another_tree(checkout(args.before, OUTPUT))
    began = time.monotonic()
    OUTPUT.mkdir(exist_ok=True)
    # Not in the system's folder for temporary files, which may be memory: fsync must mean a disk.
    with tempfile.TemporaryDirectory(dir=OUTPUT) as folder, load.built(args.mqload) as mqload:
        generator = load.Generator(args.seconds, load_core, mqload if args.generator == "mqload" else None)
        bench = Bench(Path(folder), generator, args.runs, broker_core, peer, before, _say)
        outcomes = [bench.measure(figure) for figure in FIGURES if not args.only or figure.name in args.only]
    conditions = _conditions(args, generator.name, peer)
    rows, notes = table.rows(outcomes), [note for outcome in outcomes for note in table.notes(outcome)]
    print(table.text(rows, conditions, notes))
    if args.write is not None:
        table.write_into(args.write, "run", rows, conditions, notes)
    _say(f"measured in {time.monotonic() - began:.0f} s")
    if args.json is not None:
        args.json.write_text(json.dumps(_as_dict(outcomes, conditions), indent=2) + "\n")
    missed = [outcome.figure.title for outcome in outcomes if outcome.met is False]
    missed += [f"{outcome.figure.title}: worse than before" for outcome in outcomes if outcome.is_worse]
    return 1 if any(outcome.failure for outcome in outcomes) else checked(args.check, missed)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [figure.name for figure in FIGURES]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"these alone: {', '.join(names)}")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a run (default: %(default)g)")
    parser.add_argument(
        "--runs", type=int, default=3, help="runs of a figure; the median counts (default: %(default)s)"
    )
    parser.add_argument("--generator", choices=("bench", "mqload"), default="bench", help="what makes the load")
    mqload = os.environ.get("HELIOGRAPH_MQLOAD")
    parser.add_argument(
        "--mqload", type=Path, default=Path(mqload) if mqload else None, help="the program, or its .c file for cc"
    )
    parser.add_argument(
        "--before",
        nargs="?",
        const="HEAD~1",
        metavar="REVISION|DIR",
        help="measure the broker of another commit too (default: HEAD~1), or of a checkout that is compiled",
    )
    parser.add_argument("--no-peer", action="store_true", help="leave mosquitto out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all runs there too")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into docs/benchmarks.md")
    parser.add_argument(
        "--check", action="store_true", help="exit 1 if a target is missed, or more CPU used than before"
    )
    args = parser.parse_args(argv)
    if args.generator == "mqload" and args.mqload is None:
        parser.error("--generator mqload needs --mqload PATH, or HELIOGRAPH_MQLOAD")
    return args


def _conditions(args: argparse.Namespace, generator: str, peer: bool) -> str:
    missing = "" if peer or args.no_peer else "; mosquitto is not installed, so nothing is compared"
    here = machine()
    return (
        f"{here}, Python {platform.python_version()}; "
        f"median of {args.runs} runs of {args.seconds:g} s, load by {generator}, 64-byte payloads, MQTT 3.1.1{missing}"
    )


def _as_dict(outcomes: list[Outcome], conditions: str) -> dict[str, object]:
    return {
        "conditions": conditions,
        "figures": {
            outcome.figure.name: {
                "title": outcome.figure.title,
                "target": outcome.figure.target,
                "ratio": outcome.ratio,
                "ratio_per_broker_cpu": outcome.ratio_per_cpu,
                "met": outcome.met,
                "failure": outcome.failure,
                "values": outcome.values,
                "runs": {kind: [asdict(run) for run in runs] for kind, runs in outcome.runs.items()},
            }
            for outcome in outcomes
        },
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

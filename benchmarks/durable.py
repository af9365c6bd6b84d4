"""The benchmarks of durability: ingest, delivery, replay, sessions that are away, restarts, disk; and peers that store.

`python benchmarks/durable.py` needs no options. What each line means stands in docs/benchmarks.md.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import brokers, durable_rates, durable_sizes
from benchmarks.brokers import BrokerError
from benchmarks.durable_load import Stand
from benchmarks.findings import Finding, add_report_options, machine, report
from benchmarks.load import Generator, LoadError
from benchmarks.peers import PeerError

OUTPUT: Final = Path("bench-output")

CASES: Final[dict[str, Callable[[Stand], Iterator[Finding]]]] = {
    "ingest": durable_rates.ingest,
    "peers": durable_rates.peers,
    "head": durable_rates.head,
    "shared": durable_rates.shared,
    "replay": durable_sizes.replay,
    "sparse": durable_sizes.sparse,
    "away": durable_sizes.away,
    "restart": durable_sizes.restart,
    "disk": durable_sizes.disk,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    args = _options(argv)
    brokers.allow_open_files()
    broker_core, load_core = brokers.own_core()
    OUTPUT.mkdir(exist_ok=True)
    findings: list[Finding] = []
    notes: list[str] = []
    generator = Generator(args.seconds, load_core)
    for name in args.only or CASES:
        began = time.monotonic()
        # Not in the system's folder for temporary files, which may be memory: fsync must mean a disk.
        with tempfile.TemporaryDirectory(dir=OUTPUT) as folder:
            stand = Stand(Path(folder), generator, broker_core, args.long, args.runs, args.divisor, _say)
            try:
                for finding in CASES[name](stand):
                    findings.append(finding)
                    _say("  ".join(finding.row()))
            except (BrokerError, PeerError, LoadError, OSError) as error:
                notes.append(f"{name}: FAILED: {error}")
                _say(notes[-1])
        _say(f"{name}: {time.monotonic() - began:.0f} s")
    return _report(args, findings, notes)


def _report(args: argparse.Namespace, findings: list[Finding], notes: list[str]) -> int:
    here = machine()
    conditions = f"{here}, rates: median of {args.runs} runs of {args.seconds:g} s, fsync on unless said"
    if args.divisor > 1:
        notes.append(f"counts were divided by {args.divisor}: these are no figures")
    return report(args, "durable", "beside", findings, conditions, notes)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(CASES), metavar="NAME", help=f"these: {', '.join(CASES)}")
    parser.add_argument("--long", action="store_true", help="ten million messages and 100,000 sessions, not a tenth")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a run (default: %(default)g)")
    parser.add_argument("--runs", type=int, default=3, help="runs of a rate; the median counts (default: %(default)s)")
    parser.add_argument("--divisor", type=int, default=1, help="divide all counts, to try the programs out")
    add_report_options(parser)
    return parser.parse_args(argv)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

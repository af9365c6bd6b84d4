"""`make kills`: the lake of the weather example while its driver, Spark workers and broker are killed at random.

Ends with 0 when every Delta and PostgreSQL table equals the one that pandas computes of the same data, with 1 when one
differs, and with 2 when it is asked for what cannot be.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from pipeline_kills.world import World, days_max, kills_max

_KILLS = 10


def main() -> int:
    """Run once, or as often as asked for; the exit code."""
    args = _read_arguments()
    failed = 0
    for number in range(args.runs):
        seed = random.randrange(1 << 32) if args.seed is None else args.seed + number
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="heliograph-kills-", ignore_cleanup_errors=True) as directory:
            outcome = World(Path(directory), seed=seed, days=args.days, kills=args.kills).run()
        print(f"seed {seed}: {outcome.text()} ({time.monotonic() - begin:.0f} s)", flush=True)
        failed += bool(outcome.differences)
    return 1 if failed else 0


def _read_arguments() -> argparse.Namespace:
    most = days_max()
    parser = argparse.ArgumentParser(prog="kills", description=__doc__)
    parser.add_argument("--kills", type=_count, default=_KILLS, help=f"how many kills in a run ({_KILLS})")
    parser.add_argument(
        "--days", type=_count, default=most, help=f"how many days of weather are published (all that there are: {most})"
    )
    parser.add_argument("--runs", type=_count, default=1, help="how many runs (1)")
    parser.add_argument("--seed", type=int, help="what is killed when; another one for each run without it")
    args = parser.parse_args()
    if args.days > most:
        parser.error(f"argument --days: {args.days}: the data has {most} days")
    if args.kills > kills_max(args.days):
        parser.error(
            f"argument --kills: {args.kills}: {args.days} days of weather have room for {kills_max(args.days)} kills"
        )
    return args


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())

"""`make kills`: the lake of the weather example while its driver, Spark workers and broker are killed at random.

Ends with 0 when every Delta and PostgreSQL table equals the one that pandas computes of the same data.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from pipeline_kills.world import World


def main() -> int:
    """Run once, or as often as asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="how many kills in a run (10)")
    parser.add_argument("--days", type=int, default=365, help="how many days of weather are published (365)")
    parser.add_argument("--runs", type=int, default=1, help="how many runs (1)")
    parser.add_argument("--seed", type=int, help="what is killed when; another one for each run without it")
    args = parser.parse_args()
    failed = 0
    for number in range(args.runs):
        seed = random.randrange(1 << 32) if args.seed is None else args.seed + number
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="heliograph-kills-", ignore_cleanup_errors=True) as directory:
            outcome = World(Path(directory), seed=seed, days=args.days, kills=args.kills).run()
        print(f"seed {seed}: {outcome.text()} ({time.monotonic() - begin:.0f} s)", flush=True)
        failed += bool(outcome.differences)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""`make kills-actions`: actions without Spark while their runner, the node and their targets are killed at random.

Ends with 0 when every target has what the guarantee of its sink says, and no position went back, with 1 otherwise. With
`--changes` the engine of the actions changes to Spark and back, too.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from pipeline_kills.action_targets import TARGETS
from pipeline_kills.actions import KILLED, ActionsWorld

_KILLS = 50


def main() -> int:
    """Run once, or as often as asked for; the exit code."""
    args = _read_arguments()
    failed = 0
    for number in range(args.runs):
        seed = random.randrange(1 << 32) if args.seed is None else args.seed + number
        print(f"seed {seed}", flush=True)
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="heliograph-kills-", ignore_cleanup_errors=True) as directory:
            kills = dict.fromkeys(KILLED, args.kills)
            kills_s = float("inf") if args.minutes is None else args.minutes * 60.0
            world = ActionsWorld(
                Path(directory), seed=seed, kills=kills, targets=args.targets, changes=args.changes, kills_s=kills_s
            )
            outcome = world.run()
        print(f"seed {seed}: {outcome.text()} ({time.monotonic() - begin:.0f} s)", flush=True)
        failed += bool(outcome.faults)
    return 1 if failed else 0


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kills_actions", description=__doc__)
    parser.add_argument("--kills", type=int, default=_KILLS, help=f"how many kills of each kind ({_KILLS})")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS), help="which targets (all)")
    parser.add_argument("--changes", type=int, default=0, help="how often the engine changes; needs Spark (0)")
    parser.add_argument("--minutes", type=float, help="minutes after which a run ends its kills")
    parser.add_argument("--runs", type=int, default=1, help="how many runs (1)")
    parser.add_argument("--seed", type=int, help="what is killed when; another one for each run without it")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

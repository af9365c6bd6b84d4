"""Takes the steps at which strangers stumbled, on a broker of its own, and prints what each finds.

    python scripts/strangers.py           every step
    python scripts/strangers.py --list

The steps are in `tests/strangers/steps.py`; `make test` takes them too. The exit code is 1 if one of them fails.
"""

import argparse
import importlib
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def main() -> int:
    """The exit code: 1 if a step fails."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--list", action="store_true", help="print what there is")
    options = parser.parse_args()
    sys.path[0] = str(ROOT / "tests")  # instead of this directory, where `strangers` would be this file
    steps = importlib.import_module("strangers.steps")
    if options.list:
        print(*steps.STEPS, sep="\n")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as directory, steps.prepare(Path(directory)) as node:
        place = steps.Place(node, Path(directory))
        steps.add_users(place)
        for what, take in steps.STEPS.items():
            try:
                take(place)
            except AssertionError as error:
                failed += 1
                print(f"FAILED  {what}\n        {error}", flush=True)
            else:
                print(f"ok      {what}", flush=True)
    print(f"{len(steps.STEPS) - failed} of {len(steps.STEPS)} steps")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

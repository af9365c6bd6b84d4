"""Runs the tests with four times as many workers as cores, and `stress-ng` beside them. `make test-stress` calls it.

    python scripts/stress_tests.py [--runs 3] [PYTEST'S ARGUMENT...]

What fails here, and not in a quiet run, waits for a clock where it should wait for an event: docs/testing.md says how
that is mended. The exit code is 1 if a run fails, and 2 where stress-ng is missing.
"""

import argparse
import os
import shutil
import subprocess
import sys
from typing import Final

_WORKERS_PER_CORE: Final = 4
_LIMIT_S: Final = 900  # of a test: where it hangs, not where it is slow


def main() -> int:
    """Run the tests some times; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="how many times (default: 3)")
    options, arguments = parser.parse_known_args()
    if shutil.which("stress-ng") is None:
        print("stress-ng is not installed (on Debian: apt install stress-ng)", file=sys.stderr)
        return 2
    cores = len(os.sched_getaffinity(0))
    tests = [
        sys.executable,
        "-m",
        "pytest",
        f"--workers={_WORKERS_PER_CORE * cores}",
        "--timeout",
        str(_LIMIT_S),
        *arguments,
    ]
    failed = [number for number in range(1, options.runs + 1) if not _passes(number, tests, cores)]
    print(f"{options.runs - len(failed)} of {options.runs} stressed runs passed", flush=True)
    return 1 if failed else 0


def _passes(number: int, tests: list[str], cores: int) -> bool:
    """Whether the tests pass while other programs want every core."""
    print(f"stressed run {number}", flush=True)
    stress = subprocess.Popen(["stress-ng", "--quiet", "--cpu", str(cores), "--io", "1"])
    try:
        return subprocess.run(tests, check=False).returncode == 0
    finally:
        stress.terminate()
        stress.wait()


if __name__ == "__main__":
    sys.exit(main())

"""Attacks a broker in every way that is known to have stopped one, and measures what a victim notices. `make attack`.

    python scripts/attack.py                       every attack, some 10 s each
    python scripts/attack.py --only user_properties --only plus_explosion
    python scripts/attack.py --short               smaller and shorter
    python scripts/attack.py --list

Each attack has a broker of its own with default settings, and comes from a process of its own. The victim is a pair of
clients in a third process; its round trips are measured before and during the attack. An attack is met if the victim's
p99 is at most five times the idle one or 25 ms, whichever is more, and what memory the broker gained is within the
bound that the attack has. Attacks on the HTTP API have a node with its management process, and the victim is an
administrator with `GET /nodes`: each answer comes within a second. The exit code is 1 if one is not met.
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Final

_SOAK_MIB: Final = 512
ROOT: Final = Path(__file__).resolve().parents[1]


def main() -> int:
    """The exit code: 1 if an attack is not met."""
    options = _parser().parse_args()
    sys.path[0] = str(ROOT / "tests")  # instead of this directory, where `attack` would be this file
    importlib.import_module("attack.kinds")
    frame, trial = importlib.import_module("attack.frame"), importlib.import_module("attack.trial")
    if options.list:
        for attack in (*frame.ATTACKS.values(), *frame.API_ATTACKS.values()):
            print(f"{attack.name:24} {attack.what}")
        return 0
    seconds = options.seconds or (2.0 if options.short else 6.0)
    unmet = 0
    for attacks, trials in ((frame.ATTACKS, trial), (frame.API_ATTACKS, importlib.import_module("attack.api_trial"))):
        names = [name for name in options.only or attacks if name in attacks]
        if names:
            print(trials.HEADING, flush=True)
        for name in names:
            verdict = trials.run(attacks[name], seconds, is_short=options.short)
            print(verdict.row(), flush=True)
            unmet += not verdict.is_met
    if not options.only:
        soak = importlib.import_module("attack.soak").run(20 * seconds, _SOAK_MIB)
        print(f"every memory attack at once, node.memory_limit = {_SOAK_MIB}MB\n{soak.summary()}", flush=True)
        unmet += soak.most_mib >= _SOAK_MIB
    return 1 if unmet else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--only", action="append", help="an attack by its name (--list); may be given more than once")
    parser.add_argument("--short", action="store_true", help="smaller attacks, measured for 2 s")
    parser.add_argument("--seconds", type=float, help="how long to measure before and during an attack")
    parser.add_argument("--list", action="store_true", help="print what there is")
    return parser


if __name__ == "__main__":
    sys.exit(main())

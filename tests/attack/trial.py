"""One attack on a fresh broker: the victim's round trips before and during it, the broker's memory, the verdict."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from attack.frame import Attack
from support.process import NodeProcess

TESTS: Final = Path(__file__).resolve().parents[1]
_IDLE_FACTOR: Final = 5
_WARM_S: Final = 0.5
_MIB: Final = 1 << 20


@dataclass(frozen=True)
class Verdict:
    """What one attack did.

    Attributes:
        idle_ms: The victim's p50 and p99 before it,
        attacked_ms: and during it.
        trips_count: Round trips that the latter come from.
        growth_mib: What the broker's resident memory gained.
    """

    attack: Attack
    idle_ms: tuple[float, float]
    attacked_ms: tuple[float, float]
    trips_count: int
    growth_mib: float

    @property
    def limit_ms(self) -> float:
        """What the victim's p99 may be."""
        return max(_IDLE_FACTOR * self.idle_ms[1], self.attack.p99_ms_max)

    @property
    def is_met(self) -> bool:
        """Whether all limits are kept."""
        growth_max = self.attack.growth_mib_max
        return self.attacked_ms[1] <= self.limit_ms and (growth_max is None or self.growth_mib <= growth_max)

    def row(self) -> str:
        """It as a row of the table."""
        growth_max = self.attack.growth_mib_max
        bound = "" if growth_max is None else f" of {growth_max:.0f}"
        return (
            f"{self.attack.name:24} {self.idle_ms[0]:7.2f} {self.idle_ms[1]:7.2f} {self.attacked_ms[0]:9.2f} "
            f"{self.attacked_ms[1]:9.2f} {self.attacked_ms[1] / self.idle_ms[1]:7.1f} {self.limit_ms:8.1f} "
            f"{self.trips_count:6d}  {self.growth_mib:+6.0f}{bound:8}  {'met' if self.is_met else 'NOT MET'}"
        )


HEADING: Final = (
    f"{'attack':24} {'idle50':>7} {'idle99':>7} {'attack50':>9} {'attack99':>9} {'ratio':>7} {'limit':>8} "
    f"{'trips':>6}  {'MiB':>6}{'':8}  verdict      (ms)"
)


def run(attack: Attack, seconds: float, *, is_short: bool) -> Verdict:
    """Run one attack on a broker of its own."""
    scratch = tempfile.TemporaryDirectory(prefix="heliograph-attack-")
    with scratch as directory, NodeProcess(Path(directory), attack.settings, is_copy=False) as node:
        victim = child("attack.victim", str(node.port))
        attacker = child("attack.attacker", attack.name, str(node.port), "short" if is_short else "whole")
        try:
            measure(victim, _WARM_S)
            idle = measure(victim, seconds)
            before = resident_bytes(node.pid)
            expect(attacker, "ready")
            say(attacker, "go")
            time.sleep(_WARM_S)  # the attack gets under way
            attacked = measure(victim, seconds)
            growth = (resident_bytes(node.pid) - before) / _MIB
        finally:
            for one in (attacker, victim):
                one.send_signal(signal.SIGKILL)
                one.communicate()
    return Verdict(attack, p50_p99(idle), p50_p99(attacked), len(attacked), growth)


def resident_bytes(pid: int) -> int:
    """How much memory a process has."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def child(module: str, *arguments: str) -> subprocess.Popen[str]:
    """A module of the tests as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )


def say(child: subprocess.Popen[str], line: str) -> None:
    """Write a line to it."""
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()


def expect(child: subprocess.Popen[str], line: str) -> None:
    """Wait for a line of it."""
    assert child.stdout is not None
    said = child.stdout.readline().strip()
    assert said == line, f"it said {said!r} instead of {line!r}"


def measure(victim: subprocess.Popen[str], seconds: float) -> list[int]:
    """The victim's round trips in microseconds, for so many seconds."""
    assert victim.stdout is not None
    say(victim, f"measure {seconds}")
    trips: list[int] = json.loads(victim.stdout.readline())
    return trips


def p50_p99(trips: list[int]) -> tuple[float, float]:
    """In milliseconds."""
    ordered = sorted(trips)
    return ordered[len(ordered) // 2] / 1000, ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] / 1000

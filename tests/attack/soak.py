"""Every memory attack at once on a broker with little memory, and what the broker says of it.

The account is taken when the attackers have stopped and are still connected: what they had the broker keep is kept, and
nothing is under way. In the middle of an attack it would depend on the moment: a batch that is being committed, what a
merge of tables needs, and sessions that were counted half a second ago are some percent of the whole.
"""

import json
import os
import re
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from attack.trial import child, expect, measure, p50_p99, resident_bytes, say
from support.process import NodeProcess

_MIB: Final = 1 << 20
# What was under way when the attackers stopped is done by then, also on a machine with much else to do.
_QUIET_S: Final = 3.0
_STATISTICS: Final = re.compile(r"statistics (\{.*\})")


@dataclass(frozen=True)
class Soak:
    """What it came to.

    Attributes:
        limit_mib: What memory was to stay below.
        most_mib: The most resident memory that was seen.
        idle_ms: The p50 and p99 of others' round trips before,
        attacked_ms: and during it; nothing is counted that was never answered, since that ends the soak.
        statistics: What the broker said at the end.
    """

    limit_mib: int
    most_mib: float
    idle_ms: tuple[float, float]
    attacked_ms: tuple[float, float]
    statistics: dict[str, float]

    @property
    def accounted(self) -> float:
        """Which part of what the process has stands under an owner."""
        return 1 - self.statistics.get("memory.held.other", 0) / self.statistics["memory.used"]

    @property
    def held_bytes(self) -> float:
        """What all owners have by the account, which may be more than the process has."""
        return sum(size for name, size in self.statistics.items() if name.startswith("memory.held."))

    def summary(self) -> str:
        """For people: memory, round trips, who held what, what was done."""
        numbers = self.statistics
        lines = [
            f"memory: at most {self.most_mib:.0f} MiB of {self.limit_mib} MiB, {100 * self.accounted:.0f} % accounted",
            f"others' round trips: p50 {self.idle_ms[0]:.1f} -> {self.attacked_ms[0]:.1f} ms, "
            f"p99 {self.idle_ms[1]:.1f} -> {self.attacked_ms[1]:.1f} ms",
        ]
        held = {name.removeprefix("memory.held."): size for name, size in numbers.items() if ".held." in name}
        lines += [f"  {name:16} {held[name] / _MIB:8.1f} MiB" for name in sorted(held, key=lambda one: -held[one])]
        done = ("stage", "caches_shrunk", "qos0_shed", "growth_refused", "connections_closed", "connections_refused")
        lines.append(", ".join(f"{name} {numbers.get(f'memory.{name}', 0):.0f}" for name in done))
        return "\n".join(lines)


def run(seconds: float, limit_mib: int, cgroup: Path | None = None) -> Soak:
    """Attack a broker for so long.

    Args:
        limit_mib: What its process may have.
        cgroup: One whose limit this is, for the broker to run in; otherwise it is its `node.memory_limit`.

    Raises:
        AssertionError: It did not live, or did not answer.
    """
    scratch = tempfile.TemporaryDirectory(prefix="heliograph-soak-")
    settings = f"node.memory_limit = {limit_mib}MB" if cgroup is None else ""
    with (
        scratch as directory,
        NodeProcess(Path(directory), settings, cgroup=cgroup, reader=cgroup is None, is_copy=False) as node,
    ):
        victim = child("attack.victim", str(node.port))
        attacker = child("attack.attacker", "memory_soak", str(node.port), "whole")
        try:
            idle = measure(victim, 1.0)
            expect(attacker, "ready")
            say(attacker, "go")
            trips: list[int] = []
            most = 0
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                trips += measure(victim, 0.5)
                most = max(most, resident_bytes(node.pid))
            attacker.send_signal(signal.SIGSTOP)
            trips += measure(victim, _QUIET_S)
            statistics = _statistics(node)
            most = max(most, resident_bytes(node.pid))
        finally:
            for one in (attacker, victim):
                one.send_signal(signal.SIGKILL)
                one.communicate()
        assert node.stop() == 0, node.log.read_text()[-2000:]
        log = node.log.read_text()
        assert "Traceback" not in log, log[log.index("Traceback") - 300 :][:3000]
    return Soak(limit_mib, most / _MIB, p50_p99(idle), p50_p99(trips), statistics)


def _statistics(node: NodeProcess) -> dict[str, float]:
    before = len(node.log.read_text())
    os.kill(node.pid, signal.SIGUSR1)
    for _ in range(200):
        found = _STATISTICS.search(node.log.read_text()[before:])
        if found is not None:
            numbers: dict[str, float] = json.loads(found[1])
            return numbers
        time.sleep(0.1)  # the node writes its answer to a log
    raise AssertionError("no statistics in the log")

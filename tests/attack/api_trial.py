"""One attack on the HTTP API of a fresh node: how long an administrator waits for `GET /nodes` before and during it."""

import signal
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from attack.callers import ROLES
from attack.frame import Attack
from attack.trial import child, expect, say
from support.management import KEY, SECRET, ManagedNode

ANSWER_S_MAX: Final = 1.0
_PAUSE_S: Final = 0.1
_WARM_S: Final = 1.0
_WAIT_S: Final = 60.0
_OK: Final = 200


@dataclass(frozen=True)
class ApiVerdict:
    """What one attack did.

    Attributes:
        idle_s: How long answers took before it,
        attacked_s: and during it.
        refused: Answers during it that were none.
    """

    attack: Attack
    idle_s: list[float]
    attacked_s: list[float]
    refused: int

    @property
    def is_met(self) -> bool:
        """Whether each request was answered in time."""
        return not self.refused and max(self.attacked_s, default=_WAIT_S) <= ANSWER_S_MAX

    def row(self) -> str:
        """It as a row of the table."""
        idle, attacked = (statistics.median(each or [_WAIT_S]) for each in (self.idle_s, self.attacked_s))
        longest = max(self.attacked_s, default=_WAIT_S)
        return (
            f"{self.attack.name:24} {idle:8.3f} {max(self.idle_s):8.3f} {attacked:8.3f} {longest:8.3f} "
            f"{ANSWER_S_MAX:8.1f} {len(self.attacked_s):8d} {self.refused:8d}  {'met' if self.is_met else 'NOT MET'}"
        )


HEADING: Final = (
    f"{'attack on the API':24} {'idle50':>8} {'idle-max':>8} {'att50':>8} {'att-max':>8} {'limit':>8} {'answers':>8} "
    f"{'refused':>8}  verdict      (seconds of an administrator's GET /nodes)"
)


def settings_with_roles(directory: Path) -> str:
    """The settings of a node that has a key of each role that attacks need."""
    keys = directory / "attack_keys"
    keys.write_text("".join(f"{line}\n" for line in ROLES))
    keys.chmod(0o600)
    return f'api_key.bootstrap_file = "{keys}"\n'


def run(attack: Attack, seconds: float, *, is_short: bool) -> ApiVerdict:
    """Run one attack on a node of its own."""
    with tempfile.TemporaryDirectory(prefix="heliograph-attack-") as name:
        directory = Path(name)
        settings = settings_with_roles(directory) + attack.settings
        with ManagedNode(directory, settings, are_programs_copies=False) as node:
            api_port = urlsplit(node.url).port
            size = "short" if is_short else "whole"
            attacker = child("attack.attacker", attack.name, str(node.port), size, str(api_port))
            try:
                _measured(node, _WARM_S)
                expect(attacker, "ready")
                idle, _ = _measured(node, seconds)
                say(attacker, "go")
                time.sleep(_WARM_S)  # the attack gets under way
                attacked, refused = _measured(node, seconds)
            finally:
                attacker.send_signal(signal.SIGKILL)
                attacker.communicate()
    return ApiVerdict(attack, idle, attacked, refused)


def _measured(node: ManagedNode, seconds: float) -> tuple[list[float], int]:
    """How long each answer takes for so many seconds, and how many requests were refused or not answered."""
    taken, refused = [], 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        try:
            # A connection for each, as a person has one who comes now.
            answer = httpx.get(f"{node.url}/api/v5/nodes", auth=(KEY, SECRET), timeout=_WAIT_S)
            refused += answer.status_code != _OK
        except httpx.TransportError:
            refused += 1
        taken.append(time.perf_counter() - began)
        time.sleep(_PAUSE_S)  # the pace of a person
    return taken, refused

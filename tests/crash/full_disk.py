"""One run on a file system of a few megabytes that fills up, and in which space returns.

While the disk is full, publishes that need it are refused with 0x97 and an alarm is active; when space returns, service
resumes by itself; and the history of the whole is right.
"""

import contextlib
import dataclasses
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

from crash.actors import AlarmWatcher, Publisher, Route
from crash.broker import Broker
from crash.checker import Violation
from crash.storm import ON_DISK, SETTINGS
from crash.world import Cast, Outcome, World
from heliograph.mqtt import reason_codes as rc

_SIZE: Final = "32m"
_CHUNK: Final = 64 << 10
_PUBLISHED: Final = 300
_REFUSED: Final = 5
# The alarms that are waited for are those of the disk, however busy the machine is.
_NO_OTHER_ALARMS: Final = """
sysmon.os { cpu_check_interval = 1d, mem_check_interval = disabled }
sysmon.overload { mean_loop_turn = disabled, longest_loop_turn = disabled }
"""


class NoFileSystemError(Exception):
    """A small file system cannot be made here; the message says why."""


@dataclasses.dataclass(frozen=True)
class FullDiskPlan:
    """What a run does.

    Attributes:
        seed: What every choice begins with.
        kills: How often the broker is killed and started while the disk is full.
        groups: Whether shared groups take part.
        retained: Whether retained messages outlive the broker, and are looked at.
    """

    seed: int = 1
    kills: int = 0
    groups: bool = False
    retained: bool = True


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """A file system of its own that is soon full.

    Raises:
        NoFileSystemError: Only root may mount one.
    """
    path.mkdir(parents=True)
    if shutil.which("mount") is None:
        raise NoFileSystemError("there is no `mount` to make a small file system with")
    command = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(path)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        raise NoFileSystemError(f"a small file system cannot be mounted: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


async def fill_a_disk(directory: Path, plan: FullDiskPlan) -> Outcome:
    """Make a run in a directory of its own.

    Raises:
        BrokerError: The broker ended by itself.
        NoFileSystemError: A small file system cannot be made here.
    """
    settings = SETTINGS + _NO_OTHER_ALARMS + (ON_DISK if plan.retained else "")
    with small_disk(directory / "data") as disk:
        broker = Broker(directory, settings, {})
        cast = Cast(plan.seed, plan.groups, plan.retained, 0.01)
        return await _FullDisk(World(broker, cast, directory / "trace.txt", lambda: None), disk / "ballast", plan).run()


class _FullDisk:
    """The steps of one run."""

    def __init__(self, world: World, ballast: Path, plan: FullDiskPlan) -> None:
        self._world = world
        self._ballast = ballast
        self._plan = plan
        port, history = world.broker.port, world.history
        self._watcher = AlarmWatcher("watcher", port, history, Random(f"{plan.seed}/watcher"), lambda: None)
        # Its session is in memory: what those on the disk are told may wait behind what the disk does not take.
        self._prober = Publisher(
            "prober",
            port,
            history,
            Random(f"{plan.seed}/prober"),
            lambda: None,
            routes=[Route("probe/1", 1)],
            pause_s=0.05,
            expiry_s=0,
        )
        self._violations: list[Violation] = []

    async def run(self) -> Outcome:
        """Fill, be refused, be killed, make room, be served, rest."""
        world, counts = self._world, self._world.history.counts
        async with world:
            await world.begin()
            world.spawn(self._watcher.run())
            world.spawn(self._prober.run())
            world.spawn(self._prober.work())
            await self._must(lambda: counts["acknowledged"] >= _PUBLISHED, "publishes were acknowledged")
            world.history.disk_fails()
            self._fill()
            await self._be_refused()
            await self._must(lambda: bool(self._watcher.active), "an alarm was active while the disk was full")
            for _ in range(self._plan.kills):
                await world.kill()
                await world.broker.start()
                await self._be_refused()
            self._ballast.unlink()
            acknowledged = counts["acknowledged"]
            served = acknowledged + _PUBLISHED
            await self._must(lambda: counts["acknowledged"] >= served, "service resumed when space returned")
            await self._must(lambda: not self._watcher.active, "the alarm ended when space returned")
            world.history.disk_works()
            self._prober.is_settling = True
            await self._prober.stop()
            await self._watcher.stop()
            await world.kill()
            await world.rest()
        if world.history.refused_codes - {rc.QUOTA_EXCEEDED}:
            codes = ", ".join(f"0x{code:02x}" for code in sorted(world.history.refused_codes))
            self._violations.append(Violation(f"refusal: a full disk was told as {codes}", []))
        outcome = world.outcome({})
        outcome.violations.extend(self._violations)
        return outcome

    async def _be_refused(self) -> None:
        counts = self._world.history.counts
        enough = counts["refused"] + _REFUSED
        await self._must(lambda: counts["refused"] >= enough, "publishes were refused while the disk was full")

    async def _must(self, condition: Callable[[], bool], what: str) -> None:
        if not await self._world.until(condition):
            self._violations.append(Violation(f"full disk: it is not so that {what}", []))

    def _fill(self) -> None:
        """Take all the space there is."""
        with self._ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while os.write(file.fileno(), bytes(_CHUNK)):
                pass

"""The machine that a simulated broker runs on: its clock, its disk, its chance, and nothing of the real one.

Everything that production code takes from the machine comes through a few names, and `Machine.installed` says what they
mean in a simulation: the modules `time` and `secrets`, the disk under storage, the thread that syncs logs.
"""

import asyncio
import gc
import itertools
import random
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Final

from heliograph.node import node as node_module
from heliograph.storage import engine, group_commit, wal
from heliograph.storage.disk import THIS_DISK
from heliograph.storage.wal import SyncRequest
from sim.disk import FakeBatch, SimulatedDisk
from sim.loop import Agenda, Clock, VirtualLoop, new_loop

# How long after a fault of the disk the broker may still refuse what needs it.
REFUSES_US: Final = 5_000_000
_DISK_METHODS: Final = ("open", "is_there", "log_files", "table_bytes", "aside")


class Machine:
    """One machine, from the beginning of a simulation to its end.

    Args:
        seed: What its chance comes from.
    """

    def __init__(self, seed: int) -> None:
        self.clock = Clock()
        self.agenda = Agenda(self.clock)
        self.loop = new_loop(self.clock)
        self.trap: Callable[[], None] | None = None  # called when a sync is done and nobody has been told
        self._disk_chance = random.Random(f"disk {seed}")
        self._secrets_chance = random.Random(f"secrets {seed}")
        self.disk = SimulatedDisk(self._disk_chance, self._later, lambda: self.clock.us)
        self._turn_chance = itertools.cycle(self._disk_chance.choices(range(1, 20), k=97)).__next__

    def new_process(self) -> None:
        """The process is gone, and another begins."""
        self.loop.drop()
        self.loop = new_loop(self.clock)
        asyncio._set_running_loop(self.loop)

    def turn(self, until_us: int) -> bool:
        """Let what comes next happen; False if that is not before a time.

        Args:
            until_us: It becomes this time if nothing happens before.
        """
        clock, loop = self.clock, self.loop
        if not loop.is_ready:
            times = [one for one in (loop.next_us, self.agenda.next_us) if one is not None]
            following = min(times, default=until_us)
            if following >= until_us:
                clock.us = max(clock.us, until_us)
                return False
            clock.us = max(clock.us, following)
        self.agenda.run_due()
        self.loop.turn()
        clock.us += self._turn_chance()  # no two turns have the same time
        return True

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Have production code run on this machine."""
        modules = {"time": (time, self.clock.module()), "secrets": (secrets, _secrets(self._secrets_chance))}
        pairs: list[tuple[object, str, object]] = [
            (THIS_DISK, name, getattr(self.disk, name)) for name in _DISK_METHODS
        ]
        pairs += [
            (engine, "WriteBatch", FakeBatch),
            (wal, "os", self.disk.system()),
            (group_commit, "Syncer", self._make_syncer),
            (node_module, "tune_interpreter", _leave_interpreter),
        ]
        for name, module in sorted(sys.modules.items()):
            if name.startswith("heliograph."):
                for attribute, (real, simulated) in modules.items():
                    if vars(module).get(attribute) is real:
                        pairs.append((module, attribute, simulated))
        with replaced(pairs):
            asyncio._set_running_loop(self.loop)
            try:
                yield
            finally:
                asyncio._set_running_loop(None)

    def _later(self, callback: Callable[[], None]) -> None:
        self.loop.call_later(self._disk_chance.uniform(0.0, 2.0), callback)

    def _make_syncer(self, loop: VirtualLoop, on_synced: Callable[[SyncRequest, OSError | None], None]) -> "_Syncer":
        sync_us = self._disk_chance.choice((200, 3_000, 60_000, 400_000))  # databases may lie on different disks
        return _Syncer(loop, on_synced, lambda: self._disk_chance.randrange(sync_us) / 1e6, self._spring)

    def _spring(self) -> None:
        trap, self.trap = self.trap, None
        if trap is not None:
            self.agenda.after(0, trap)


class _Syncer:
    """What the thread that syncs logs does, in virtual time."""

    def __init__(
        self,
        loop: VirtualLoop,
        on_synced: Callable[[SyncRequest, OSError | None], None],
        delay_s: Callable[[], float],
        on_durable: Callable[[], None],
    ) -> None:
        self._on_durable = on_durable
        self._loop = loop
        self._on_synced = on_synced
        self._delay_s = delay_s

    def sync(self, request: SyncRequest) -> None:
        self._loop.call_later(self._delay_s(), self._run, request)

    def stop(self) -> None:
        """There is no thread."""

    def _run(self, request: SyncRequest) -> None:
        outcome: OSError | None = None
        try:
            request.run()
        except OSError as error:
            outcome = error
        self._on_durable()
        self._loop.call_later(self._delay_s() / 4, self._on_synced, request, outcome)


def _leave_interpreter() -> None:
    """A process of many simulations collects its garbage as any other."""
    assert gc.isenabled()


def _secrets(chance: random.Random) -> SimpleNamespace:
    return SimpleNamespace(
        token_hex=lambda count: chance.randbytes(count).hex(), token_bytes=chance.randbytes, randbits=chance.getrandbits
    )


@contextmanager
def replaced(pairs: list[tuple[object, str, object]]) -> Iterator[None]:
    """Give attributes other values for a while."""
    absent = object()
    before = [(owner, name, vars(owner).get(name, absent)) for owner, name, _ in pairs]
    for owner, name, value in pairs:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in reversed(before):
            if value is absent:
                delattr(owner, name)
            else:
                setattr(owner, name, value)

"""The machines that simulated brokers run on: each has its clock, its disk, its chance, and nothing of the real one.

Everything that production code takes from the machine comes through a few names: the modules `time`, `secrets` and
`random`, the disk under storage, the thread that syncs logs. While `Machines.installed`, they are those of the machine
that runs: `Machine.running` says which that is, for each piece of code of a broker that a simulation calls.
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
from typing import Any, Final

from heliograph.node import node as node_module
from heliograph.storage import engine, group_commit, wal
from heliograph.storage.disk import THIS_DISK
from heliograph.storage.wal import SyncRequest
from sim.disk import FakeBatch, SimulatedDisk
from sim.loop import Agenda, Clock, Time, VirtualLoop, new_loop

# How long after a fault of the disk the broker may still refuse what needs it.
REFUSES_US: Final = 5_000_000
_DISK_METHODS: Final = ("open", "is_there", "log_files", "table_bytes", "aside")

# Whose code runs; the innermost last.
_running: Final[list["Machine"]] = []


class Machines:
    """Machines that share one time, from the beginning of a simulation to its end.

    Attributes:
        agenda: What happens beside them.
    """

    def __init__(self) -> None:
        self.time = Time()
        self.agenda = Agenda(self.time)
        self._machines: list[Machine] = []

    def add(self, seed: int | str) -> "Machine":
        """Another machine.

        Args:
            seed: What its chance comes from.
        """
        machine = Machine(seed, self.time, self.agenda)
        self._machines.append(machine)
        return machine

    def turn(self, until_us: int) -> bool:
        """Let what comes next happen; False if that is not before a time.

        Args:
            until_us: It becomes this time if nothing happens before.
        """
        if not any(machine.is_ready for machine in self._machines):
            times = [self.agenda.next_us, *(machine.next_us for machine in self._machines)]
            following = min((one for one in times if one is not None), default=until_us)
            if following >= until_us:
                self.time.us = max(self.time.us, until_us)
                return False
            self.time.us = max(self.time.us, following)
        self.agenda.run_due()
        for machine in self._machines:
            if not machine.is_paused:
                self.time.us += machine.turn()
        return True

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Have production code take from the machine that runs what it takes from a machine; in the end none runs."""
        modules = {module.__name__: (module, _OfRunning(module.__name__)) for module in (time, secrets, random)}
        pairs: list[tuple[object, str, object]] = [(THIS_DISK, name, _of_running_disk(name)) for name in _DISK_METHODS]
        pairs += [
            (engine, "WriteBatch", FakeBatch),
            (wal, "os", _OfRunning("os")),
            (group_commit, "Syncer", lambda loop, on_synced: _running[-1].make_syncer(loop, on_synced)),
            (node_module, "tune_interpreter", _leave_interpreter),
        ]
        for name, module in sorted(sys.modules.items()):
            if name.startswith("heliograph."):
                for attribute, (real, simulated) in modules.items():
                    if vars(module).get(attribute) is real:
                        pairs.append((module, attribute, simulated))
        with replaced(pairs):
            try:
                yield
            finally:
                for machine in self._machines:
                    machine.loop.drop()


class Machine:
    """One machine; `Machines.add` makes it.

    Attributes:
        modules: What `import` of a name gives code that runs on it.
        trap: Called when a sync is done that nothing has reported yet.
    """

    def __init__(self, seed: int | str, time: Time, agenda: Agenda) -> None:
        self.clock = Clock(time)
        self.loop = new_loop(self.clock)
        self._paused_until_us = 0
        self.trap: Callable[[], None] | None = None
        self._agenda = agenda
        self._disk_chance = random.Random(f"disk {seed}")
        self.disk = SimulatedDisk(self._disk_chance, self._later, lambda: time.us)
        self._turn_chance = itertools.cycle(self._disk_chance.choices(range(1, 20), k=97)).__next__
        self.modules: dict[str, object] = {
            "time": self.clock.module(),
            "random": random.Random(f"random {seed}"),
            "secrets": _secrets(random.Random(f"secrets {seed}")),
            "os": self.disk.system(),
        }

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have production code run on this machine."""
        _running.append(self)
        asyncio._set_running_loop(self.loop)
        try:
            yield
        finally:
            _running.pop()
            asyncio._set_running_loop(_running[-1].loop if _running else None)

    def pause(self, us: int) -> None:
        """Nothing of its process runs for a while, as after SIGSTOP; its clocks go on."""
        self._paused_until_us = self.clock.us + us

    @property
    def is_paused(self) -> bool:
        """Whether nothing of it runs now."""
        return self.clock.us < self._paused_until_us

    @property
    def is_ready(self) -> bool:
        """Whether its process has something to do at once."""
        return self.loop.is_ready and not self.is_paused

    @property
    def next_us(self) -> int | None:
        """When its process has something to do next."""
        following = self.clock.us if self.loop.is_ready else self.loop.next_us
        return None if following is None else max(following, self._paused_until_us)

    def turn(self) -> int:
        """Let its event loop do what is due; how many microseconds that took: no two turns have the same time."""
        with self.running():
            self.loop.turn()
        return self._turn_chance()

    def new_process(self) -> None:
        """The process is gone, and another begins."""
        assert self not in _running, "a process ends while its code runs"
        self.loop.drop()
        self.loop = new_loop(self.clock)

    def make_syncer(self, loop: VirtualLoop, on_synced: Callable[[SyncRequest, OSError | None], None]) -> "_Syncer":
        """What syncs the logs of one database."""
        sync_us = self._disk_chance.choice((200, 3_000, 60_000, 400_000))  # databases may lie on different disks
        return _Syncer(loop, on_synced, lambda: self._disk_chance.randrange(sync_us) / 1e6, self._spring)

    def _later(self, callback: Callable[[], None]) -> None:
        self.loop.call_later(self._disk_chance.uniform(0.0, 2.0), callback)

    def _spring(self) -> None:
        trap, self.trap = self.trap, None
        if trap is not None:
            self._agenda.after(0, trap)


class _OfRunning:
    """A module as the machine that runs has it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(_running[-1].modules[self._name], attribute)


def _of_running_disk(name: str) -> Callable[..., Any]:
    return lambda *args: getattr(_running[-1].disk, name)(*args)


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

"""Protection against overload as a part of a node: measures it, and sheds what `Overload` decides.

The stages add up: requests of operators; new connections; QoS 0 to slow readers; what can wait (idle sessions that
leave memory, full garbage collections).
"""

import gc
from collections.abc import Mapping
from typing import Final, NamedTuple

from heliograph.config.monitoring import OverloadProtection
from heliograph.config.settings import Config
from heliograph.node.databases import Databases
from heliograph.node.kernel import KernelPart
from heliograph.node.loop_probe import TurnCount
from heliograph.node.memory import MemoryPart
from heliograph.node.metrics.process import OVERLOAD
from heliograph.node.sysmon import SysmonPart
from heliograph.observe.metric import Sample, plain
from heliograph.parts import Change, Part
from heliograph.settings.records import microseconds
from heliograph.transport import open_files

_RUNQ_ALARM: Final = "runq_overload"
_NO_FULL_COLLECTION: Final = 1 << 30
_SHED: Final = (
    "",
    "requests of operators are refused",
    "new connections wait and are refused",
    "QoS 0 messages to slow readers are dropped",
    "idle sessions stay in memory and full garbage collections are put off",
)


# What idle sessions that leave memory would mend, or not make worse.
_OF_SPACE: Final = frozenset(("memory", "open_files"))


# The stages, by number; 0 is no stage.
MANAGEMENT: Final = 1
CONNECTIONS: Final = 2
QOS0: Final = 3
UPKEEP: Final = 4


# So many looks in a row, or nearly, must find a threshold reached before anything is shed: a burst is no overload.
_CREDITS: Final = 3


# Credits come back below this part of all thresholds.
_CALM: Final = 0.8


class Reading(NamedTuple):
    """One measurement in seconds (`s`) or percent (`%`), and where it is too much."""

    value: float
    threshold: float
    unit: str


class OverloadPart(Part):
    """Looks at intervals whether the node has more to do than it can; owned by the node.

    The alarm is raised also where nothing may be shed.
    """

    name = "overload"
    metrics = OVERLOAD
    needs = ("kernel", "sysmon", "memory", "databases")
    roots = ("sysmon.overload", "overload_protection", "zones.*.overload_protection")

    def __init__(
        self, config: Config, kernel: KernelPart, sysmon: SysmonPart, memory: MemoryPart, databases: Databases
    ) -> None:
        self._config = config
        self._kernel = kernel
        self._sysmon = sysmon
        self._memory = memory
        self._databases = databases
        self._overload = Overload()
        self._collections = FullCollections()
        self._due_us = 0
        self._refused_count = 0
        self._before: Mapping[str, int] = {}  # what had been shed when the overload began
        self.readings: Mapping[str, Reading] = {}
        self._turns: TurnCount

    async def start(self) -> None:
        self._turns = self._sysmon.probe.count()
        self.readings = self._measured()

    async def stop(self) -> None:
        self._collections.put_off(False)

    async def check(self, new: Config) -> Change | None:
        def use() -> None:
            self._config = new
            self._shed()

        return Change(use)

    def tick(self, uptime_us: int) -> None:
        if uptime_us < self._due_us:
            return
        self._due_us = uptime_us + microseconds(self._config.sysmon.overload.check_interval)
        self.readings = self._measured()
        before = self.stage
        self._overload.look({name: one.value / one.threshold for name, one in self.readings.items()})
        if before != self.stage:
            self._shed()
        self._tell(before)

    def samples(self) -> list[Sample]:
        numbers: dict[str, float] = {"overload_protection.stage": self.stage}
        return plain(numbers | self.shed_counts())

    # --- for those who ask

    @property
    def stage(self) -> int:
        """How much is shed, where anything may be; 0 while the node is not overloaded."""
        return self._overload.stage

    @property
    def is_enabled(self) -> bool:
        return any(settings.enable for settings in self._settings())

    @property
    def sheds(self) -> list[str]:
        return list(_SHED[1 : self.stage + 1]) if self.is_enabled else []

    def refusal(self) -> str:
        """Why a request that is not vital is refused now, which is counted then; empty where it is not."""
        if self.stage < MANAGEMENT or not self.is_enabled:
            return ""
        self._refused_count += 1
        return f"the node is overloaded ({self._causes()})"

    def shed_counts(self) -> dict[str, int]:
        pressure = self._kernel.broker.pressure
        return {
            "overload_protection.delay.ok": int(pressure.delays_ended),
            "overload_protection.delay.timeout": int(pressure.delays_timed_out),
            "overload_protection.hibernation": int(pressure.kept_awake),
            "overload_protection.gc": self._collections.skipped_count,
            "overload_protection.new_conn": int(pressure.overload_refused),
            "overload_protection.qos0": int(pressure.overload_qos0_shed),
            "overload_protection.requests": self._refused_count,
        }

    # --- inside

    def _settings(self) -> list[OverloadProtection]:
        return [self._config.overload_protection, *(zone.overload_protection for zone in self._config.zones.values())]

    def _measured(self) -> dict[str, Reading]:
        limits, turns, contract = self._config.sysmon.overload, self._turns.take(), self._memory.contract
        found: dict[str, Reading] = {}
        if limits.mean_loop_turn is not None:
            found["mean_loop_turn"] = Reading(turns.mean_s, limits.mean_loop_turn, "s")
        if limits.longest_loop_turn is not None:
            found["longest_loop_turn"] = Reading(turns.longest_s, limits.longest_loop_turn, "s")
        if limits.commit_queue is not None:
            found["commit_queue"] = Reading(100 * self._databases.fullness, limits.commit_queue.percent, "%")
        if limits.memory is not None and contract.limit is not None:
            found["memory"] = Reading(100 * contract.used / contract.limit, limits.memory.percent, "%")
        if limits.open_files is not None:
            used = 100 * open_files.count() / open_files.limit()
            found["open_files"] = Reading(used, limits.open_files.percent, "%")
        return found

    def _shed(self) -> None:
        stage = self.stage if self.is_enabled else 0
        pressure, settings = self._kernel.broker.pressure, [one for one in self._settings() if one.enable]
        pressure.holds_connections = stage >= CONNECTIONS
        pressure.shed_for_overload(stage >= QOS0)
        is_of_time = not _OF_SPACE.issuperset(self._overload.causes)
        pressure.keeps_awake = stage >= UPKEEP and is_of_time and any(one.backoff_hibernation for one in settings)
        self._collections.put_off(stage >= UPKEEP and is_of_time and any(one.backoff_gc for one in settings))

    def _tell(self, before: int) -> None:
        alarms, stage = self._kernel.alarms, self.stage
        if before == 0 and stage > 0:
            self._before = self.shed_counts()
            alarms.activate(_RUNQ_ALARM, self._causes_text(), self._details(), logs_message=True, degrades=False)
        elif stage > 0:
            alarms.update(_RUNQ_ALARM, self._causes_text(), self._details())
        elif before > 0:
            alarms.update(_RUNQ_ALARM, self._causes_text(), self._details())
            alarms.deactivate(_RUNQ_ALARM)

    def _causes_text(self) -> str:
        shed = {name.partition(".")[2]: count for name, count in self._shed_now().items() if count}
        was = ", ".join(f"{name} {count}" for name, count in shed.items()) or "nothing"
        if self.stage == 0:
            return f"the node was overloaded; shed was: {was}"
        now = "; ".join(self.sheds) or "nothing may be shed (overload_protection.enable)"
        return f"the node is overloaded ({self._causes()}): {now}. Shed so far: {was}"

    def _details(self) -> dict[str, object]:
        return {
            "node": self._config.node.name,
            "stage": self.stage,
            "causes": list(self._overload.causes),
            **{name: round(one.value, 3) for name, one in self.readings.items()},
            "shed": self._shed_now(),
        }

    def _shed_now(self) -> dict[str, int]:
        return {name: count - self._before.get(name, 0) for name, count in self.shed_counts().items()}

    def _causes(self) -> str:
        causes = self._overload.causes or self.readings
        shown = (f"{name} {one.value:.3g} {one.unit}" for name, one in self.readings.items() if name in causes)
        return ", ".join(shown)


class FullCollections:
    """Full garbage collections of this process, which may be put off; owned by the part `overload`."""

    def __init__(self) -> None:
        self.skipped_count = 0
        self._thresholds: tuple[int, int, int] | None = None  # those that hold otherwise

    def put_off(self, put_off: bool) -> None:
        if put_off and self._thresholds is None:
            self._thresholds = gc.get_threshold()
            gc.set_threshold(*self._thresholds[:2], _NO_FULL_COLLECTION)
        elif not put_off and self._thresholds is not None:
            self.skipped_count += gc.get_count()[2] // max(1, self._thresholds[2])
            gc.set_threshold(*self._thresholds)
            self._thresholds = None


class Overload:
    """What a node sheds, from one look to the next; owned by the part `overload`.

    Attributes:
        causes: The thresholds that the last look found reached, by name, with how many times.
    """

    def __init__(self) -> None:
        self.stage = 0
        self.causes: Mapping[str, float] = {}
        self._spent = 0

    def look(self, readings: Mapping[str, float]) -> int:
        """The stage from now on, of measurements, each as a multiple of its threshold.

        One more stage begins with each look that finds a threshold reached, and ends with each that finds all of them
        well below. All is over when every credit is back.
        """
        self.causes = {name: times for name, times in readings.items() if times >= 1.0}
        if self.causes:
            self._spent = min(self._spent + 1, _CREDITS + UPKEEP - 1)
        elif max(readings.values(), default=0.0) < _CALM:
            self._spent = max(0, self._spent - 1)
        if self._spent == 0:
            self.stage = 0
        elif self.stage or self._spent >= _CREDITS:
            self.stage = max(MANAGEMENT, self._spent - _CREDITS + 1)
        return self.stage

    def __repr__(self) -> str:
        return f"Overload(stage {self.stage}, {', '.join(self.causes) or 'no cause'})"

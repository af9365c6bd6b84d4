"""One run: clients on a broker that dies again and again, then rest, then the judgement.

A run's choices - how each life of the broker ends, when its disk fails, what each client does - come from its seed.
What they meet depends on timing, so a seed shows the same kind of run again, not the same one.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

from crash.broker import Broker
from crash.checker import Violation
from crash.fault_layer import INJECTED, FaultLayer, build
from crash.world import Cast, Outcome, World

SETTINGS: Final = """
durable_sessions { enable = true, checkpoint_interval = 200ms }
mqtt.max_awaiting_rel = infinity
"""
UNSYNCED: Final = "durable_storage { messages.fsync = false, sessions.fsync = false }\n"
ON_DISK: Final = "retainer.backend.storage_type = disc\n"

_LIFE_S: Final = 2.0
_TOLD_EVERY: Final = 10
_CALLS: Final = {"packet": 1500, "disk": 400, "start": 60, "stop": 500}  # at most until a life ends


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run does.

    Attributes:
        kills: How often the broker is killed.
        seed: What every choice begins with.
        faults: Whether writes and syncs fail in some lives.
        start_faults: Whether they also fail while the broker starts, at times.
        power: Whether some kills are power failures, which take what was not synced.
        groups: Whether shared groups take part.
        retained: Whether retained messages outlive the broker, and are looked at.
        fsync: Whether the broker syncs what it acknowledges. Without, a run with power failures must find losses.
        pause_s: How long a publisher waits between bursts, on the average.
    """

    kills: int
    seed: int = 1
    faults: bool = True
    start_faults: bool = True
    power: bool = True
    groups: bool = True
    retained: bool = True
    fsync: bool = True
    pause_s: float = 0.02


@dataclasses.dataclass(frozen=True)
class Life:
    """How one life of the broker goes.

    Attributes:
        end: `packet` for a kill when so many packets came to clients, `disk` for one at so many writes and syncs,
            `start` for one at so many of them counted from the start of the process, `stop` for a polite end.
        after: How many.
        power: Whether the power fails with it.
        chances: The probabilities of `FaultLayer.fail`; none for a good disk.
        faults_at_start: Whether the disk fails while the broker starts, too.
    """

    end: str
    after: int
    power: bool
    chances: dict[str, float]
    faults_at_start: bool


def lives(plan: Plan) -> Iterator[Life]:
    """The lives of a run's broker, of which `plan.kills` end by a kill."""
    choose = Random(f"{plan.seed}/lives")
    kills = 0
    while kills < plan.kills:
        end = choose.choices(["packet", "disk", "start", "stop"], [8, 8, 2, 1])[0]
        after = choose.randint(1, _CALLS[end])
        is_failing = plan.faults and end != "stop" and choose.random() < 0.35
        chances = _chances(choose) if is_failing else {}
        # What a failed sync leaves behind only shows when the power goes, too.
        power = plan.power and choose.random() < (0.8 if "sync_error" in chances else 0.5)
        at_start = choose.random() < 0.2 and plan.start_faults
        kills += end != "stop"
        yield Life(end, after, power and end != "stop", chances, bool(chances) and at_start)


async def storm(directory: Path, plan: Plan, tell: Callable[[str], None] = lambda line: None) -> Outcome:
    """Make a run in a directory of its own.

    Args:
        tell: Called with a line now and then.

    Raises:
        BrokerError: The broker ended by itself.
        FaultLayerError: The disk cannot be made to fail here.
    """
    settings = SETTINGS + (ON_DISK if plan.retained else "") + ("" if plan.fsync else UNSYNCED)
    with FaultLayer(build(directory), directory / "faults", directory / "data", plan.seed) as layer:
        broker = Broker(directory, settings, layer.environment)
        return await _Storm(broker, layer, plan, directory / "trace.txt").run(tell)


class _Storm:
    """The broker's lives in one run."""

    def __init__(self, broker: Broker, layer: FaultLayer, plan: Plan, trace: Path) -> None:
        self._broker = broker
        self._layer = layer
        self._plan = plan
        self._choose = Random(f"{plan.seed}/storm")
        self._packets_left = 0  # until this life ends; 0 while no packet ends it
        self._dies_at_packet = False
        self._power = {"power_failures": 0, "bytes_lost_by_power": 0}
        cast = Cast(plan.seed, plan.groups, plan.retained, plan.pause_s)
        self._world = World(broker, cast, trace, self._on_packet)

    async def run(self, tell: Callable[[str], None]) -> Outcome:
        """All lives, then rest."""
        world = self._world
        async with world:
            await world.begin()
            await world.kill()
            for number, life in enumerate(lives(self._plan), 1):
                await self._live(life)
                if number % _TOLD_EVERY == 0:
                    tell(f"{world.counts['kills']} kills, {world.history.delivered_count:,} deliveries")
            await world.rest()
        seen = self._layer.counts()
        counts = {**self._power, "disk_faults": sum(seen[name] for name in INJECTED)}
        outcome = world.outcome({**counts, **{name: seen[name] for name in (*INJECTED, "writes", "syncs")}})
        if seen["untracked"]:
            outcome.violations.append(Violation(f"harness: no room for {seen['untracked']} files in the layer", []))
        return outcome

    async def _live(self, life: Life) -> None:
        world, layer = self._world, self._layer
        world.history.note("BROKER", f"starts: {life}")
        if life.chances:
            world.history.disk_fails()
        if life.faults_at_start:
            layer.fail(**life.chances)
        if life.end == "start":
            layer.die_after(life.after)
        is_ready = await self._broker.start()
        world.history.note("BROKER", "is ready" if is_ready else "died while it started")
        world.counts["kills_while_starting"] += not is_ready
        layer.fail(**life.chances)
        if is_ready:
            await self._be_alive(life)
        if life.end == "stop":
            await world.stop()
        else:
            await world.kill()
        self._packets_left = 0
        world.history.disk_works()
        layer.die_after(0)
        layer.fail()
        if life.power:
            self._power["power_failures"] += 1
            self._power["bytes_lost_by_power"] += layer.fail_power(self._choose)

    async def _be_alive(self, life: Life) -> None:
        """Until what ends this life; clients do what they do meanwhile."""
        world = self._world
        if life.end == "disk":
            self._layer.die_after(life.after)
        elif life.end != "start":
            self._packets_left, self._dies_at_packet = life.after, life.end == "packet"
        if self._choose.random() < 0.6:
            world.spawn(world.look_at_retained())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LIFE_S):
                if life.end == "stop":
                    await world.until(lambda: not self._packets_left)
                else:
                    await self._broker.wait_dead()

    def _on_packet(self) -> None:
        if self._packets_left:
            self._packets_left -= 1
            if not self._packets_left and self._dies_at_packet:
                self._broker.kill()


def _chances(choose: Random) -> dict[str, float]:
    """How the disk fails in one life: half of the time it only fails to sync, now and then, and writes go on."""
    if choose.random() < 0.5:
        return {"sync_error": 0.03}
    names = choose.sample(["short_write", "write_error", "full", "sync_error"], choose.randint(1, 3))
    return {name: choose.choice([0.005, 0.05, 0.3]) for name in names}

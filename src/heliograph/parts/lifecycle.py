"""Starts, ticks and stops the parts of a node, so that the fault of one is its own."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from heliograph.broker.faults import Faults
from heliograph.config.contradictions import contradictions
from heliograph.config.differences import differences, until_restart
from heliograph.config.settings import Config
from heliograph.observe.metric import Catalogue, Sample
from heliograph.parts.changes import Change, Plan
from heliograph.parts.part import Part
from heliograph.settings.errors import ConfigError, Problem

PartT = TypeVar("PartT", bound=Part)
OwnedT = TypeVar("OwnedT")


class PartOrderError(Exception):
    """Parts need each other in a circle, or two have one name: a fault of the program."""


class Parts:
    """The parts of one node in the order in which they start; owned by the node.

    What a part raises in `tick` or `stop` is contained at the boundary `parts.NAME`; the others are ticked and stopped
    all the same. What it raises in `start` is the caller's, after all that had started has stopped.

    Attributes:
        waiting: Paths of the settings that were changed and wait for the next start of the node.
    """

    def __init__(self, config: Config, faults: Faults, parts: Iterable[Part]) -> None:
        self.waiting: Sequence[str] = ()
        self._config = config
        self._faults = faults
        self._parts = sorted_by_need(list(parts))
        self._by_name = {part.name: part for part in self._parts}
        self._declared = {part.name: frozenset(metric.name for metric in part.metrics) for part in self._parts}
        self._catalogue = Catalogue(metric for part in self._parts for metric in part.metrics)
        self._running: list[Part] = []
        self._asked: list[Part] = []  # for their samples: all that have started

    def all(self) -> Sequence[Part]:
        """Every part, whether it runs or not."""
        return self._parts

    def get(self, kind: type[PartT]) -> PartT:
        """Raises `KeyError` if the node has none."""
        part = self._by_name[kind.name]
        assert isinstance(part, kind)
        return part

    def __contains__(self, kind: type[Part]) -> bool:
        return kind.name in self._by_name

    @property
    def is_running(self) -> bool:
        """Whether anything has started that did not stop."""
        return bool(self._running)

    @property
    def config(self) -> Config:
        """What they are made of now."""
        return self._config

    async def start(self) -> None:
        """Start each part; if one raises, stop those that have started, that one included, and raise the same."""
        for part in self._parts:
            self._running.append(part)
            try:
                await part.start()
            except (Exception, asyncio.CancelledError) as error:
                error.add_note(f"while the part {part.name} of the node started")
                await self.stop()
                raise
            self._asked.append(part)

    async def stop(self) -> Sequence[str]:
        """Stop each part that runs, the last one first; the names of those that did not stop in order."""
        failed: list[str] = []
        interruption: asyncio.CancelledError | None = None
        while self._running:
            part = self._running.pop()
            try:
                await part.stop()
            except Exception as error:  # noqa: BLE001 - whatever one part raises, the databases are to be closed
                self._faults.contain(f"parts.{part.name}", error)
                failed.append(part.name)
            except asyncio.CancelledError as error:  # it ends when all is closed
                interruption = error
        if interruption is not None:
            raise interruption
        return failed

    def tick(self, uptime_us: int) -> dict[str, str]:
        """Let each part that runs do what is due: the names of those that raised, with what."""
        return {name: error for name, error in self.ticks(lambda: uptime_us) if error}

    def ticks(self, clock: Callable[[], int]) -> Iterator[tuple[str, str]]:
        """The same part by part, for callers that yield in between: the name of each, and what it raised or nothing."""
        for part in list(self._running):
            if part not in self._running:
                continue
            failed = ""
            try:
                part.tick(clock())
            except Exception as error:  # noqa: BLE001 - whatever one part raises, time goes on for the others
                self._faults.contain(f"parts.{part.name}", error)
                failed = f"{type(error).__name__}: {error}"
            yield part.name, failed

    async def check(self, new: Config) -> Plan:
        """Make every part ready for another configuration; nothing of it is applied yet.

        Returns:
            What it changes, for `apply` or `undo`, before anything else is checked.

        Raises:
            ConfigError: What changes now does not go together with what stays as it is until the next start.
            ExceptionGroup: What each part raised that cannot take it.
        """
        config = until_restart(self._config, new)
        place = "with the settings that change when the node is started again"
        if problems := [Problem(place, None, ".".join(path), text) for path, text in contradictions(config)]:
            raise ConfigError(problems)
        changes: dict[str, Change] = {}
        plan, errors = Plan(config, differences(self._config, new), changes, self.waiting), []
        try:
            for part in self._running:
                try:
                    change = await part.check(config)
                except Exception as error:  # noqa: BLE001 - the others may have something to say too
                    errors.append(error)
                    continue
                if change is not None:
                    changes[part.name] = change
        except asyncio.CancelledError:
            self.undo(plan)
            raise
        if errors:
            self.undo(plan)
            raise ExceptionGroup("the configuration cannot be used", errors)
        return plan

    def apply(self, plan: Plan) -> dict[str, str]:
        """Apply what was checked: the names of the parts that raised, with what."""
        failed: dict[str, str] = {}
        for name, change in plan.changes.items():
            try:
                change.apply()
            except Exception as error:  # noqa: BLE001 - it was to do so while it was asked; the others have checked too
                self._faults.contain(f"parts.{name}", error)
                failed[name] = f"{type(error).__name__}: {error}"
        self._config = plan.config
        self.waiting = plan.restart
        return failed

    def settle(self, plan: Plan) -> None:
        """Give up for good what was there before a plan that was applied: it will not go back by itself."""
        for name, change in plan.changes.items():
            self._faults.run(f"parts.{name}", change.settle)

    def undo(self, plan: Plan) -> None:
        """Give up what was checked, last part first."""
        for name, change in reversed(list(plan.changes.items())):
            self._faults.run(f"parts.{name}", change.undo)

    def health(self) -> dict[str, str]:
        """The parts that cannot do their work now, with what keeps them from it."""
        return {part.name: message for part in self._running if (message := part.health())}

    def summary(self) -> str:
        """What the parts have, in one line for the log."""
        return "; ".join(filter(None, (part.summary() for part in self._running)))

    def places(self) -> list[str]:
        """Where others reach the node; what clients connect to starts last and is named first."""
        return [place for part in reversed(self._running) for place in part.places()]

    def samples(self, leaving_out: str = "") -> list[Sample]:
        """Every counter and size of the parts that have started, `leaving_out` one."""
        return [sample for part in self._asked if part.name != leaving_out for sample in part.samples()]

    def sample_pieces(self, leaving_out: str = "", names: Collection[str] = ()) -> Iterator[Sample | None]:
        """The same piece by piece, see `Part.sample_pieces`; of the parts that declare one of `names`, or of all."""
        for part in list(self._asked):
            if part.name != leaving_out and (not names or not self._declared[part.name].isdisjoint(names)):
                yield None
                yield from part.sample_pieces()

    def statistics(self) -> dict[str, float]:
        """Every counter and size by flat names."""
        return self._catalogue.flat(self.samples())

    def numbers(self, names: Collection[str]) -> dict[str, float]:
        """The values of some metrics without labels; a part that declares some is asked until it has given them."""
        found: dict[str, float] = {}
        for part in self._asked:
            wanted = self._declared[part.name].intersection(names)
            for sample in part.samples() if wanted else ():
                if sample.name in wanted:
                    found[sample.name] = sample.value
                    wanted -= {sample.name}
                    if not wanted:
                        break
        return found

    def __repr__(self) -> str:
        return f"Parts({len(self._running)} of {len(self._parts)} run)"


async def every(owned: Iterable[OwnedT], end: Callable[[OwnedT], Awaitable[None]]) -> None:
    """End all that a part owns, one after the other; an `ExceptionGroup` has all that was raised."""
    errors: list[Exception] = []
    for one in owned:
        try:
            await end(one)
        except Exception as error:  # noqa: BLE001 - raised when the others have ended
            errors.append(error)
    if errors:
        raise ExceptionGroup("not everything ended in order", errors)


def each(owned: Iterable[OwnedT], do: Callable[[OwnedT], object]) -> None:
    """Do something with all that a part owns; an `ExceptionGroup` has all that was raised."""
    errors: list[Exception] = []
    for one in owned:
        try:
            do(one)
        except Exception as error:  # noqa: BLE001 - raised when the others have had their turn
            errors.append(error)
    if errors:
        raise ExceptionGroup("not all of it could be done", errors)


def sorted_by_need(parts: Sequence[Part]) -> list[Part]:
    """Otherwise in the order in which they were given; raises `PartOrderError`."""
    by_name = {part.name: part for part in parts}
    if len(by_name) < len(parts):
        raise PartOrderError(f"a name stands twice among {[part.name for part in parts]}")
    ordered: dict[str, Part] = {}

    def add(part: Part, path: tuple[str, ...]) -> None:
        if part.name in path:
            raise PartOrderError(f"parts need each other: {' -> '.join((*path, part.name))}")
        if part.name in ordered:
            return
        for name in part.needs:
            if name in by_name:
                add(by_name[name], (*path, part.name))
        ordered[part.name] = part

    for part in parts:
        add(part, ())
    return list(ordered.values())

"""Parts: in which order they start and stop, and what becomes of the others when one raises."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from heliograph.broker.faults import Faults
from heliograph.config.log import LogConfig, LogTargetConfig
from heliograph.config.settings import Config
from heliograph.observe.metric import Sample, counter
from heliograph.parts import Change, Part, Parts
from heliograph.parts.lifecycle import PartOrderError, each, every


def part(name: str, said: list[str], needs: Sequence[str] = (), fails: str = "") -> Part:
    """A part that says what is done with it, and raises where that is what it is for."""

    def say(what: str) -> None:
        said.append(f"{what} {name}")
        if what == fails:
            raise RuntimeError(f"{name} cannot {what}")

    class Saying(Part):
        async def start(self) -> None:
            say("start")

        async def stop(self) -> None:
            say("stop")

        def tick(self, uptime_us: int) -> None:
            say("tick")

        def samples(self) -> list[Sample]:
            return [Sample(f"{name}.asked", 1)]

    Saying.name, Saying.needs = name, needs
    Saying.metrics = (counter(f"{name}.asked", "Whether it was asked."),)
    return Saying()


def parts_of(*parts: Part) -> tuple[Parts, list[str]]:
    """Parts, and what was reported of them."""
    faults = Faults()
    reported: list[str] = []
    faults.on_fault = lambda boundary, error: reported.append(f"{boundary}: {error}")
    return Parts(Config(), faults, parts), reported


def test_parts_start_behind_what_they_need_and_stop_in_reverse() -> None:
    said: list[str] = []
    parts, _ = parts_of(part("c", said, ("b", "absent")), part("a", said), part("b", said, ("a",)), part("d", said))

    async def live() -> None:
        await parts.start()
        assert await parts.stop() == []

    asyncio.run(live())
    assert said == ["start a", "start b", "start c", "start d", "stop d", "stop c", "stop b", "stop a"]


def test_parts_that_need_each_other_are_refused() -> None:
    with pytest.raises(PartOrderError, match="a -> b -> a"):
        parts_of(part("a", [], ("b",)), part("b", [], ("a",)))
    with pytest.raises(PartOrderError, match="twice"):
        parts_of(part("a", []), part("a", []))


def test_a_start_that_fails_is_undone_in_reverse_its_own_part_included() -> None:
    said: list[str] = []
    parts, reported = parts_of(
        part("a", said), part("b", said, fails="stop"), part("c", said, fails="start"), part("d", said)
    )
    with pytest.raises(RuntimeError, match="c cannot start") as raised:
        asyncio.run(parts.start())
    assert raised.value.__notes__ == ["while the part c of the node started"]
    assert said == ["start a", "start b", "start c", "stop c", "stop b", "stop a"]
    assert reported == ["parts.b: b cannot stop"]
    assert not parts.is_running


def test_a_part_that_raises_is_counted_and_the_others_are_ticked_and_stopped() -> None:
    said: list[str] = []
    parts, reported = parts_of(part("a", said), part("b", said, fails="tick"), part("c", said, fails="stop"))

    async def live() -> Sequence[str]:
        await parts.start()
        said.clear()
        assert parts.tick(1) == {"b": "RuntimeError: b cannot tick"}
        assert parts.tick(2) == {"b": "RuntimeError: b cannot tick"}
        return await parts.stop()

    assert asyncio.run(live()) == ["c"]
    assert said == ["tick a", "tick b", "tick c"] * 2 + ["stop c", "stop b", "stop a"]
    assert reported == ["parts.b: b cannot tick"] * 2 + ["parts.c: c cannot stop"]
    assert parts.statistics() == {"a.asked": 1, "b.asked": 1, "c.asked": 1}  # also behind the end


async def test_a_part_that_stops_between_two_steps_of_a_tick_is_not_ticked() -> None:
    said: list[str] = []
    parts, _ = parts_of(part("a", said), part("b", said))
    await parts.start()
    steps = parts.ticks(lambda: 1)
    assert next(steps) == ("a", "")
    await parts.stop()
    assert list(steps) == []
    assert "tick b" not in said


async def test_a_stop_that_is_cancelled_stops_the_rest_first() -> None:
    said: list[str] = []

    class Waiting(Part):
        name = "waiting"

        async def stop(self) -> None:
            said.append("stop waiting")
            stopping.cancel()
            await asyncio.sleep(0)

    parts, _ = parts_of(part("a", said), Waiting())
    await parts.start()
    stopping = asyncio.create_task(parts.stop())
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert said == ["start a", "stop waiting", "stop a"]


async def test_all_that_a_part_owns_ends_whatever_one_of_them_raises() -> None:
    ended: list[str] = []

    async def end(one: str) -> None:
        ended.append(one)
        if one != "b":
            raise OSError(one)

    with pytest.raises(ExceptionGroup) as raised:
        await every(["a", "b", "c"], end)
    assert ended == ["a", "b", "c"]
    assert [str(error) for error in raised.value.exceptions] == ["a", "c"]


async def test_a_configuration_is_applied_by_all_parts_or_by_none() -> None:
    applied: list[str] = []

    class Level(Part):
        name = "level"
        roots = ("log",)

        async def check(self, new: Config) -> Change:
            return Change(lambda: applied.append(new.log.console.level), lambda: applied.append("undone"))

    class Picky(Part):
        name = "picky"
        needs = ("level",)
        roots = ("log.console.level",)

        async def check(self, new: Config) -> Change:
            if new.log.console.level == "error":
                raise ValueError("too quiet")
            return Change(fail)

    class Pickier(Part):
        name = "pickier"

        async def check(self, new: Config) -> None:
            if new.log.console.level == "error":
                raise ValueError("far too quiet")

    def fail() -> None:
        raise RuntimeError("it cannot")

    parts, reported = parts_of(Level(), Picky(), Pickier())
    await parts.start()
    old, node = Config(), replace(Config().node, name="other@host")
    with pytest.raises(ExceptionGroup) as raised:
        await parts.check(replace(old, log=LogConfig(LogTargetConfig(level="error"))))
    assert [str(error) for error in raised.value.exceptions] == ["too quiet", "far too quiet"]
    assert applied == ["undone"]
    applied.clear()
    plan = await parts.check(replace(old, log=LogConfig(LogTargetConfig(level="debug")), node=node))
    assert (plan.now, plan.restart) == (["log.console.level"], ["node.name"])
    parts.apply(plan)
    assert applied == ["debug"]
    assert reported == ["parts.picky: it cannot"]  # and the others have applied it
    again = await parts.check(replace(old, log=LogConfig(LogTargetConfig(level="debug")), node=node))
    assert (again.now, again.restart) == ([], ["node.name"])


def test_each_of_what_a_part_owns_has_its_turn_whatever_one_of_them_raises() -> None:
    done: list[str] = []

    def do(one: str) -> None:
        done.append(one)
        if one == "a":
            raise OSError(one)

    with pytest.raises(ExceptionGroup):
        each(["a", "b"], do)
    assert done == ["a", "b"]

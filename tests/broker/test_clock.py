"""The time of a node on virtual clocks."""

import random

import pytest

from heliograph.broker import clock as clocks
from heliograph.broker.clock import Clock
from support.cases import cases
from support.forms import seeds

S = 1_000_000
DAY = 86_400 * S
WALL = 1_700_000_000 * S


class Machine:
    """A clock that nobody sets, beginning at an hour, and a wall clock; looked at twice a second."""

    def __init__(self, bound_s: int = 60) -> None:
        self.uptime = 3600 * S
        self.ahead = WALL - self.uptime
        self.clock = Clock(bound_s * S)
        self.events: list[int] = []
        self.look()

    @property
    def wall(self) -> int:
        return self.uptime + self.ahead

    @property
    def now(self) -> int:
        return int(self.clock.at(self.uptime))

    def look(self) -> None:
        event = int(self.clock.look(self.uptime, self.wall))
        if event != clocks.NOTHING:
            self.events.append(event)

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            self.uptime += S // 2
            self.look()


def test_it_is_the_wall_clocks_time() -> None:
    machine = Machine()
    assert machine.now == WALL
    machine.run(100)
    assert (machine.now, machine.events) == (WALL + 100 * S, [])


def test_between_two_looks_it_runs_with_the_clock_that_nobody_sets() -> None:
    machine = Machine()
    assert machine.clock.at(machine.uptime + 123) == WALL + 123


def test_a_small_jump_ahead_is_followed_at_once_and_told() -> None:
    machine = Machine()
    machine.ahead += 59 * S
    machine.run(1)
    assert (machine.now, machine.events) == (machine.wall, [clocks.FOLLOWED])


@cases("correction", [500_000, 1, -1, -900_000])
def test_what_a_time_service_corrects_is_not_told(correction: int) -> None:
    machine = Machine()
    machine.ahead += correction
    machine.run(80)
    assert (machine.now, machine.events) == (machine.wall, [])


def test_a_jump_beyond_the_bound_that_comes_back_changes_nothing() -> None:
    machine = Machine()
    machine.ahead += DAY
    machine.run(3)
    assert machine.now == machine.wall - DAY
    machine.ahead -= DAY
    machine.run(10)
    assert (machine.now, machine.events) == (machine.wall, [clocks.JUMPED, clocks.RETURNED])


def test_a_jump_beyond_the_bound_is_followed_when_it_holds() -> None:
    machine = Machine()
    machine.ahead += DAY
    machine.run(60)
    assert (machine.now, machine.events) == (machine.wall - DAY, [clocks.JUMPED])
    machine.run(1)
    assert (machine.now, machine.events) == (machine.wall, [clocks.JUMPED, clocks.FOLLOWED])


def test_a_clock_that_jumps_again_has_not_held() -> None:
    machine = Machine()
    for _ in range(5):
        machine.ahead += DAY
        machine.run(40)
    assert machine.now == machine.wall - 5 * DAY
    assert machine.events == [clocks.JUMPED] * 5


def test_a_clock_that_is_set_back_is_waited_for_at_a_slower_pace() -> None:
    machine = Machine()
    machine.ahead -= 10 * S
    before = machine.now
    machine.run(64)
    assert machine.now == pytest.approx(before + 63 * S, abs=S)
    machine.run(600)
    assert (machine.now, machine.events) == (machine.wall, [clocks.SET_BACK, clocks.CAUGHT_UP])


def test_what_expires_goes_on_expiring_when_the_clock_is_set_back_by_a_day() -> None:
    machine = Machine()
    machine.ahead -= DAY
    machine.run(0.5)
    before = machine.now
    machine.run(4)
    assert machine.now - before >= 3.9 * S


def test_being_set_back_further_is_told_again() -> None:
    machine = Machine()
    for _ in range(3):
        machine.ahead -= 100 * S
        machine.run(5)
    assert machine.events == [clocks.SET_BACK] * 3


def test_a_jump_ahead_behind_a_set_back() -> None:
    machine = Machine()
    machine.ahead -= 30 * S
    machine.run(1)
    machine.ahead += DAY
    machine.run(70)
    assert (machine.now, machine.events) == (machine.wall, [clocks.SET_BACK, clocks.JUMPED, clocks.FOLLOWED])


@pytest.mark.parametrize("part", seeds(5, 1))
@cases("seed", range(40))
def test_it_never_falls_and_never_runs_away(part: int, seed: int) -> None:
    chance = random.Random(40 * part + seed)
    machine = Machine(chance.choice((1, 60)))
    jumps = (DAY, -DAY, 30 * S, -30 * S, S // 2, -S // 2, 2 * S, -2 * S)
    last = machine.now
    furthest = machine.wall
    for _ in range(500):
        if chance.random() < 0.1:
            machine.ahead += chance.choice(jumps)
        if chance.random() < 0.8:
            machine.uptime += chance.randrange(1, 3 * S)
            machine.look()
        else:
            machine.uptime += chance.randrange(1, S)
        now = machine.now
        furthest = max(furthest, machine.wall) + 3 * S
        assert last <= now <= furthest
        last = now

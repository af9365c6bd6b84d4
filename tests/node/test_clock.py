"""A wall clock that somebody sets: what the log, the alarms and the counters tell, and what clients notice."""

from types import SimpleNamespace

import pytest

from heliograph.broker.hooks import Hooks
from heliograph.broker.pubsub import Broker
from heliograph.broker.router import Router
from heliograph.node import clock as node_clock
from heliograph.node.clock import AHEAD, BEHIND, NodeClock
from support.alarms import unheard_alarms

S = 1_000_000
DAY = 86_400 * S


class Machine:
    """A node's clock on a machine whose clocks a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.uptime = 10 * S
        self.wall = 1_700_000_000 * S
        clocks = SimpleNamespace(time_ns=lambda: self.wall * 1000, monotonic_ns=lambda: self.uptime * 1000)
        monkeypatch.setattr(node_clock, "time", clocks)
        self.broker = Broker(Router(16, 100), Hooks(lambda name, error: None))
        self.alarms = unheard_alarms()
        self.clock = NodeClock(self.broker, self.alarms)
        self.clock.begin_turn()

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            self.uptime += S // 2
            self.wall += S // 2
            self.clock.begin_turn()

    def active(self) -> list[str]:
        assert not any(alarm.degrades for alarm in self.alarms.active())  # no start sets a clock right
        return [alarm.name for alarm in self.alarms.active()]


def test_a_jump_ahead_is_told_and_its_alarm_ends_when_it_is_followed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(monkeypatch)
    machine.wall += DAY
    machine.run(1)
    assert machine.active() == [AHEAD]
    assert "jumped ahead by 86400.0 s" in caplog.text
    assert "node.max_clock_jump" in caplog.text
    machine.run(61)
    assert machine.active() == []
    assert machine.broker.now_us == machine.wall
    assert machine.clock.statistics() == {
        "clock.jumps.ahead": 1,
        "clock.jumps.back": 0,
        "clock.jumps.followed": 1,
        "clock.error_s": 0.0,
    }


def test_a_jump_ahead_that_comes_back_is_told_and_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.wall += DAY
    machine.run(3)
    machine.wall -= DAY
    machine.run(1)
    assert machine.active() == []
    assert machine.broker.now_us == machine.wall
    assert machine.clock.statistics()["clock.jumps.followed"] == 0


def test_a_clock_that_is_set_back_is_told_until_it_has_caught_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(monkeypatch)
    machine.wall -= 5 * S
    machine.run(1)
    assert machine.active() == [BEHIND]
    assert "the node's time is 5.0 s ahead of it" in caplog.text
    machine.run(5 * 64)
    assert machine.active() == []
    assert machine.broker.now_us == machine.wall


def test_a_start_behind_what_is_stored_is_told_until_the_clock_has_passed_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(monkeypatch)
    machine.clock.expect_after(machine.wall + 30 * S)
    assert machine.active() == [BEHIND]
    assert "is 30.0 s behind the newest stored message" in caplog.text
    machine.run(30)
    assert machine.active() == []

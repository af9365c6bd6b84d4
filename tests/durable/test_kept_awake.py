"""Idle durable sessions leave memory, but not while the node is overloaded."""

from pathlib import Path

from support.durable import DurableKernel, leave

MINUTE_S = 65.0  # a sweep comes each minute, for sessions that have been away for one


def test_an_idle_session_leaves_memory_when_the_overload_is_over(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "sub", "t")
    pressure = kernel.broker.pressure
    pressure.keeps_awake = True
    for _ in range(2):
        kernel.advance(MINUTE_S)
    assert kernel.sessions.held("sub") is not None
    assert pressure.kept_awake >= 1
    pressure.keeps_awake = False
    before = pressure.kept_awake
    for _ in range(2):
        kernel.advance(MINUTE_S)
    assert kernel.sessions.held("sub") is None
    assert pressure.kept_awake == before
    assert kernel.durable.statistics()["durable_sessions.slept"] == 1
    assert kernel.come().heard() == ["CONNACK 0x00 present"]

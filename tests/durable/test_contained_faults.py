"""A durable session that makes the broker fail is cut alone: others are saved and replayed to in the same turn."""

from pathlib import Path

import pytest

from heliograph.mqtt import packets as p
from heliograph.session.durable import DurableSession
from support.durable import DurableKernel, got, leave
from support.packets import properties


def test_a_session_whose_replay_raises_keeps_no_other_from_catching_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = DurableKernel(tmp_path)
    for name in ("bad", "good"):
        leave(kernel, name, "t")
    pub = kernel.come("pub")
    pub.publish("t", b"1", 1, 1)
    find, calls = kernel.database.get_streams, 0

    def get_streams(*args: object, **named: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("not today")
        return find(*args, **named)  # type: ignore[arg-type]  # they are passed on as they came

    monkeypatch.setattr(kernel.database, "get_streams", get_streams)
    faults = kernel.contain_faults()
    peers = {name: kernel.peer() for name in ("bad", "good")}
    for name, peer in peers.items():
        named = properties(session_expiry_interval=600)
        peer.feed(peer.encoded(p.Connect(p.V5, name, False, 0, None, None, None, named)))
    kernel.run()
    assert peers["bad"].lost
    assert peers["good"].heard() == ["CONNACK 0x00 present", "PUBLISH t '1' q1 #1"]
    assert [boundary for boundary, _ in faults] == ["turns"]
    assert got(kernel, "bad") == ["1"]


def test_a_session_whose_state_cannot_be_written_keeps_no_other_from_being_saved(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    bad, good = kernel.come("bad"), kernel.come("good")
    good.skip()
    faults = kernel.contain_faults()
    session = kernel.sessions.find("bad")
    assert isinstance(session, DurableSession)
    session.mountpoint = "\ud800"  # no text of a record
    bad.drop()
    assert [boundary for boundary, _ in faults] == ["sessions"]
    good.subscribe("t", 1)
    good.drop()
    again = kernel.crash(10.0)
    again.connect("pub").publish("t", b"1", 1, 1)
    assert got(again, "good") == ["1"]

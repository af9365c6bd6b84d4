"""Sessions in memory beside durable ones: they never touch the disk."""

from dataclasses import replace
from pathlib import Path

from heliograph.session.durable import DurableSession
from heliograph.storage.errors import StorageFullError
from support.cases import cases
from support.durable import DurableKernel
from support.options import CHANNEL, LISTENER, SESSION


def test_a_session_that_ends_with_its_connection_works_though_the_disk_refuses_everything(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    kernel.automatic = False
    durable = kernel.come("durable")
    sub = kernel.connect("sub")  # expiry 0
    assert sub.subscribe("t", 2) == [2]
    pub = kernel.connect("pub")
    pub.publish("t", b"x", 0)
    assert sub.heard() == ["PUBLISH t 'x' q0"]
    sub.disconnect()
    again = kernel.connect("sub", clean_start=False)
    assert again.heard() == []
    while kernel.state.waiting:
        kernel.state.commit(StorageFullError("no room", database="sessions"))
        kernel.turn()
    assert durable.heard() == []  # which waits for the disk
    assert kernel.disk == {b"w": kernel.disk[b"w"]} if kernel.disk else True
    again.publish("t", b"y", 0)
    assert again.subscribe("t") == [0]


def test_a_session_in_memory_writes_nothing(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    before = kernel.state.batches_count
    sub = kernel.connect("sub")
    sub.subscribe("t", 2)
    sub.subscribe("$share/g/t", 2)
    sub.publish("t", b"x", 2)
    sub.skip()
    sub.unsubscribe("t")
    sub.disconnect()
    assert kernel.state.batches_count == before


@cases("durable", [True, False])
def test_a_zone_may_keep_its_sessions_in_memory(tmp_path: Path, durable: bool) -> None:
    kernel = DurableKernel(tmp_path)
    zone = replace(
        CHANNEL, session=replace(SESSION, durable=durable), listener=replace(LISTENER, name="tcp:other"), zone="other"
    )
    peer = kernel.connect("sub", options=zone, session_expiry_interval=600)
    peer.drop()
    assert isinstance(kernel.sessions.find("sub"), DurableSession) is durable
    assert (b"ssub" in kernel.disk) is durable

"""Sessions that lie on the disk are read in turns of their own, while their clients wait, and not inside CONNECT."""

from dataclasses import replace
from pathlib import Path

from heliograph.broker import hooks
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.storage.errors import StorageError
from support.cases import cases
from support.durable import DurableKernel, leave
from support.kernel import Peer
from support.options import SESSION
from support.packets import properties, publish


def coming(kernel: DurableKernel, clientid: str = "sub", *, clean_start: bool = False, expiry_s: int = 600) -> Peer:
    """A client whose CONNECT has come, in a turn that is not over."""
    peer = kernel.peer()
    told = properties(session_expiry_interval=expiry_s)
    peer.feed(peer.encoded(p.Connect(p.V5, clientid, clean_start, 0, None, None, None, told)))
    return peer


def asleep(tmp_path: Path, *filters: str) -> DurableKernel:
    """A node that was started again, with the session of "sub" on its disk."""
    kernel = DurableKernel(tmp_path)
    leave(kernel, "sub", *(filters or ("t",)))
    again = kernel.crash()
    assert again.sessions.held("sub") is None
    return again


@cases(
    ("clientid", "clean_start", "expiry_s", "answer"),
    [
        ("sub", False, 600, "CONNACK 0x00 present"),
        ("sub", True, 600, "CONNACK 0x00"),
        ("sub", True, 0, "CONNACK 0x00"),
        ("new", False, 600, "CONNACK 0x00"),
        ("new", True, 0, "CONNACK 0x00"),
        ("", True, 0, "CONNACK 0x00"),
    ],
)
def test_a_connect_reads_nothing_of_the_disk(
    tmp_path: Path, clientid: str, clean_start: bool, expiry_s: int, answer: str
) -> None:
    kernel = asleep(tmp_path)
    before = kernel.state.reads_count
    peer = coming(kernel, clientid, clean_start=clean_start, expiry_s=expiry_s)
    assert kernel.state.reads_count == before
    assert peer.paused() == (clientid == "sub")
    kernel.run()
    assert peer.heard()[0] == answer
    assert not peer.paused()


def test_a_client_waits_for_its_session_with_all_that_it_sends_and_others_go_on(tmp_path: Path) -> None:
    kernel = asleep(tmp_path, *[f"t/{number}" for number in range(600)])
    other = kernel.connect("other")
    peer = coming(kernel)
    peer.feed(peer.encoded(publish("t/1", b"mine", 1, 5)))
    kernel.turn()
    other.feed(other.encoded(publish("t/2", b"other's", 1, 1)))
    assert kernel.sessions.held("sub") is None  # there is more of it to read
    assert peer.received() == []
    kernel.run()
    assert other.heard() == ["PUBACK #1"]
    heard = peer.heard()
    assert heard[0] == "CONNACK 0x00 present"
    assert heard.count("PUBACK #5") == 1
    assert sum(said.startswith("PUBLISH t/") for said in heard) == 2
    session = kernel.sessions.held("sub")
    assert session is not None
    assert len(session.subscriptions) == 600


def test_two_connections_of_a_client_whose_session_is_read(tmp_path: Path) -> None:
    kernel = asleep(tmp_path)
    first, second = coming(kernel), coming(kernel)
    kernel.run()
    assert first.heard() == ["CONNACK 0x00 present", "DISCONNECT 0x8e"]
    assert second.heard() == ["CONNACK 0x00 present"]
    kernel.connect("pub").publish("t", b"x", 1)
    assert second.heard() == ["PUBLISH t 'x' q1 #1"]


def test_a_session_is_read_once_however_many_connections_come_for_it(tmp_path: Path) -> None:
    kernel = asleep(tmp_path, *[f"t/{number}" for number in range(600)])
    before = kernel.state.reads_count
    first = coming(kernel)
    kernel.run()
    alone = kernel.state.reads_count - before
    kernel = kernel.crash()
    before = kernel.state.reads_count
    gone, *peers, last = [coming(kernel) for _ in range(12)]
    kernel.turn()
    gone.wire.close()
    peers[0].wire.close()
    kernel.run()
    # The first that stays begins anew.
    assert kernel.state.reads_count - before <= 2 * alone
    assert first.heard() == last.heard() == ["CONNACK 0x00 present"]
    assert [peer.heard() for peer in peers[1:]] == [["CONNACK 0x00 present", "DISCONNECT 0x8e"]] * 9
    assert kernel.durable.statistics()["durable_sessions.lookups_waiting"] == 0


def test_a_clean_start_comes_while_the_session_is_read_for_another_connection(tmp_path: Path) -> None:
    kernel = asleep(tmp_path)
    first, second = coming(kernel), coming(kernel, clean_start=True)
    kernel.run()
    assert first.heard() == ["CONNACK 0x00 present", "DISCONNECT 0x8e"]
    assert second.heard() == ["CONNACK 0x00"]
    session = kernel.sessions.held("sub")
    assert session is not None
    assert session.subscriptions == {}


def test_a_client_goes_while_its_session_is_read(tmp_path: Path) -> None:
    kernel = asleep(tmp_path)
    peer = coming(kernel)
    peer.drop()
    assert peer.received() == []
    again = coming(kernel)
    kernel.run()
    assert again.heard() == ["CONNACK 0x00 present"]


def pass_time(kernel: DurableKernel, seconds: int, *, tick: bool) -> None:
    """Let time pass and no turn; `tick` has the sessions end whose time is over."""
    kernel.now_us += seconds * 1_000_000
    kernel.broker.begin_turn(kernel.now_us)
    if tick:
        kernel.sessions.expire(kernel.broker.uptime_us)


def ends_of(kernel: DurableKernel) -> list[str]:
    """The clients whose sessions end from now on because of their age."""
    ended: list[str] = []
    kernel.broker.hooks.point(hooks.SESSION_TERMINATED).add(lambda clientid, *_: ended.append(clientid))
    return ended


@cases("tick", [True, False])
def test_a_session_whose_time_is_over_while_it_is_read_is_not_resumed(tmp_path: Path, tick: bool) -> None:
    kernel = asleep(tmp_path, *[f"t/{number}" for number in range(600)])
    ended = ends_of(kernel)
    peer = coming(kernel)
    kernel.turn()
    assert kernel.sessions.held("sub") is None  # there is more of it to read
    pass_time(kernel, 700, tick=tick)
    kernel.run()
    assert peer.heard() == ["CONNACK 0x00"]
    assert ended == ["sub"]
    kernel.connect("pub").publish("t/1", b"x", 1)
    assert peer.heard() == []
    assert kernel.sessions.statistics() == {"sessions.count": 2, "sessions.away": 0}
    assert kernel.broker.statistics()["subscriptions.count"] == 0


@cases(("clean_start", "expiry_s"), [(False, 600), (True, 600), (True, 0)])
def test_a_client_that_comes_between_the_end_of_its_session_and_the_next_tick(
    tmp_path: Path, clean_start: bool, expiry_s: int
) -> None:
    kernel = asleep(tmp_path)
    ended = ends_of(kernel)
    pass_time(kernel, 700, tick=False)
    peer = coming(kernel, clean_start=clean_start, expiry_s=expiry_s)
    kernel.run()
    assert peer.heard() == ["CONNACK 0x00"]
    kernel.advance(5)  # the timer of the session that is over is not this one's
    assert ended == ["sub"]
    peer.subscribe("u", 1)
    kernel.connect("pub").publish("u", b"x", 1)
    assert peer.heard() == ["PUBLISH u 'x' q1 #1"]
    assert kernel.sessions.statistics() == {"sessions.count": 2, "sessions.away": 0}


def test_nothing_of_a_session_that_is_over_comes_back_after_one_in_memory(tmp_path: Path) -> None:
    kernel = asleep(tmp_path, "old")
    pass_time(kernel, 700, tick=False)
    peer = coming(kernel, clean_start=True, expiry_s=0)
    kernel.run()
    peer.drop()
    leave(kernel, "sub", "new")
    again = kernel.crash()
    peer = coming(again)
    again.run()
    assert peer.heard() == ["CONNACK 0x00 present"]
    session = again.sessions.held("sub")
    assert session is not None
    assert list(session.subscriptions) == ["new"]


def test_a_session_that_cannot_be_read_refuses_its_client_and_no_other(tmp_path: Path) -> None:
    kernel = asleep(tmp_path)
    kernel.state.fault = StorageError("input/output error", database="sessions")
    peer = coming(kernel)
    kernel.run()
    assert peer.heard() == [f"CONNACK 0x{rc.SERVER_UNAVAILABLE:02x}"]
    assert kernel.durable.statistics()["durable_sessions.unreadable"] == 1
    assert kernel.connect("other").closed() is False
    kernel.state.fault = None
    assert kernel.come("sub").heard()[0] == "CONNACK 0x00 present"


def test_messages_in_flight_are_read_before_the_session_goes_on(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, session_options=replace(SESSION, max_inflight=8))
    leave(kernel, "sub", "t")
    pub = kernel.connect("pub")
    for number in range(5):
        pub.publish("t", b"%d" % number, 1)
    sub = kernel.come("sub")
    assert len(sub.received()) == 6
    kernel.advance(60)
    again = kernel.crash()
    peer = coming(again)
    turns = 0
    while again.context.channels.find("sub") is None:
        assert turns < 100
        again.turn()
        turns += 1
    assert turns >= 5  # a message in each
    again.run()
    received = peer.received()
    assert isinstance(received[0], p.Connack)
    repeated = [packet for packet in received if isinstance(packet, p.Publish)]
    assert [(packet.payload, packet.dup) for packet in repeated] == [(b"%d" % number, True) for number in range(5)]


def test_many_clients_come_back_at_once(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    for number in range(100):
        leave(kernel, f"sub-{number}", "t")
    again = kernel.crash()
    peers = [coming(again, f"sub-{number}") for number in range(100)]
    again.turn()
    assert 0 < again.durable.statistics()["durable_sessions.lookups_waiting"] < 100  # a turn does some of it
    again.run()
    assert [peer.heard() for peer in peers] == [["CONNACK 0x00 present"]] * 100
    assert again.durable.statistics()["durable_sessions.lookups_waiting"] == 0

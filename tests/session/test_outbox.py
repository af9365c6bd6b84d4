"""One write for each connection and turn, whatever was put in."""

from heliograph.session.outbox import Outbox
from support.kernel import FakeWire, Kernel


def test_everything_of_a_turn_is_one_write() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    sub.subscribe("t", 1)
    writes = sub.wire.writes_count
    pub.send_bytes(b"\x32\x08\x00\x01t\x00\x01\x00xy" * 20)
    assert len(sub.received()) == 20
    assert sub.wire.writes_count == writes + 1
    assert pub.wire.writes_count == 2  # CONNACK, then all PUBACKs


def test_order_and_counting() -> None:
    kernel = Kernel()
    wire = FakeWire()
    outbox = Outbox(kernel.context.flusher, wire)
    outbox.put(b"one ")
    outbox.put_pieces(b"head ", b"id", b" tail ")
    outbox.put(b"two")
    assert outbox.waiting_bytes == len(b"one head id tail two")
    assert bytes(wire.written) == b""
    kernel.run()
    assert bytes(wire.written) == b"one head id tail two"
    assert outbox.waiting_bytes == 0
    assert kernel.broker.counters.bytes_sent == len(wire.written)


def test_closing_comes_behind_what_waits_even_in_congestion() -> None:
    kernel = Kernel()
    wire = FakeWire()
    outbox = Outbox(kernel.context.flusher, wire)
    outbox.set_congested(True)
    outbox.put(b"last words")
    kernel.run()
    assert not wire.written
    outbox.close_after_flush()
    kernel.run()
    assert bytes(wire.written) == b"last words"
    assert wire.closed


def test_a_connection_that_is_gone_is_not_written_to() -> None:
    kernel = Kernel()
    wire = FakeWire()
    outbox = Outbox(kernel.context.flusher, wire)
    outbox.put(b"too late")
    outbox.abandon()
    outbox.set_congested(False)
    kernel.run()
    assert not wire.written
    assert not wire.closed


def test_a_receiver_that_lost_its_connection_in_this_turn_gets_the_message_when_it_is_back() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub", session_expiry_interval=60), kernel.connect("pub")
    sub.subscribe("t", 1)
    pub.feed(b"\x32\x08\x00\x01t\x00\x01\x00xy")  # in the outbox of `sub`, which is not flushed yet
    sub.drop()
    again = kernel.peer()
    again.connect("sub", clean_start=False)
    assert again.heard() == ["CONNACK 0x00 present", "PUBLISH t 'xy' q1 #1 dup"]


def test_nothing_passes_a_hold_before_its_commits() -> None:
    kernel, wire = Kernel(), FakeWire()
    outbox = Outbox(kernel.context.flusher, wire)
    outbox.put(b"before")
    assert outbox.add_barrier(2, 1)
    outbox.put(b"held")
    assert not outbox.add_barrier(3, 0)
    outbox.put(b"longer")
    kernel.run()
    assert wire.written == b"before"
    assert outbox.release(2, 0)
    kernel.run()
    assert wire.written == b"before"
    assert outbox.release(2, 1)
    kernel.run()
    assert wire.written == b"beforeheld"
    assert not outbox.release(3, 1)
    kernel.run()
    assert wire.written == b"beforeheldlonger"
    assert outbox.waiting_bytes == 0


def test_holds_for_the_same_place_or_for_earlier_commits_are_one() -> None:
    kernel, wire = Kernel(), FakeWire()
    outbox = Outbox(kernel.context.flusher, wire)
    assert outbox.add_barrier(2, 0)
    assert not outbox.add_barrier(1, 4)
    outbox.put(b"a")
    assert not outbox.add_barrier(2, 3)
    outbox.put(b"b")
    assert outbox.release(2, 3)
    assert not outbox.release(2, 4)
    kernel.run()
    assert wire.written == b"ab"


def test_a_connection_closes_behind_what_is_held() -> None:
    kernel, wire = Kernel(), FakeWire()
    outbox = Outbox(kernel.context.flusher, wire)
    outbox.add_barrier(1, 0)
    outbox.put(b"last words")
    outbox.close_after_flush()
    kernel.run()
    assert not wire.closed
    outbox.release(1, 0)
    kernel.run()
    assert (bytes(wire.written), wire.closed) == (b"last words", True)


def test_a_connection_that_is_gone_holds_nothing() -> None:
    outbox = Outbox(Kernel().context.flusher, FakeWire())
    outbox.add_barrier(1, 0)
    outbox.abandon()
    assert not outbox.release(0, 0)


def test_a_reader_that_stops_costs_a_copy_of_one_piece_and_not_of_all_that_waits() -> None:
    kernel = Kernel()
    wire = StallingWire()
    outbox = Outbox(kernel.context.flusher, wire)
    wire.outbox = outbox
    message = bytes(50_000)
    for _ in range(20):
        outbox.put(message)
    kernel.run()
    assert len(wire.written) == 150_000
    assert outbox.waiting_bytes == 850_000
    assert kernel.broker.counters.bytes_sent == 150_000
    wire.stalls = False
    outbox.set_congested(False)
    kernel.run()
    assert len(wire.written) == 1_000_000
    assert outbox.waiting_bytes == 0
    assert kernel.broker.counters.bytes_sent == 1_000_000


class StallingWire(FakeWire):
    """Tells its outbox at the first write that the peer takes no more, as a transport with a full buffer does."""

    outbox: Outbox
    stalls = True

    def write(self, data: bytes) -> None:
        super().write(data)
        if self.stalls:
            self.outbox.set_congested(True)

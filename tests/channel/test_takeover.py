"""A second connection with the same client id takes the session over."""

from dataclasses import replace

from heliograph.broker import hooks
from heliograph.broker.pending import Pending
from heliograph.channel.handles import ChannelHandle
from heliograph.mqtt import packets as p
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL
from support.packets import properties


@cases(("version", "said"), [(p.V5, ["DISCONNECT 0x8e"]), (p.V3_1_1, [])])
def test_the_first_connection_is_told_and_closed(version: int, said: list[str]) -> None:
    kernel = Kernel()
    first = kernel.connect("c", version=version)
    second = kernel.peer()
    second.connect("c")
    assert first.heard() == said  # [MQTT-3.1.4-3]
    assert first.closed()
    assert second.heard() == ["CONNACK 0x00"]
    assert not second.closed()
    assert kernel.context.channels.statistics() == {"connections.open": 1, "live_connections.count": 1}


def test_the_session_goes_on_with_the_second_connection_alone() -> None:
    kernel = Kernel()
    first = kernel.connect("c", session_expiry_interval=60)
    first.subscribe("t", 1)
    pub = kernel.connect("pub")
    pub.publish("t", b"one", 1)
    assert first.heard() == ["PUBLISH t 'one' q1 #1"]
    second = kernel.peer()
    second.connect("c", clean_start=False, session_expiry_interval=60)
    pub.publish("t", b"two", 1)
    assert first.heard() == ["DISCONNECT 0x8e"]
    assert second.heard() == ["CONNACK 0x00 present", "PUBLISH t 'one' q1 #1 dup", "PUBLISH t 'two' q1 #2"]


def test_a_session_that_does_not_outlive_its_connection_is_not_taken_over() -> None:
    kernel = Kernel()
    first = kernel.connect("c")
    first.subscribe("t", 1)
    second = kernel.peer()
    second.connect("c", clean_start=False)
    kernel.connect("pub").publish("t", b"x", 1)
    assert second.heard() == ["CONNACK 0x00"]


def test_what_the_first_connection_still_sends_is_not_taken() -> None:
    kernel = Kernel()
    sub = kernel.connect("sub")
    sub.subscribe("t")
    first = kernel.connect("c")
    second = kernel.peer()
    second.feed(b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x01c")
    first.feed(b"\x30\x05\x00\x01t\x00x")  # before the turn ends in which it is closed
    kernel.run()
    assert sub.heard() == []
    assert first.heard() == ["DISCONNECT 0x8e"]


def test_the_end_of_the_first_connection_does_not_end_the_second() -> None:
    kernel = Kernel()
    first = kernel.connect("c", session_expiry_interval=60)
    second = kernel.connect("c", clean_start=True, session_expiry_interval=60)
    first.drop()
    second.subscribe("t", 1)
    kernel.connect("pub").publish("t", b"x", 1)
    assert second.heard() == ["PUBLISH t 'x' q1 #1"]
    assert kernel.sessions.find("c") is not None


@cases(
    ("clean_start", "delay_s", "will_heard"),
    [
        (False, 0, True),
        (True, 0, True),
        (False, 10, False),  # the session goes on before the delay has passed [MQTT-3.1.3-9]
        (True, 10, True),  # the session ends, and so does the delay
    ],
)
def test_the_will_of_the_first_connection(clean_start: bool, delay_s: int, will_heard: bool) -> None:
    kernel = Kernel()
    watcher = kernel.connect("watcher")
    watcher.subscribe("w")
    will = p.Will("w", b"gone", 0, False, properties(will_delay_interval=delay_s))
    kernel.connect("c", will=will, session_expiry_interval=60)
    kernel.connect("c", clean_start=True, session_expiry_interval=60) if clean_start else resume(kernel)
    assert watcher.heard() == (["PUBLISH w 'gone' q0"] if will_heard else [])
    kernel.advance(30)
    assert watcher.heard() == []


def resume(kernel: Kernel) -> None:
    peer = kernel.peer()
    peer.connect("c", clean_start=False, session_expiry_interval=60)
    assert peer.heard() == ["CONNACK 0x00 present"]


@cases(
    ("expiry_s", "clean_start", "told"),
    [
        (60, False, ["takenover", "c takenover", "resumed"]),
        (60, True, ["c discarded", "discarded", "created"]),
        (0, True, ["discarded", "c discarded", "created"]),
        (0, False, ["terminated", "c takenover", "created"]),  # it ended with its connection
    ],
)
def test_what_callbacks_hear_of_it(expiry_s: int, clean_start: bool, told: list[str]) -> None:
    kernel = Kernel()
    first = kernel.connect("c", session_expiry_interval=expiry_s)
    heard: list[str] = []
    for name in ("created", "resumed", "takenover", "discarded", "terminated"):
        kernel.broker.hooks.point(f"session.{name}").add(lambda *args, name=name: heard.append(name))
    kernel.broker.hooks.point(hooks.CLIENT_DISCONNECTED).add(
        lambda client, reason, *_: heard.append(f"{client.clientid} {reason}")
    )
    second = kernel.peer()
    second.connect("c", clean_start=clean_start)
    first.drop()
    assert heard == told
    assert not second.closed()


def test_a_session_that_waits_is_resumed_and_not_taken_over() -> None:
    kernel = Kernel()
    kernel.connect("c", session_expiry_interval=60).drop()
    heard: list[str] = []
    for name in ("resumed", "takenover"):
        kernel.broker.hooks.point(f"session.{name}").add(lambda *args, name=name: heard.append(name))
    kernel.peer().connect("c", clean_start=False)
    assert heard == ["resumed"]


def test_a_taken_over_client_that_waited_for_something_waits_no_more() -> None:
    kernel = Kernel(stored=["s"])
    first = kernel.connect("c", session_expiry_interval=60)
    first.publish("s", b"x", 1, 1)
    first.publish("s", b"x", 2, 2)
    second = kernel.peer()
    second.connect("c", clean_start=False)
    kernel.commit()
    assert first.heard() == ["DISCONNECT 0x8e"]
    assert second.heard() == ["CONNACK 0x00 present"]
    second.publish("s", b"x", 2, 2, dup=True)
    second.ack(p.PUBREL, 2)
    assert second.heard() == ["PUBREC #2", "PUBCOMP #2"]
    assert len(kernel.sink.messages) == 2


# --- another connection that parts later


class Elsewhere(ChannelHandle):
    """The connection of client "c" at another node, which takes some time to part with it."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.asked: list[bool] = []  # whether the session was to be discarded
        self.cancelled_count = 0
        self._parting: list[Pending[bool]] = []
        kernel.context.channels.register("c", self)

    def take_over(self, discard: bool) -> Pending[bool] | None:
        self.asked.append(discard)
        pending: Pending[bool] = Pending()
        pending.on_cancel(self._on_cancel)
        self._parting.append(pending)
        return pending

    def abort(self) -> None:
        """There is no connection here."""

    def part(self, has_parted: bool = True) -> None:
        """Answer all that wait, and run what comes of it."""
        if has_parted:
            self._kernel.context.channels.unregister("c", self)
        for pending in self._parting:
            pending.resolve(has_parted)
        self._kernel.run()

    def _on_cancel(self) -> None:
        self.cancelled_count += 1


def coming(kernel: Kernel, *, clean_start: bool = False) -> Peer:
    """A client that sends CONNECT, and something behind it."""
    peer = kernel.peer()
    peer.connect("c", clean_start=clean_start)
    peer.send(p.Ping(p.PINGREQ))
    return peer


@cases("clean_start", [False, True])
def test_a_client_is_let_in_when_the_other_connection_has_parted_and_no_other_client_waits(clean_start: bool) -> None:
    kernel = Kernel()
    elsewhere = Elsewhere(kernel)
    peer = coming(kernel, clean_start=clean_start)
    other = kernel.connect("other")
    kernel.advance(5)
    assert (peer.heard(), peer.paused(), other.paused()) == ([], True, False)
    assert elsewhere.asked == [clean_start]
    elsewhere.part()
    assert peer.heard() == ["CONNACK 0x00", "PINGRESP"]
    assert not peer.paused()
    assert elsewhere.asked == [clean_start]


def test_a_client_is_refused_when_the_other_connection_does_not_part_in_time() -> None:
    kernel = Kernel()
    elsewhere = Elsewhere(kernel)
    peer = coming(kernel)
    kernel.advance(14)
    assert peer.heard() == []
    kernel.advance(1)
    assert (peer.heard(), elsewhere.cancelled_count) == (["CONNACK 0x88"], 1)
    assert kernel.context.channels.find("c") is elsewhere
    elsewhere.part()
    assert coming(kernel).heard() == ["CONNACK 0x00", "PINGRESP"]


def test_a_client_waits_for_another_connection_for_ever_where_there_is_no_deadline() -> None:
    kernel = Kernel(replace(CHANNEL, idle_timeout_us=0))
    elsewhere = Elsewhere(kernel)
    peer = coming(kernel)
    kernel.advance(1000)
    elsewhere.part()
    assert peer.heard() == ["CONNACK 0x00", "PINGRESP"]


def test_a_client_is_refused_when_the_other_connection_says_that_it_cannot_part() -> None:
    kernel = Kernel()
    elsewhere = Elsewhere(kernel)
    peer = coming(kernel)
    elsewhere.part(has_parted=False)
    assert peer.heard() == ["CONNACK 0x88"]
    assert kernel.context.channels.find("c") is elsewhere


def test_a_client_that_goes_while_it_waits_for_another_connection_takes_nothing_over() -> None:
    kernel = Kernel()
    elsewhere = Elsewhere(kernel)
    peer = coming(kernel)
    peer.drop()
    assert elsewhere.cancelled_count == 1
    elsewhere.part()
    assert kernel.context.channels.find("c") is None
    assert len(kernel.context.channels) == 0
    assert kernel.sessions.held("c") is None


def test_two_clients_wait_for_the_same_connection_and_the_last_one_stays() -> None:
    kernel = Kernel()
    elsewhere = Elsewhere(kernel)
    first, second = coming(kernel), coming(kernel)
    elsewhere.part()
    assert first.heard() == ["CONNACK 0x00", "DISCONNECT 0x8e"]
    assert second.heard() == ["CONNACK 0x00", "PINGRESP"]
    assert elsewhere.asked == [False, False]
    assert kernel.context.channels.statistics() == {"connections.open": 1, "live_connections.count": 1}


def test_a_session_that_came_back_meanwhile_goes_on() -> None:
    """What the other node had of the session is here when its connection has parted."""
    kernel = Kernel()
    elsewhere = Elsewhere(kernel)
    peer = coming(kernel)
    kernel.sessions.open("c", False, kernel.options.session, 60)
    elsewhere.part()
    assert peer.heard() == ["CONNACK 0x00 present", "PINGRESP"]

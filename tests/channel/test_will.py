"""When a will is published, when later, and when never."""

from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from retainer.retaining import read
from support.cases import cases
from support.kernel import Kernel, Peer
from support.packets import properties


def watched(kernel: Kernel, qos: int = 0) -> Peer:
    watcher = kernel.connect("watcher", session_expiry_interval=10_000)
    watcher.subscribe("w/#", qos)
    return watcher


def will(delay_s: int = 0, *, qos: int = 0, retain: bool = False, **named: int | str) -> p.Will:
    shown = properties(will_delay_interval=delay_s, **named) if delay_s else properties(**named)
    return p.Will("w/c", b"gone", qos, retain, shown)


GONE = ["PUBLISH w/c 'gone' q0"]


@cases("version", [p.V3_1, p.V3_1_1, p.V5])
def test_a_connection_that_is_lost(version: int) -> None:
    kernel = Kernel()
    watcher = watched(kernel)
    kernel.connect(version=version, will=will()).drop()
    assert watcher.heard() == GONE


@cases("version", [p.V3_1, p.V3_1_1, p.V5])
def test_disconnect_takes_the_will_back(version: int) -> None:
    kernel = Kernel()
    watcher = watched(kernel)
    peer = kernel.connect(version=version, will=will())
    peer.disconnect()
    assert peer.closed()
    kernel.advance(100)
    assert watcher.heard() == []  # [MQTT-3.14.4-3]


@cases("code", [rc.DISCONNECT_WITH_WILL, rc.UNSPECIFIED_ERROR])
def test_disconnect_with_another_code_leaves_it(code: int) -> None:
    kernel = Kernel()
    watcher = watched(kernel)
    kernel.connect(will=will()).disconnect(code)
    assert watcher.heard() == GONE


def test_a_protocol_error() -> None:
    kernel = Kernel()
    watcher = watched(kernel)
    kernel.connect(will=will()).send_bytes(b"\x00\x00")
    assert watcher.heard() == GONE


def test_silence() -> None:
    kernel = Kernel()
    watcher = watched(kernel)
    kernel.connect(will=will(), keepalive_s=10)
    kernel.advance(15)
    assert watcher.heard() == []
    kernel.advance(1)
    assert watcher.heard() == GONE


def test_the_end_of_the_broker() -> None:
    kernel = Kernel()
    watcher = watched(kernel)
    kernel.connect(will=will())
    kernel.context.channels.shut_down(rc.SERVER_SHUTTING_DOWN)
    kernel.run()
    assert "DISCONNECT 0x8b" in watcher.heard()


def test_a_delayed_will_waits() -> None:
    kernel = Kernel()
    watcher = watched(kernel)
    kernel.connect(will=will(10), session_expiry_interval=100).drop()
    kernel.advance(9)
    assert watcher.heard() == []
    kernel.advance(1)
    assert watcher.heard() == GONE
    kernel.advance(100)
    assert watcher.heard() == []


def test_a_delayed_will_does_not_outlive_its_session() -> None:
    kernel = Kernel()
    watcher = watched(kernel)
    kernel.connect("short", will=will(100), session_expiry_interval=10).drop()
    kernel.connect("none", will=will(100)).drop()
    assert watcher.heard() == GONE  # of "none", whose session ended with its connection
    kernel.advance(10)
    assert watcher.heard() == GONE
    kernel.advance(100)
    assert watcher.heard() == []


def test_a_client_that_comes_back_in_time_takes_its_will_back() -> None:
    kernel = Kernel()
    watcher = watched(kernel)
    kernel.connect(will=will(10), session_expiry_interval=100).drop()
    kernel.advance(9)
    again = kernel.peer()
    again.connect("c", clean_start=False, session_expiry_interval=100)
    kernel.advance(50)
    assert watcher.heard() == []  # [MQTT-3.1.3-9]
    again.drop()
    kernel.advance(200)
    assert watcher.heard() == []  # the second CONNECT brought no will


def test_a_delay_that_disconnect_shortens_with_its_session() -> None:
    kernel = Kernel()
    watcher = watched(kernel)
    peer = kernel.connect(will=will(100), session_expiry_interval=100)
    peer.disconnect(rc.DISCONNECT_WITH_WILL, session_expiry_interval=0)
    assert watcher.heard() == GONE


def test_a_will_carries_its_qos_its_flag_and_its_properties() -> None:
    kernel = Kernel(stored=["#"])
    watcher = watched(kernel, 2)
    named: dict[str, int | str] = {"content_type": "text", "message_expiry_interval": 60, "payload_format_indicator": 1}
    kernel.connect(will=will(5, qos=1, retain=True, **named), username="u", session_expiry_interval=60).drop()
    kernel.advance(5)
    publish = watcher.take(p.Publish)
    assert (publish.qos, publish.retain, publish.payload) == (1, False, b"gone")
    decoded = props.properties_from_wire(publish.property_bytes, props.ALLOWED_PUBLISH)
    assert decoded == properties(**named)  # without the delay, which is nobody's business
    assert read(kernel.retainer.match("w/c")) == [("w/c", b"gone")]
    ((_, message),) = kernel.sink.messages
    assert (message.clientid, message.username) == ("c", "u")


def test_the_lifetime_of_a_delayed_will_begins_when_it_is_published() -> None:
    kernel = Kernel()
    watcher = watched(kernel, 1)
    watcher.drop()
    kernel.connect(will=will(30, qos=1, message_expiry_interval=20), session_expiry_interval=60).drop()
    kernel.advance(30)
    kernel.advance(5)
    again = kernel.peer()
    again.connect("watcher", clean_start=False)
    connack, publish = again.received()
    assert isinstance(connack, p.Connack)
    assert isinstance(publish, p.Publish)
    assert publish.property_bytes == b"\x02" + (15).to_bytes(4, "big")


def test_a_client_may_watch_its_own_will() -> None:
    kernel = Kernel()
    peer = kernel.connect(will=will(qos=1), session_expiry_interval=60)
    peer.subscribe("w/c", 1)
    peer.drop()
    again = kernel.peer()
    again.connect("c", clean_start=False)
    assert again.heard() == ["CONNACK 0x00 present", "PUBLISH w/c 'gone' q1 #1"]

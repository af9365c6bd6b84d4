"""Who is let in, and what CONNACK says."""

from dataclasses import replace

from heliograph.broker import hooks
from heliograph.broker.authentication import AuthAttempt
from heliograph.broker.client import ClientInfo
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import START_US, Kernel
from support.options import CHANNEL
from support.packets import properties
from support.wire import wire

NONE = properties()
V3 = [p.V3_1, p.V3_1_1]


def will(topic: str = "w", qos: int = 0, retain: bool = False, **named: str) -> p.Will:
    return p.Will(topic, b"bye", qos, retain, properties(**named))


def refusal(kernel: Kernel, version: int, **fields: object) -> str:
    """What a client hears whose CONNECT is refused; the connection must be closed."""
    peer = kernel.peer(version)
    packet = p.Connect(version, "c", True, 0, None, None, None, NONE)
    for name, value in fields.items():
        setattr(packet, name, value)
    peer.send(packet)
    assert peer.closed()
    assert kernel.sessions.find("c") is None
    (heard,) = peer.heard()
    return heard


@cases("version", [p.V3_1, p.V3_1_1, p.V5])
def test_a_client_is_let_in(version: int) -> None:
    kernel = Kernel()
    peer = kernel.peer(version)
    peer.connect("c")
    assert peer.heard() == ["CONNACK 0x00"]
    assert not peer.closed()
    assert kernel.context.channels.statistics() == {"connections.open": 1, "live_connections.count": 1}
    assert repr(peer.channel) == "Channel('c' at 192.0.2.1:50000, connected)"


def test_connack_says_what_the_broker_can_do() -> None:
    connack = connack_of(Kernel())
    assert connack.properties.named() == {
        "Topic-Alias-Maximum": 65_535,
        "Maximum-Packet-Size": 1_048_576,
        "Receive-Maximum": 1000,
    }


def test_connack_says_what_the_operator_forbids() -> None:
    options = replace(
        CHANNEL,
        max_qos_allowed=1,
        retain_available=False,
        wildcard_subscription=False,
        shared_subscription=False,
        max_topic_alias=0,
        server_keepalive_s=30,
    )
    assert connack_of(Kernel(options)).properties.named() == {
        "Server-Keep-Alive": 30,
        "Maximum-QoS": 1,
        "Retain-Available": 0,
        "Wildcard-Subscription-Available": 0,
        "Maximum-Packet-Size": 1_048_576,
        "Receive-Maximum": 1000,
        "Shared-Subscription-Available": 0,
    }


def connack_of(kernel: Kernel) -> p.Connack:
    peer = kernel.peer()
    peer.connect("c")
    return peer.take(p.Connack)


def test_a_client_without_an_id_is_given_one() -> None:
    kernel = Kernel()
    peer = kernel.peer()
    peer.connect("")
    assert peer.take(p.Connack).properties.named()["Assigned-Client-Identifier"] == "assigned-1"
    other = kernel.peer(p.V3_1_1)
    other.connect("")
    assert other.heard() == ["CONNACK 0x00"]
    assert kernel.sessions.find("assigned-2") is not None


def test_an_empty_id_in_mqtt_5_needs_no_clean_start() -> None:
    kernel = Kernel()
    peer = kernel.peer()
    peer.connect("", clean_start=False)
    assert peer.heard() == ["CONNACK 0x00"]


def test_an_empty_id_in_mqtt_3_needs_a_clean_session() -> None:
    assert refusal(Kernel(), p.V3_1_1, clientid="", clean_start=False) == "CONNACK 0x85"  # 3.1.1 [MQTT-3.1.3-8]


@cases(("version", "said"), [(p.V3_1_1, "CONNACK 0x85"), (p.V5, "CONNACK 0x85")])
def test_a_client_id_that_is_too_long(version: int, said: str) -> None:
    kernel = Kernel(replace(CHANNEL, max_clientid_len=8))
    assert refusal(kernel, version, clientid="123456789") == said
    assert refusal(kernel, version, clientid="äääää") == said  # bytes, not letters
    assert kernel.reports == [
        "client id of 9 bytes; at most 8 are allowed",
        "client id of 10 bytes; at most 8 are allowed",
    ]
    peer = kernel.peer(version)
    peer.connect("12345678")
    assert peer.heard() == ["CONNACK 0x00"]


def test_an_authentication_method_that_nobody_knows() -> None:
    named = properties(authentication_method="SCRAM-SHA-256")
    assert refusal(Kernel(), p.V5, properties=named) == "CONNACK 0x8c"


@cases(
    ("sent", "code"),
    [
        (will(""), rc.TOPIC_NAME_INVALID),
        (will("a/+"), rc.TOPIC_NAME_INVALID),
        (will("#"), rc.TOPIC_NAME_INVALID),
        (will("/" * 128), rc.TOPIC_NAME_INVALID),
        (will(qos=2), rc.QOS_NOT_SUPPORTED),
        (will(retain=True), rc.RETAIN_NOT_SUPPORTED),
        (will(response_topic="a/#"), rc.PROTOCOL_ERROR),
    ],
)
def test_wills_that_are_refused(sent: p.Will, code: int) -> None:
    kernel = Kernel(replace(CHANNEL, max_qos_allowed=1, retain_available=False))
    assert refusal(kernel, p.V5, will=sent) == f"CONNACK 0x{code:02x}"


@cases(
    ("data", "answer"),
    [
        ('10 # "MQTT" 06 02 003c {} "c"', "20 02 00 01"),  # MQTT 3.1.1: unacceptable protocol version
        ('10 # "MQTT" 02 02 003c "c"', "20 02 00 01"),
        ('10 # "HTTP" 04 02 003c "c"', "20 02 00 01"),
        ('10 # "MQTT" 04 00 003c ""', "20 02 00 02"),  # identifier rejected
        # a client of MQTT 5 is answered in MQTT 5
        ('10 # "MQTT" 05 02 003c { 21 0000 } "c"', '20 # 00 82 { 1f "Receive-Maximum is 0" }'),
        (
            '10 # "MQTT" 05 02 003c { 15 "x" } "c"',
            "20 # 00 8c { 1f \"client 'c' is refused: bad_authentication_method\" }",
        ),
        ('10 # "MQTT" 04 03 003c "c"', ""),  # no answer to what is malformed
        ('10 # "MQTT" 05 03 003c {} "c"', ""),
        ("10 #", ""),
        ("c0 #", ""),  # the first packet must be CONNECT [MQTT-3.1.0-1]
        ("30 # \"t\" 'x'", ""),
        ("'GET / HTTP/1.1'", ""),
        ("16 0301 00", ""),  # TLS
        ("10 ff ff ff 7f", ""),  # larger than any packet may be
        ("10 8080808001", ""),
    ],
)
def test_what_a_first_packet_is_answered_with(data: str, answer: str) -> None:
    kernel = Kernel()
    peer = kernel.peer()
    peer.send_bytes(wire(data))
    assert bytes(peer.wire.written) == wire(answer)
    assert peer.closed()
    assert len(kernel.reports) == 1
    assert kernel.broker.counters.protocol_errors == 1
    assert kernel.context.channels.statistics() == {"connections.open": 0, "live_connections.count": 0}


@cases("version", [p.V3_1_1, p.V5])
def test_a_second_connect_ends_the_connection(version: int) -> None:
    kernel = Kernel()
    peer = kernel.connect(version=version)
    peer.connect("c")
    assert peer.heard() == (["DISCONNECT 0x82"] if version == p.V5 else [])  # [MQTT-3.1.0-2]
    assert peer.closed()


def test_packets_may_follow_connect_in_the_same_piece() -> None:
    kernel = Kernel()
    peer = kernel.peer()
    entry = p.SubscribeEntry("t", 1, False, False, 0)
    peer.send(
        p.Connect(p.V5, "c", True, 0, None, None, None, NONE),
        p.Subscribe(1, [entry], NONE),
        p.Ping(p.PINGREQ),
    )
    assert peer.heard() == ["CONNACK 0x00", "SUBACK #1 [0x01]", "PINGRESP"]
    assert peer.wire.writes_count == 1


# --- the authentication hook


@cases(
    ("code", "version", "answer"),
    [
        (
            rc.BAD_USERNAME_OR_PASSWORD,
            p.V5,
            "20 # 00 86 { 1f \"client 'c' is refused: bad_username_or_password\" }",
        ),
        (rc.BAD_USERNAME_OR_PASSWORD, p.V3_1_1, "20 02 00 04"),
        (rc.NOT_AUTHORIZED, p.V3_1_1, "20 02 00 05"),
        (rc.BANNED, p.V5, "20 # 00 8a { 1f \"client 'c' is refused: banned\" }"),
        (rc.SERVER_BUSY, p.V3_1_1, "20 02 00 03"),
    ],
)
def test_a_callback_refuses_a_client(code: int, version: int, answer: str) -> None:
    kernel = Kernel()
    kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(lambda *args: (hooks.STOP, code))
    peer = kernel.peer(version)
    peer.connect("c", username="u", password=b"secret")
    assert bytes(peer.wire.written) == wire(answer)
    assert peer.closed()
    assert kernel.reports == [f"client 'c' is refused: {rc.name_of(code)}"]


def test_a_refused_client_disturbs_nobody_who_has_its_id() -> None:
    kernel = Kernel()
    first = kernel.connect("c")
    kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(lambda *args: (hooks.STOP, rc.NOT_AUTHORIZED))
    second = kernel.peer()
    second.connect("c")
    assert second.heard() == ["CONNACK 0x87"]
    assert not first.closed()
    assert first.heard() == []


def test_an_answer_that_is_no_code_refuses() -> None:
    kernel = Kernel()
    kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(lambda *args: (hooks.OK, "yes"))
    peer = kernel.peer()
    peer.connect("c")
    assert peer.heard() == ["CONNACK 0x87"]


def test_a_callback_sees_who_connects() -> None:
    kernel = Kernel()
    seen: list[tuple[ClientInfo, AuthAttempt, object]] = []
    kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(lambda *args: seen.append(args))
    kernel.peer(p.V3_1_1).connect("c", username="u", password=b"p", keepalive_s=7)
    ((client, attempt, accumulator),) = seen
    assert (client.clientid, client.username, client.version, client.keepalive_s) == ("c", "u", 4, 7)
    assert (client.peername, client.peerhost, client.sockname) == ("192.0.2.1:50000", "192.0.2.1", "192.0.2.2:1883")
    assert (client.listener, client.zone, client.mountpoint) == ("tcp:default", "default", "")
    assert client.connected_at_us == START_US
    assert (attempt.method, attempt.data, attempt.username, attempt.password) == (None, None, "u", b"p")
    assert not attempt.renews
    assert accumulator == rc.SUCCESS

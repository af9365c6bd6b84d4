"""The WebSocket of the load tool: the protocol without I/O, held against an independent implementation."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wsproto import ConnectionType, WSConnection
from wsproto.connection import Connection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Pong, Request, TextMessage

from heliograph.mqtt.errors import MalformedPacketError
from heliograph_bench.packets import BrokerRefusedError
from heliograph_bench.websocket import Frames, OpeningHandshake
from support.cases import cases
from support.forms import examples


def server() -> Connection:
    """The other end of a WebSocket that stands."""
    return Connection(ConnectionType.SERVER)


def test_the_handshake_asks_for_mqtt_and_takes_what_stands_behind_the_answer() -> None:
    handshake = OpeningHandshake("broker:8083", "/mqtt")
    peer = WSConnection(ConnectionType.SERVER)
    peer.receive_data(handshake.request)
    (request,) = peer.events()
    assert isinstance(request, Request)
    assert (request.host, request.target, request.subprotocols) == ("broker:8083", "/mqtt", ["mqtt"])
    answer = peer.send(AcceptConnection(subprotocol="mqtt"))
    assert handshake.receive(answer[:30]) is None
    assert handshake.receive(answer[30:] + b"\x82\x02hi") == b"\x82\x02hi"


@cases(
    ("answer", "said"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "refused the WebSocket: HTTP/1.1 404 Not Found"),
        (b"\x20\x02\x00\x01 no HTTP\r\n\r\n", "refused the WebSocket"),
        (b"HTTP/1.1 101 OK\r\nSec-WebSocket-Accept: xyz\r\n\r\n", "does not belong to this one"),
        (b"x" * 20_000, "no end"),
    ],
)
def test_a_server_that_does_not_speak_mqtt_over_websocket_is_refused(answer: bytes, said: str) -> None:
    with pytest.raises(BrokerRefusedError, match=said):
        OpeningHandshake("broker", "/mqtt").receive(answer)


def test_a_server_without_the_subprotocol_is_refused() -> None:
    handshake = OpeningHandshake("broker", "/mqtt")
    peer = WSConnection(ConnectionType.SERVER)
    peer.receive_data(handshake.request)
    with pytest.raises(BrokerRefusedError, match="subprotocol mqtt"):
        handshake.receive(peer.send(AcceptConnection()))


@given(st.lists(st.binary(max_size=300) | st.sampled_from([bytes(125), bytes(126), bytes(65535), bytes(65536)])))
def test_frames_out_are_understood(payloads: list[bytes]) -> None:
    frames, peer = Frames(), server()
    got = b""
    for payload in payloads:
        peer.receive_data(frames.data(payload))
        for event in peer.events():
            assert isinstance(event, BytesMessage)
            got += bytes(event.data)
    assert got == b"".join(payloads)


@settings(max_examples=examples(200))
@given(
    st.lists(
        st.tuples(st.binary(max_size=200) | st.sampled_from([b"", bytes(70_000)]), st.integers(1, 20), st.booleans()),
        max_size=8,
    ),
    st.integers(0, 2**32),
)
def test_frames_in_are_understood_however_they_are_cut(messages: list[tuple[bytes, int, bool]], seed: int) -> None:
    """Runs of equal frames, fragmented messages, pings between them; the stream cut anywhere."""
    random, peer, frames = Random(seed), server(), Frames()
    stream, expected, pings = b"", b"", 0
    for payload, times, pinged in messages:
        for _ in range(times):
            stream += peer.send(BytesMessage(data=payload[:7], message_finished=times != 3))
            if times == 3:
                stream += peer.send(BytesMessage(data=payload[7:], message_finished=True))
            expected += payload if times == 3 else payload[:7]
        if pinged:
            stream += peer.send(Ping(payload=b"there?"))
            pings += 1
    got = b""
    while stream:
        size = random.choice((1, 2, 3, 9, 500, 100_000))
        got += frames.receive(stream[:size])
        stream = stream[size:]
    assert got == expected
    peer.receive_data(frames.answers)
    assert [event for event in peer.events() if isinstance(event, Pong)] == [Pong(payload=b"there?")] * pings


def test_a_close_is_told_with_its_reason() -> None:
    frames, peer = Frames(), server()
    assert frames.receive(peer.send(CloseConnection(code=1008, reason="policy"))) == b""
    assert frames.closed == "WebSocket closed with 1008: policy"


@cases("wire", [server().send(TextMessage(data="hi")), b"\xc2\x01x", b"\x82\x81abcdx", b"\x83\x00"])
def test_what_no_broker_may_send_is_a_fault(wire: bytes) -> None:
    with pytest.raises(MalformedPacketError, match="may not send"):
        Frames().receive(wire)

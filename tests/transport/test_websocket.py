"""What WebSocket clients see, byte by byte: the handshake, frames both ways, goodbyes, and what is not MQTT."""

import logging
import os
import re
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.config.listeners import (
    DeflateOptions,
    SslOptions,
    TcpOptions,
    WebsocketOptions,
    WsListener,
    WssListener,
)
from heliograph.settings.units import UnixAddress
from heliograph.transport.protocol_transport import ProtocolTransport
from heliograph.transport.upgrade import REQUEST_BYTES_MAX
from support.cases import cases
from support.certificates import Authority
from support.listening import ANY_PORT, CONNACK, CONNECT, DISCONNECT, PINGREQ, PINGRESP, Rig, Socket, listening
from support.options import CHANNEL
from support.reach import reachable
from support.websocket import (
    ACCEPT,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    answer,
    close_frame,
    frame,
    goodbye,
    request,
    upgrade,
    upgraded,
)
from support.wire import varint, wire

SUBSCRIBE = wire('82 # 0001 "t" 00')
SUBACK = wire("90 # 0001 00")


def ws(**options: object) -> WsListener:
    return WsListener(bind=ANY_PORT, websocket=replace(WebsocketOptions(), **options))  # type: ignore[arg-type]  # they are options by name


async def connected(rig: Rig, **changes: str | None) -> Socket:
    """A client whose CONNECT was answered."""
    client = await upgraded(rig, **changes)
    await client.ask(frame(CONNECT), answer(CONNACK))
    return client


# --- the handshake


async def test_a_client_is_served() -> None:
    async with listening("ws", ws()) as rig:
        assert rig.listener.address == f"ws://127.0.0.1:{rig.port}/mqtt"
        client = await rig.socket()
        await client.say(request())
        response = (await client.hear_until(b"\r\n\r\n")).decode()
        assert response.startswith("HTTP/1.1 101 Switching Protocols\r\n")
        assert f"Sec-WebSocket-Accept: {ACCEPT}\r\n" in response
        assert "Sec-WebSocket-Protocol: mqtt\r\n" in response  # [MQTT-6.0.0-4] 3.1.1 [MQTT-6.0.0-4]
        await client.ask(frame(CONNECT), answer(CONNACK))
        await client.ask(frame(PINGREQ), answer(PINGRESP))


async def test_secure_websocket(authority: Authority) -> None:
    settings = WssListener(bind=ANY_PORT, ssl_options=SslOptions(certfile=str(authority.server())))
    async with listening("wss", settings) as rig:
        assert rig.listener.address == f"wss://127.0.0.1:{rig.port}/mqtt"
        client = await rig.socket(tls=authority.context())
        await client.say(request() + frame(CONNECT))
        assert (await client.hear_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert await client.hear(6) == answer(CONNACK)


async def test_over_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "ws.sock")
    async with Rig("ws", WsListener(bind=UnixAddress(path))) as rig:
        client = await rig.unix_socket(path)
        await client.say(request() + frame(CONNECT))
        assert (await client.hear_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert await client.hear(6) == answer(CONNACK)


@cases(
    "changes",
    [
        {"Connection": "keep-alive, Upgrade"},  # as Firefox writes it
        {"Connection": "upgrade", "Upgrade": "WebSocket"},
        {"Sec_WebSocket_Protocol": "other, mqtt"},
        {"Sec_WebSocket_Protocol": "mqtt-v5, mqtt"},
        {"Origin": "http://anywhere.example"},
        {"path": "/mqtt?token=1"},
        {"Sec_WebSocket_Extensions": "permessage-deflate; client_max_window_bits"},
    ],
    ids=str,
)
async def test_handshakes_that_are_taken(changes: dict[str, str | None]) -> None:
    async with listening("ws", ws()) as rig:
        client = await upgraded(rig, **changes)
        await client.ask(frame(CONNECT), answer(CONNACK))


@cases(
    ("changes", "status"),
    [
        ({"path": "/"}, 404),
        ({"path": "/mqtt/"}, 404),
        ({"start": "POST /mqtt HTTP/1.1"}, 405),
        ({"start": "GET /mqtt HTTP/1.0"}, 505),
        ({"start": "GET /mqtt"}, 400),
        ({"start": "MQTT"}, 400),
        ({"Upgrade": None}, 426),
        ({"Upgrade": "h2c"}, 426),
        ({"Connection": None}, 426),
        ({"Connection": "keep-alive"}, 426),
        ({"Sec_WebSocket_Key": None}, 400),
        ({"Sec_WebSocket_Key": "c2hvcnQ="}, 400),
        ({"Sec_WebSocket_Key": "*" * 24}, 400),
        ({"Sec_WebSocket_Version": None}, 400),
        ({"Sec_WebSocket_Version": "8"}, 400),
        ({"Sec_WebSocket_Protocol": None}, 400),  # [MQTT-6.0.0-3] 3.1.1 [MQTT-6.0.0-3]
        ({"Sec_WebSocket_Protocol": "chat"}, 400),
        ({"X": "a\r\n folded"}, 400),
        ({"X": "a\x00b"}, 400),
        ({"Transfer-Encoding": "chunked"}, 400),
    ],
    ids=str,
)
async def test_handshakes_that_are_refused(
    changes: dict[str, str | None], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with listening("ws", ws()) as rig:
        client = await rig.socket()
        await client.say(request(**changes) + frame(CONNECT))
        response = await client.hear_the_end()
        assert response.startswith(f"HTTP/1.1 {status} ".encode()), response
        assert rig.count("handshake_failures") == 1
        (line,) = (record.getMessage() for record in caplog.records)
        assert line.startswith(f"listener ws:test: connection of {client.address} failed: WebSocket handshake: ")
        await rig.until("current_connections", 0)


async def test_subprotocols_as_the_operator_wants_them() -> None:
    async with listening("ws", ws(supported_subprotocols="mqtt-v5", fail_if_no_subprotocol=False)) as rig:
        for offered, taken in (("mqtt", None), (None, None), ("mqtt, mqtt-v5", b"mqtt-v5")):
            client = await rig.socket()
            await client.say(request(Sec_WebSocket_Protocol=offered))
            response = await client.hear_until(b"\r\n\r\n")
            found = re.search(rb"Sec-WebSocket-Protocol: (\S+)", response)
            assert (found and found[1]) == taken


async def test_mqtt_is_the_subprotocol_whatever_else_a_client_asks_for() -> None:
    async with listening("ws", ws()) as rig:
        client = await rig.socket()
        await client.say(request(Sec_WebSocket_Protocol="mqtt-v5, mqtt, mqtt-v3"))
        assert b"Sec-WebSocket-Protocol: mqtt\r\n" in await client.hear_until(b"\r\n\r\n")


async def test_origins_as_the_operator_wants_them() -> None:
    options = ws(check_origin_enable=True, check_origins="https://a.example, https://b.example:8443")
    async with listening("ws", options) as rig:
        for origin in ("https://a.example", "https://b.example:8443", None):
            await upgraded(rig, Origin=origin)
        client = await rig.socket()
        await client.say(request(Origin="https://evil.example"))
        assert (await client.hear_the_end()).startswith(b"HTTP/1.1 403 ")


async def test_a_missing_origin_may_be_refused() -> None:
    options = ws(check_origin_enable=True, check_origins="https://a.example", allow_origin_absence=False)
    async with listening("ws", options) as rig:
        client = await rig.socket()
        await client.say(request())
        assert (await client.hear_the_end()).startswith(b"HTTP/1.1 403 ")


@cases(
    ("headers", "expected"),
    [
        ({"X_Forwarded_For": "192.0.2.7", "X_Forwarded_Port": "40000"}, "192.0.2.7:40000"),
        ({"X_Forwarded_For": "192.0.2.7, 10.0.0.1", "X_Forwarded_Port": "40000"}, "192.0.2.7:40000"),
        ({"X_Forwarded_For": "2001:db8::7", "X_Forwarded_Port": "40000"}, "[2001:db8::7]:40000"),
        ({"X_Forwarded_For": "192.0.2.7", "X_Forwarded_Port": "no port"}, "192.0.2.7:{port}"),
        ({"X_Forwarded_For": "unknown", "X_Forwarded_Port": "1"}, "127.0.0.1:1"),
        ({}, "127.0.0.1:{port}"),
    ],
    ids=str,
)
async def test_the_address_that_a_proxy_tells(headers: dict[str, str | None], expected: str) -> None:
    options = ws(proxy_address_header="X-Forwarded-For", proxy_port_header="X-Forwarded-Port")
    async with listening("ws", options) as rig:
        client = await upgraded(rig, **headers)
        port = client.address.rpartition(":")[2]
        await client.say(frame(b"no MQTT"))
        await client.hear(4)
        assert rig.reports[-1][0] == expected.format(port=port)


async def test_forwarded_addresses_are_not_believed_unless_the_operator_says_so() -> None:
    async with listening("ws", ws()) as rig:
        client = await upgraded(rig, X_Forwarded_For="192.0.2.7")
        await client.say(frame(b"no MQTT"))
        await client.hear(4)
        assert rig.reports[-1][0] == client.address


async def test_a_request_in_single_bytes() -> None:
    async with listening("ws", ws()) as rig:
        client = await rig.socket()
        for byte in request() + frame(CONNECT):
            await client.say(bytes((byte,)))
        await client.hear_until(b"\r\n\r\n")
        assert await client.hear(6) == answer(CONNACK)


@cases("first", [b"", b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\n"], ids=["silent", "slowloris"])
async def test_a_handshake_that_does_not_end_is_cut(first: bytes) -> None:
    async with listening("ws", ws(), replace(CHANNEL, idle_timeout_us=3_000_000)) as rig:
        client = await rig.socket(first=first)
        await rig.welcomed(1)
        for _ in range(2):
            await rig.advance(1.0)
            await client.say(b"X: a\r\n" if first else b"")
        assert rig.count("handshake_timeouts") == 0
        await rig.advance(2.0)
        assert await client.hear_the_end() == b""
        assert rig.count("handshake_timeouts") == 1
        await rig.until("current_connections", 0)


async def test_a_request_that_does_not_end_is_not_gathered() -> None:
    async with listening("ws", ws()) as rig:
        client = await rig.socket()
        await client.say(request()[:-2] + b"X: " + b"a" * REQUEST_BYTES_MAX)
        assert await client.hear_the_end() == b""
        assert rig.count("handshake_failures") == 1


async def test_half_open_handshakes_count_as_connections() -> None:
    async with listening("ws", replace(ws(), max_connections=1)) as rig:
        await rig.socket()
        await rig.welcomed(1)
        assert await (await rig.socket()).hear_the_end() == b""


# --- frames


async def test_what_a_turn_writes_is_one_message() -> None:
    async with listening("ws", ws()) as rig:
        client = await upgraded(rig)
        await client.ask(frame(CONNECT + PINGREQ * 3), answer(CONNACK + PINGRESP * 3))


async def test_each_packet_a_message_if_the_operator_wants_it() -> None:
    async with listening("ws", ws(mqtt_piggyback="single")) as rig:
        client = await upgraded(rig)
        await client.ask(frame(CONNECT + PINGREQ * 2), answer(CONNACK) + answer(PINGRESP) * 2)


async def test_packets_across_frames_and_frames_across_reads() -> None:  # [MQTT-6.0.0-2] 3.1.1 [MQTT-6.0.0-2]
    async with listening("ws", ws()) as rig:
        client = await upgraded(rig)
        stream = frame(CONNECT[:3]) + frame(CONNECT[3:9], fin=False) + frame(CONNECT[9:] + PINGREQ, CONTINUATION)
        for byte in stream:
            await client.say(bytes((byte,)))
        heard = b""
        while len(heard) < 6:
            heard += await client.hear((await client.hear(2))[1])
        assert heard == CONNACK + PINGRESP


async def test_large_messages_go_both_ways() -> None:
    async with listening("ws", ws()) as rig:
        client = await connected(rig)
        await client.ask(frame(SUBSCRIBE), answer(SUBACK))
        packet = publish(os.urandom(300_000))
        await client.ask(frame(packet), answer(packet))


async def test_a_ping_is_answered_with_what_it_holds() -> None:
    async with listening("ws", ws()) as rig:
        client = await connected(rig)
        await client.ask(frame(b"are you there?", PING), answer(b"are you there?", PONG))
        await client.ask(frame(PINGREQ[:1], fin=False) + frame(b"", PING), answer(b"", PONG))
        await client.ask(frame(b"unasked", PONG) + frame(PINGREQ[1:], CONTINUATION), answer(PINGRESP))


@cases(
    ("data", "code"),
    [
        (frame(CONNECT, TEXT), 1003),  # [MQTT-6.0.0-1] 3.1.1 [MQTT-6.0.0-1]
        (frame(CONNECT, mask=None), 1002),
        (frame(bytes(126), PING), 1002),
        (frame(b"", CONTINUATION), 1002),
        (frame(b"x", rsv=4), 1002),
        (frame(bytes(1001), fin=False), 1009),
        (frame(b"", length=1 << 62), 1009),
    ],
    ids=["text", "no mask", "long ping", "continuation", "compressed", "too long", "absurd length"],
)
async def test_peers_that_break_the_protocol(data: bytes, code: int) -> None:
    async with listening("ws", ws(max_frame_size=1000)) as rig:
        client = await connected(rig)
        await client.say(data + frame(PINGREQ))
        assert await client.hear_the_end() == goodbye(code)
        assert rig.count("handshake_failures") == 1


async def test_pongs_do_not_pile_up_for_a_peer_that_does_not_read() -> None:
    settings = replace(ws(), tcp_options=TcpOptions(sndbuf=4096, high_watermark=4096))
    async with listening("ws", settings) as rig:
        client = await rig.socket(recbuf=4096)
        await upgrade(client)
        await client.ask(frame(CONNECT), answer(CONNACK))
        client.stop_reading()
        pings = frame(bytes(125), PING) * 8
        (link,) = rig.listener.connections.links
        (transport,) = reachable(link, ProtocolTransport, within="heliograph.transport")
        for _ in range(2000):
            await client.say(pings)
            await rig.advance(0)
            if rig.listener.connections.congested:
                break
        assert rig.listener.connections.congested
        unsent = transport.get_write_buffer_size()
        await client.say(pings * 50)
        await rig.advance(0)
        assert transport.get_write_buffer_size() <= unsent + 70_000, "what one read brought may still be answered"


# --- goodbyes


async def test_a_goodbye_is_answered_and_the_connection_closed() -> None:
    async with listening("ws", ws()) as rig:
        client = await connected(rig)
        await client.say(frame(PINGREQ) + close_frame(1001, b"leaving"))
        assert await client.hear_the_end() == answer(PINGRESP) + goodbye(1001)
        await rig.until("current_connections", 0)


@cases(("payload", "code"), [(b"", 1000), (b"\x03", 1002), (b"\x03\xed", 1002)])
async def test_goodbyes_that_are_not_valid(payload: bytes, code: int) -> None:
    async with listening("ws", ws()) as rig:
        client = await connected(rig)
        await client.say(frame(payload, CLOSE))
        assert await client.hear_the_end() == goodbye(code)


async def test_after_our_goodbye_the_peer_has_the_last_word() -> None:
    async with listening("ws", ws()) as rig:
        client = await connected(rig)
        await client.ask(frame(DISCONNECT), goodbye(1000))
        assert rig.count("current_connections") == 1
        await client.say(frame(PINGREQ) + frame(b"", PING) + close_frame())
        assert await client.hear_the_end() == b""
        await rig.until("current_connections", 0)


async def test_a_peer_that_does_not_answer_our_goodbye_is_cut() -> None:
    async with listening("ws", ws()) as rig:
        client = await connected(rig)
        await client.ask(frame(DISCONNECT), goodbye(1000))
        await rig.advance(11.0)
        assert await client.hear_the_end() == b""


async def test_a_silent_connection_is_cut_after_idle_timeout() -> None:
    async with listening("ws", ws(idle_timeout=80.0)) as rig:
        silent = await connected(rig)
        for number in range(10):
            await silent.ask(frame(b"%d" % number, PING), answer(b"%d" % number, PONG))
            await rig.advance(10.0)
        assert rig.count("current_connections") == 1, "its pings count"
        for _ in range(11):
            await rig.advance(10.0)
        assert await silent.hear_the_end() == b""


async def test_a_short_idle_timeout_is_not_stretched_by_the_ticks() -> None:
    async with listening("ws", ws(idle_timeout=2.0)) as rig:
        silent = await connected(rig)
        for _ in range(6):
            await rig.advance(0.5)
        assert await silent.hear_the_end() == b""


async def test_a_connection_without_connect_is_closed() -> None:
    async with listening("ws", ws(), replace(CHANNEL, idle_timeout_us=3_000_000)) as rig:
        client = await upgraded(rig)
        await rig.advance(4.0)
        assert await client.hear(4) == goodbye(1000)


# --- compression


def deflated(data: bytes, *, bits: int = 15, context: "zlib._Compress | None" = None) -> bytes:
    """The payload of a compressed message."""
    encoder = context or zlib.compressobj(9, zlib.DEFLATED, -bits)
    return (encoder.compress(data) + encoder.flush(zlib.Z_SYNC_FLUSH))[:-4]


async def compressing(rig: Rig, offer: str = "permessage-deflate") -> Socket:
    client = await rig.socket()
    await client.say(request(Sec_WebSocket_Extensions=offer))
    response = await client.hear_until(b"\r\n\r\n")
    assert b"Sec-WebSocket-Extensions: permessage-deflate" in response
    return client


class Inflating:
    """Reads the compressed messages of a server."""

    def __init__(self, client: Socket) -> None:
        self._client = client
        self._decoder = zlib.decompressobj(-15)

    async def message(self) -> bytes:
        first, length = await self._client.hear(2)
        assert first == 0xC2, "FIN, RSV1, binary"
        if length == 126:
            length = int.from_bytes(await self._client.hear(2), "big")
        elif length == 127:
            length = int.from_bytes(await self._client.hear(8), "big")
        return self._decoder.decompress(await self._client.hear(length) + b"\0\0\xff\xff")


@cases("takeover", [True, False])
async def test_compressed_messages_both_ways(takeover: bool) -> None:
    deflate = DeflateOptions(server_context_takeover=takeover, client_context_takeover=takeover)
    async with listening("ws", ws(compress=True, deflate_opts=deflate)) as rig:
        client = await compressing(rig)
        answers = Inflating(client)
        context = zlib.compressobj(9, zlib.DEFLATED, -15) if takeover else None
        packet = publish(b"the same again and again " * 4000)
        for data, expected in ((CONNECT, CONNACK), (SUBSCRIBE, SUBACK), (packet, packet), (packet, packet)):
            await client.say(frame(deflated(data, context=context), rsv=4))
            heard = await answers.message()
            while len(heard) < len(expected):
                heard += await answers.message()
            assert heard == expected
            answers = answers if takeover else Inflating(client)


async def test_compressed_messages_in_pieces_and_plain_ones_between() -> None:
    async with listening("ws", ws(compress=True)) as rig:
        client = await compressing(rig)
        data = deflated(CONNECT + PINGREQ)
        await client.say(frame(data[:4], rsv=4, fin=False) + frame(data[4:], CONTINUATION))
        await client.say(frame(PINGREQ) + close_frame())
        answers = Inflating(client)
        heard = b""
        while len(heard) < 8:
            heard += await answers.message()
        assert heard == CONNACK + PINGRESP * 2
        assert await client.hear_the_end() == goodbye(1000)


async def test_small_windows_are_agreed_on() -> None:
    deflate = DeflateOptions(client_max_window_bits=9, server_max_window_bits=9)
    async with listening("ws", ws(compress=True, deflate_opts=deflate)) as rig:
        client = await rig.socket()
        await client.say(request(Sec_WebSocket_Extensions="permessage-deflate; client_max_window_bits"))
        response = (await client.hear_until(b"\r\n\r\n")).decode()
        assert "server_max_window_bits=9; client_max_window_bits=9" in response
        await client.say(frame(deflated(CONNECT, bits=9), rsv=4))
        assert await Inflating(client).message() == CONNACK


async def test_what_is_not_deflated_is_refused() -> None:
    async with listening("ws", ws(compress=True)) as rig:
        client = await compressing(rig)
        await client.say(frame(b"\xff\xff\xff\xff", rsv=4))
        assert await client.hear_the_end() == goodbye(1007)


async def test_a_message_that_inflates_beyond_the_limit_is_refused() -> None:
    async with listening("ws", ws(compress=True, max_frame_size=100_000)) as rig:
        client = await compressing(rig)
        await client.say(frame(deflated(CONNECT + PINGREQ * 60_000), rsv=4))
        heard = await client.hear_the_end()
        assert heard.endswith(goodbye(1009))


async def test_a_bomb_is_inflated_as_fast_as_its_packets_are_served() -> None:
    """800 KB of PINGREQ in 800 bytes: all are answered, and never is more than a few pieces of them in memory."""
    inflated: list[int] = []
    async with listening("ws", ws(compress=True)) as rig:
        client = await compressing(rig)
        answers = Inflating(client)
        await client.say(frame(deflated(CONNECT), rsv=4))
        assert await answers.message() == CONNACK
        count = 400_000
        await client.say(frame(deflated(PINGREQ * count), rsv=4))
        heard = 0
        while heard < count * len(PINGRESP):
            message = await answers.message()
            inflated.append(len(message))
            heard += len(message)
    assert max(inflated) < 200_000, "answers of a turn; its share of the loop bounds them"


def publish(payload: bytes) -> bytes:
    """A PUBLISH to the topic `t`."""
    return b"\x30" + varint(3 + len(payload)) + b"\x00\x01t" + payload

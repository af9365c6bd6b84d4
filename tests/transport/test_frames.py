"""Frames without sockets: whatever pieces a stream of frames comes in, the channel gets the same MQTT bytes."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from websockets.utils import apply_mask

from heliograph.channel.channel import Channel
from heliograph.channel.peer import Peer
from heliograph.transport import frames
from heliograph.transport.frames import FramedWire, FrameReader, close_fault, frame_header, frames_of_packets
from support.cases import cases
from support.kernel import Kernel
from support.listening import CONNACK, CONNECT, PINGREQ, PINGRESP
from support.websocket import CLOSE, CONTINUATION, PING, PONG, TEXT, close_frame, frame

PINGS: Final = 3


class RecordingWire(FramedWire):
    """Keeps what the channel writes and what the reader says."""

    def __init__(self) -> None:
        self.written = b""
        self.said: list[tuple[str, object]] = []

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.said.append(("close", None))

    def abort(self) -> None:
        self.said.append(("abort", None))

    def pause_reading(self) -> None:
        self.said.append(("pause", None))

    def resume_reading(self) -> None:
        self.said.append(("resume", None))

    def on_ping(self, payload: bytes) -> None:
        self.said.append(("ping", payload))

    def on_close(self, payload: bytes) -> None:
        self.said.append(("goodbye", payload))

    def on_fault(self, code: int, reason: str) -> None:
        self.said.append(("fault", code))

    def on_piece(self, piece: bytes, is_compressed: bool, is_end: bool) -> None:
        self.said.append(("piece", (piece, is_compressed, is_end)))


class Bench:
    """A reader with a channel of the virtual kernel behind it."""

    def __init__(self, *, compresses: bool = False, message_bytes_max: int = 0) -> None:
        self.kernel = Kernel()
        self.wire = RecordingWire()
        channel = Channel(self.kernel.context, self.wire, self.kernel.options)
        channel.connection_made(Peer("192.0.2.1:50000"))
        self.reader = FrameReader(channel.reader, self.wire, apply_mask, compresses, message_bytes_max)

    def receive(self, *reads: bytes) -> bytes:
        """What the broker answers to these reads of the socket."""
        for data in reads:
            self.reader.receive(data)
            self.kernel.run()
        return self.wire.written


Cut = tuple[int, bool, bool, bytes]  # how many bytes a frame has, whether it ends its message, a ping before, the mask


def framed(octets: bytes, cuts: list[Cut]) -> tuple[bytes, int]:
    """Frames that hold these bytes, cut that way, with pings between; and how many of these."""
    stream, pings, opcode = b"", 0, 2
    for size, is_end, with_ping, mask in [*cuts, (len(octets), True, False, bytes(4))]:
        if with_ping:
            stream += frame(b"are you there?", PING)
            pings += 1
        stream += frame(octets[:size], opcode, fin=is_end, mask=mask)
        octets = octets[size:]
        opcode = 2 if is_end else CONTINUATION
    return stream, pings


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans(), st.binary(min_size=4, max_size=4)), max_size=9),
    st.lists(st.integers(1, 30), max_size=30),
)
def test_any_frames_in_any_reads_are_the_same_packets(cuts: list[Cut], reads: list[int]) -> None:
    stream, pings = framed(CONNECT + PINGREQ * PINGS, cuts)
    bench = Bench()
    for size in [*reads, len(stream)]:
        bench.receive(stream[:size])
        stream = stream[size:]
    assert bench.wire.written == CONNACK + PINGRESP * PINGS
    assert bench.wire.said == [("ping", b"are you there?")] * pings


def test_a_large_frame_is_handed_on_as_it_comes() -> None:
    bench = Bench()
    # A PUBLISH that claims a megabyte more than the broker takes: it is refused when its beginning is here.
    data = frame(CONNECT + b"\x30\xff\xff\xff\x7f" + bytes(100), length=1 << 40)
    bench.receive(data)
    assert ("close", None) in bench.wire.said
    assert bench.wire.written == CONNACK


@cases(
    ("data", "code"),
    [
        (frame(PINGREQ, mask=None), frames.PROTOCOL_ERROR),
        (frame(PINGREQ, TEXT), frames.UNSUPPORTED_DATA),
        (frame(PINGREQ, 0x3), frames.PROTOCOL_ERROR),
        (frame(PINGREQ, 0xB), frames.PROTOCOL_ERROR),
        (frame(PINGREQ, rsv=4), frames.PROTOCOL_ERROR),
        (frame(PINGREQ, rsv=1), frames.PROTOCOL_ERROR),
        (frame(PINGREQ, CONTINUATION), frames.PROTOCOL_ERROR),
        (frame(b"", fin=False) + frame(PINGREQ), frames.PROTOCOL_ERROR),
        (frame(b"", PING, fin=False), frames.PROTOCOL_ERROR),
        (frame(b"", PING, rsv=4), frames.PROTOCOL_ERROR),
        (frame(bytes(126), PING), frames.PROTOCOL_ERROR),
        (frame(bytes(126), CLOSE), frames.PROTOCOL_ERROR),
        (b"\x82\xfe\x00\x05", frames.PROTOCOL_ERROR),
        (b"\x82\xff\x00\x00\x00\x00\x00\x00\xff\xff", frames.PROTOCOL_ERROR),
        (b"\x82\xff\x80\x00\x00\x00\x00\x00\x00\x00", frames.PROTOCOL_ERROR),
    ],
    ids=[
        "no mask",
        "text",  # [MQTT-6.0.0-1] 3.1.1 [MQTT-6.0.0-1]
        "unknown opcode",
        "unknown control opcode",
        "compressed without agreement",
        "reserved bit",
        "continuation of nothing",
        "message in a message",
        "fragmented ping",
        "ping with reserved bits",
        "long ping",
        "long close",
        "16 bits for a short length",
        "64 bits for a short length",
        "length with its highest bit",
    ],
)
def test_faults(data: bytes, code: int) -> None:
    bench = Bench()
    mask_comes = data + bytes(4)
    bench.receive(frame(CONNECT) + mask_comes, frame(PINGREQ))
    assert bench.wire.said == [("fault", code)], "what follows is not read"
    assert bench.wire.written == CONNACK, "what came before is"


@cases("opcode", [CLOSE, PING, PONG])
def test_control_frames_in_the_middle_of_a_message(opcode: int) -> None:
    bench = Bench()
    answered = bench.receive(
        frame(CONNECT[:5], fin=False) + frame(b"", opcode) + frame(CONNECT[5:] + PINGREQ, CONTINUATION)
    )
    assert answered == (b"" if opcode == CLOSE else CONNACK + PINGRESP)
    said = {CLOSE: [("goodbye", b"")], PING: [("ping", b"")], PONG: []}
    assert bench.wire.said == said[opcode]


def test_what_comes_before_a_goodbye_counts() -> None:
    bench = Bench()
    bench.receive(frame(CONNECT) + frame(PINGREQ) + close_frame(1001, b"bye") + frame(PINGREQ))
    assert bench.wire.written == CONNACK + PINGRESP
    assert bench.wire.said == [("goodbye", b"\x03\xe9bye")]


@cases("pieces", [1, 2, 5])
def test_a_message_over_the_limit(pieces: int) -> None:
    bench = Bench(message_bytes_max=1000)
    size = 1010 // pieces
    message = [frame(bytes(size), 2 if at == 0 else CONTINUATION, fin=at == pieces - 1) for at in range(pieces)]
    bench.receive(frame(CONNECT), frame(bytes(0)), *message)
    assert bench.wire.said[-1] in (("fault", frames.MESSAGE_TOO_BIG), ("close", None))


def test_messages_within_the_limit_add_up_to_more() -> None:
    bench = Bench(message_bytes_max=20)
    pings = [frame(PINGREQ, fin=False) + frame(PINGREQ * 9, CONTINUATION), frame(PINGREQ * 10)] * 3
    assert bench.receive(frame(CONNECT), *pings) == CONNACK + PINGRESP * 60
    assert bench.wire.said == []
    bench.receive(frame(PINGREQ, fin=False) + frame(PINGREQ * 10, CONTINUATION))
    assert bench.wire.said == [("fault", frames.MESSAGE_TOO_BIG)]


def test_pieces_of_messages_where_compression_is_agreed_on() -> None:
    bench = Bench(compresses=True)
    bench.receive(frame(b"abc", rsv=4, fin=False), frame(b"def", CONTINUATION)[:8], frame(b"def", CONTINUATION)[8:])
    bench.receive(frame(b"plain"))
    assert bench.wire.said == [
        ("piece", (b"abc", True, False)),
        ("piece", (b"de", True, False)),
        ("piece", (b"f", True, True)),
        ("piece", (b"plain", False, True)),
    ]


def test_after_our_goodbye_only_theirs_matters() -> None:
    bench = Bench()
    bench.reader.discards = True
    bench.receive(frame(CONNECT), frame(b"", PING), close_frame(None))
    assert bench.wire.written == b""
    assert bench.wire.said == [("ping", b""), ("goodbye", b"")]


@cases("size", [0, 125, 126, 65535, 65536, 1 << 20])
def test_headers_of_our_frames(size: int) -> None:
    expected = frame(b"", mask=None, length=size)
    assert frame_header(frames.BINARY, size) == expected


def test_each_packet_in_a_frame_of_its_own() -> None:
    long = b"\x30\xac\x02" + bytes(300)
    assert frames_of_packets(CONNACK + long + PINGRESP) == (
        frame(CONNACK, mask=None) + frame(long, mask=None) + frame(PINGRESP, mask=None)
    )


@cases(
    ("payload", "code"),
    [
        (b"", 1000),
        (b"\x03\xe8", 1000),
        (b"\x03\xe9going", 1001),
        (b"\x0b\xb8", 3000),
        (b"\x13\x87", 4999),
        (b"\x03", 1002),
        (b"\x03\xe7", 1002),
        (b"\x03\xed", 1002),  # 1005: no code came, never sent
        (b"\x03\xee", 1002),
        (b"\x03\xf7", 1002),
        (b"\x0b\xb7", 1002),
        (b"\x13\x88", 1002),
        (b"\x03\xe8\xff", 1007),
    ],
)
def test_how_a_goodbye_is_answered(payload: bytes, code: int) -> None:
    assert close_fault(payload) == code

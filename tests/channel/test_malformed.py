"""Every packet of the bank, said to a broker."""

from dataclasses import replace

from heliograph.mqtt import packets as p
from mqtt.bank import CONNECTS, FROM_CLIENT, FROM_SERVER, Case, each, ids
from support.cases import cases
from support.kernel import Kernel
from support.options import CHANNEL
from support.packets import decode_all, say
from support.wire import wire

BAD = [case for case in FROM_CLIENT if case.fault is not None]
BAD_CONNECTS = [case for case in CONNECTS if case.fault is not None]
GOOD_CONNECTS = [case for case in CONNECTS if case.packet is not None and "authentication" not in case.name]
GOOD = [case for case in FROM_CLIENT if case.packet is not None]


@cases(("case", "version"), each(BAD), ids=ids(BAD))
def test_a_connected_client_that_sends_what_is_invalid(case: Case, version: int) -> None:
    assert case.fault is not None
    kernel = Kernel()
    watcher, peer = kernel.connect("watcher"), kernel.connect(version=version)
    watcher.subscribe("#")
    peer.send_bytes(case.data + wire("c0 #"))
    assert peer.closed()
    assert peer.heard() == ([f"DISCONNECT 0x{case.fault[1]:02x}"] if version == p.V5 else [])
    assert watcher.heard() == []
    assert len(kernel.reports) == 1


@cases("case", BAD_CONNECTS, ids=str)
def test_a_connect_that_is_invalid(case: Case) -> None:
    assert case.fault is not None
    kernel = Kernel()
    peer = kernel.peer()
    peer.send_bytes(case.data)
    assert peer.closed()
    assert len(kernel.sessions) == 0
    written = bytes(peer.wire.written)
    if case.fault[0].__name__ == "MalformedPacketError":
        assert written == b""
    elif b"MQTT\x05" in case.data:
        assert [say(packet) for packet in decode_all(written, p.V5)] == [f"CONNACK 0x{case.fault[1]:02x}"]
    else:
        assert written == b"\x20\x02\x00\x01"


@cases(("case", "version"), each(GOOD_CONNECTS), ids=ids(GOOD_CONNECTS))
def test_a_connect_that_is_valid(case: Case, version: int) -> None:
    peer = Kernel().peer(version)
    peer.send_bytes(case.data)
    assert peer.heard() == ["CONNACK 0x00"]
    assert not peer.closed()


@cases(("case", "version"), each(GOOD), ids=ids(GOOD))
def test_a_connected_client_that_sends_what_is_valid(case: Case, version: int) -> None:
    kernel = Kernel(replace(CHANNEL, max_packet_size=4_000_000))
    peer = kernel.connect(version=version)
    if version == p.V5:
        peer.publish("known", topic_alias=1)
    peer.send_bytes(case.data)
    heard = peer.heard()
    is_goodbye = isinstance(case.packet, p.Disconnect)
    is_server_only = "subscription identifiers" in case.name
    if is_server_only:
        assert heard == ["DISCONNECT 0x82"]
    elif case.name == "disconnect with everything":
        assert heard == ["DISCONNECT 0x82"]  # its session had no expiry interval
    else:
        assert not any(word.startswith("DISCONNECT") for word in heard)
        assert peer.closed() is is_goodbye


@cases(("case", "version"), each(FROM_SERVER), ids=ids(FROM_SERVER))
def test_a_client_that_plays_the_broker(case: Case, version: int) -> None:
    peer = Kernel().connect(version=version)
    peer.send_bytes(case.data)
    assert peer.closed()

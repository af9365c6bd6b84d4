"""Two nodes come to trust each other, and nothing else does: byte by byte, with every kind of impostor."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.link import handshake as h
from heliograph.cluster.link.proto_v1 import LinkHello, LinkProof, LinkRefusal
from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from heliograph.rpc.frames import RpcFrameReader
from support.cases import cases
from support.packets import properties

COOKIE = b"a cookie of thirty-two letters.."
NORTH = h.NodeIdentity("farm", "north", "0123456789abcdef", 7, 1, {"sessions": (1, 2), "routes": (3, 3)}, "1.4.0")
SOUTH = h.NodeIdentity("farm", "south", "fedcba9876543210", 9, 2, {"sessions": (2, 4), "routes": (3, 5)}, "1.5.0")


def an_opener(
    own: h.NodeIdentity = NORTH, cookie: bytes = COOKIE, nonce: int = 1, binding: bytes = b""
) -> h.LinkHandshake:
    return h.OpenerHandshake(own, cookie, bytes([nonce] * 32), RpcFrameReader(), binding)


def an_accepter(
    own: h.NodeIdentity = SOUTH,
    cookie: bytes = COOKIE,
    nonce: int = 2,
    binding: bytes = b"",
    refusal: tuple[str, str] | None = None,
) -> h.LinkHandshake:
    return h.AccepterHandshake(own, cookie, bytes([nonce] * 32), RpcFrameReader(), binding, admit=lambda peer: refusal)


def begin(opener: h.LinkHandshake) -> bytes:
    assert isinstance(opener, h.OpenerHandshake)
    return opener.begin("messages")


def connect(opener: h.LinkHandshake, accepter: h.LinkHandshake) -> None:
    data, sides = begin(opener), (accepter, opener)
    while data:
        data = sides[0].receive(data)
        sides = sides[1], sides[0]


def refusal_of(opener: h.LinkHandshake, accepter: h.LinkHandshake) -> tuple[str, str]:
    """Why there is no link; both sides hear the same reason, and neither has a peer."""
    with pytest.raises(h.HandshakeRefusedError) as refused:
        connect(opener, accepter)
    code, message = refused.value.code, str(refused.value)
    assert opener.peer is None
    assert accepter.peer is None
    with pytest.raises(h.HandshakeRefusedError) as heard:
        an_opener().receive(refused.value.farewell)
    assert heard.value.code == code
    assert str(heard.value) == f"the other node refuses: {message[:100]}"
    assert heard.value.farewell == b"", "a refusal is not answered by one"
    return code, message


def test_two_nodes_with_the_same_cookie_know_each_other() -> None:
    opener, accepter = an_opener(), an_accepter()
    connect(opener, accepter)
    versions = {"sessions": 2, "routes": 3}
    assert opener.peer == h.LinkedPeer(SOUTH, "messages", versions)
    assert accepter.peer == h.LinkedPeer(NORTH, "messages", versions)


def test_every_byte_may_come_by_itself() -> None:
    opener, accepter = an_opener(), an_accepter()
    data, sides = begin(opener), (accepter, opener)
    while data:
        data = b"".join(sides[0].receive(bytes([one])) for one in data)
        sides = sides[1], sides[0]
    assert opener.peer is not None
    assert accepter.peer is not None


def test_what_follows_the_last_proof_is_left_for_the_link() -> None:
    opener, accepter, reader = an_opener(), an_accepter(), RpcFrameReader()
    opener = h.OpenerHandshake(NORTH, COOKIE, bytes(32), reader)
    proof = opener.receive(accepter.receive(opener.begin("messages")))
    opener.receive(accepter.receive(proof) + b"\x00\x00\x00\x02hi")
    assert opener.peer is not None
    assert reader.next() == b"hi"


@cases(
    ("accepter", "code", "message"),
    [
        ({"cookie": COOKIE[::-1]}, h.WRONG_COOKIE, "the cookies of south and 'north' differ"),
        ({"binding": b"of another"}, h.WRONG_COOKIE, "the cookies of south and 'north' differ"),
        (
            {"own": replace(SOUTH, cluster="barn")},
            h.WRONG_CLUSTER,
            "'north' is of the cluster 'farm', not 'barn'",
        ),
        (
            {"own": replace(SOUTH, site=NORTH.site)},
            h.OWN_SITE,
            "'north' has the site 0123456789abcdef, as south has: one is a copy of the other",
        ),
        (
            {"own": replace(SOUTH, protocols={"sessions": (3, 4)})},
            h.WRONG_VERSION,
            "'north' (release '1.4.0') speaks versions 1 to 2 of the protocol sessions, this node 3 to 4",
        ),
        (
            {"own": replace(SOUTH, protocols={"blocks": (1, 1)})},
            h.WRONG_VERSION,
            "'north' (release '1.4.0') does not speak the protocol blocks",
        ),
        ({"refusal": ("name_taken", "the name is taken")}, "name_taken", "the name is taken"),
    ],
)
def test_a_node_that_does_not_belong_is_refused(accepter: dict[str, Any], code: str, message: str) -> None:
    assert refusal_of(an_opener(), an_accepter(**accepter)) == (code, message)


def test_an_accepter_that_has_no_cookie_is_refused() -> None:
    opener, accepter = an_opener(), an_accepter()
    opener.receive(accepter.receive(begin(opener)))
    guessed = msgspec.msgpack.encode(LinkProof(bytes(32)))
    with pytest.raises(h.HandshakeRefusedError, match="the cookies of north and 'south' differ"):
        opener.receive(len(guessed).to_bytes(4, "big") + guessed)
    assert opener.peer is None


def test_what_another_connection_showed_proves_nothing() -> None:
    opener, accepter = an_opener(), an_accepter()
    hello = begin(opener)
    proof = opener.receive(accepter.receive(hello))
    later = an_accepter(nonce=3)
    later.receive(hello)
    with pytest.raises(h.HandshakeRefusedError, match="cookies"):
        later.receive(proof)


def test_a_node_is_not_deceived_by_its_own_proof() -> None:
    """A stranger sends everything back, with another site in place of the node's own."""
    opener = an_opener()
    hello = begin(opener).replace(NORTH.site.encode(), SOUTH.site.encode())
    with pytest.raises(h.HandshakeRefusedError, match="cookies"):
        opener.receive(opener.receive(hello))


def test_nothing_that_a_node_said_of_itself_can_be_changed_on_the_way() -> None:
    opener, accepter = an_opener(), an_accepter()
    answer = accepter.receive(begin(opener).replace(b"north", b"worth"))
    with pytest.raises(h.HandshakeRefusedError, match="cookies"):
        accepter.receive(opener.receive(answer))


@cases(
    ("data", "fault"),
    [
        (
            encode_packet(p.Connect(p.V5, "c", True, 0, None, None, None, properties()), p.V5),
            "of Heliograph: a frame of",
        ),
        (b"GET / HTTP/1.1\r\n\r\n", "what came is no link of Heliograph: a frame of 1,195,725,856 bytes"),
        (b"\x00\x00\x10\x01", "a frame of 4,097 bytes; valid are at most 4,096"),
        (b"\x00\x00\x00\x01\xc1", "what came is no link of Heliograph: MessagePack data is malformed"),
        (b"\x00\x00\x00\x05\x92\x21\xc4\x01x", "a proof came before its node introduced itself"),
    ],
)
def test_bytes_that_are_no_handshake_end_the_connection(data: bytes, fault: str) -> None:
    accepter = an_accepter()
    with pytest.raises(h.HandshakeRefusedError) as refused:
        accepter.receive(data)
    assert refused.value.code == h.WRONG_FRAME
    assert fault in str(refused.value)
    assert accepter.peer is None


@cases(
    "wrong",
    [{"nonce": b"short"}, {"site": "../../etc"}, {"number": 32768}, {"number": -1}, {"incarnation": -1}],
)
def test_values_that_no_node_has_are_refused(wrong: dict[str, object]) -> None:
    hello = LinkHello("farm", "x" * 200, NORTH.site, 1, 1, "messages", {}, bytes(32), "")
    data = msgspec.msgpack.encode(msgspec.structs.replace(hello, **wrong))
    with pytest.raises(h.HandshakeRefusedError, match=r"'x{100}' introduced itself with values that no node has"):
        an_accepter().receive(len(data).to_bytes(4, "big") + data)


def test_a_node_introduces_itself_once() -> None:
    accepter, hello = an_accepter(), begin(an_opener())
    accepter.receive(hello)
    with pytest.raises(h.HandshakeRefusedError, match="a node introduced itself twice"):
        accepter.receive(hello)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_whatever_comes_there_is_a_refusal_or_more_to_wait_for(noise: bytes, at: int) -> None:
    for side, honest in ((an_accepter(), begin(an_opener())), (an_opener(), b"")):
        if not honest:
            honest = an_accepter().receive(begin(side))
        changed = honest[:at] + noise + honest[at + len(noise) :]
        with suppress(h.HandshakeRefusedError):
            side.receive(changed)
        assert side.peer is None


def test_the_bytes_of_the_protocol_stay_as_they_were_published() -> None:
    """A node of this release and one of any other must understand them."""
    assert begin(an_opener()).hex() == (
        "000000689a20a46661726da56e6f727468b0303132333435363738396162636465660701"
        "a86d6573736167657382a873657373696f6e73920102a6726f7574657392" + "0303c420" + "01" * 32 + "a5312e342e30"
    )
    assert msgspec.msgpack.encode(LinkProof(b"x")).hex() == "9221c40178"
    assert msgspec.msgpack.encode(LinkRefusal("wrong_cookie", "m")).hex() == "9322ac77726f6e675f636f6f6b6965a16d"

"""How two nodes come to trust each other on a new connection: each shows that it has the cookie of the cluster.

Both proofs cover both nonces and all that both nodes say of themselves, so neither can be replayed, reflected or
changed on the way. The opener proves first: a stranger who connects learns nothing that a guess at the cookie could be
held against. The channel binding ties the proofs to one TLS connection, so that they cannot be passed on over
another; it is the digest of the accepter's certificate, since Python's `ssl` has no keying material exporter.
"""

import hashlib
import hmac
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from heliograph.cluster.link.proto_v1 import HandshakeFrame, LinkHello, LinkProof, LinkRefusal
from heliograph.rpc.frames import FrameError, RpcFrameReader

# Of a frame, until both are known to each other.
HANDSHAKE_BYTES_MAX: Final = 4096

NONCE_BYTES: Final = 32
NUMBER_MAX: Final = 0x7FFF
WRONG_FRAME: Final = "wrong_frame"
WRONG_CLUSTER: Final = "wrong_cluster"
WRONG_COOKIE: Final = "wrong_cookie"
WRONG_VERSION: Final = "wrong_version"
OWN_SITE: Final = "own_site"

_SITE: Final = re.compile(r"[0-9a-f]{16}")
_SHOWN_MAX: Final = 100
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[HandshakeFrame]] = msgspec.msgpack.Decoder(HandshakeFrame)

Protocols = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """What a node says of itself; see `LinkHello`."""

    cluster: str
    node: str
    site: str
    incarnation: int
    number: int
    protocols: Protocols = field(default_factory=dict)
    release: str = ""


@dataclass(frozen=True, slots=True)
class LinkedPeer:
    """A node that has the cookie.

    Attributes:
        purpose: What the connection is for.
        versions: Which version of each protocol both speak.
    """

    identity: NodeIdentity
    purpose: str
    versions: dict[str, int]


class HandshakeRefusedError(Exception):
    """The connection is no link.

    Attributes:
        code: Why, for programs.
        farewell: What to send before it is closed; empty if the other side has refused.
    """

    def __init__(self, code: str, message: str, farewell: bytes = b"") -> None:
        super().__init__(message)
        self.code = code
        self.farewell = farewell


class LinkHandshake(ABC):
    """One side of the exchange. Owned by the connection, which sends what `receive` returns.

    Args:
        own: What this node is.
        cookie: The secret of the cluster.
        nonce: 32 random bytes, of this connection only.
        reader: Has what the connection receives; behind the handshake it has what follows.
        binding: The channel binding of TLS; empty without TLS.

    Attributes:
        peer: The other side, once it is known.
    """

    part: str
    other_part: str

    def __init__(
        self, own: NodeIdentity, cookie: bytes, nonce: bytes, reader: RpcFrameReader, binding: bytes = b""
    ) -> None:
        self.peer: LinkedPeer | None = None
        self._own = own
        self._cookie = cookie
        self._nonce = nonce
        self._binding = binding
        self._reader = reader
        self._reader.bytes_max = HANDSHAKE_BYTES_MAX
        self._hello: LinkHello | None = None  # the other side's
        self._hellos: list[bytes] = []  # the frames of both, the opener's first

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the other side; returns what to send it.

        Raises:
            HandshakeRefusedError: The connection is no link.
        """
        self._reader.receive(data)
        answer = b""
        while self.peer is None:
            try:
                frame = self._reader.next()
            except FrameError as error:
                raise _refused(WRONG_FRAME, f"what came is no link of Heliograph: {error}") from None
            if frame is None:
                break
            answer += self._take(frame)
        return answer

    def _take(self, data: bytes) -> bytes:
        try:
            frame = _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _refused(WRONG_FRAME, f"what came is no link of Heliograph: {str(error)[:_SHOWN_MAX]}") from None
        if isinstance(frame, LinkRefusal):
            message = frame.message[:_SHOWN_MAX]
            raise HandshakeRefusedError(frame.code[:_SHOWN_MAX], f"the other node refuses: {message}")
        if isinstance(frame, LinkHello):
            if self._hello is not None:
                raise _refused(WRONG_FRAME, "a node introduced itself twice")
            self._check(frame)
            self._hello = frame
            return self._on_hello(data)
        if self._hello is None:
            raise _refused(WRONG_FRAME, "a proof came before its node introduced itself")
        if not hmac.compare_digest(frame.digest, self._digest(self.other_part)):
            raise _refused(WRONG_COOKIE, f"the cookies of {self._own.node} and {frame_name(self._hello)} differ")
        return self._on_proof(self._peer_of(self._hello))

    @abstractmethod
    def _on_hello(self, frame: bytes) -> bytes:
        """The other side has introduced itself; returns what to send it."""

    @abstractmethod
    def _on_proof(self, peer: LinkedPeer) -> bytes:
        """The other side has the cookie; returns what to send it."""

    def _introduction(self, purpose: str) -> bytes:
        own = self._own
        protocols = dict(own.protocols)
        hello = LinkHello(
            own.cluster, own.node, own.site, own.incarnation, own.number, purpose, protocols, self._nonce, own.release
        )
        data = _encoder.encode(hello)
        self._hellos.append(data)
        return _framed(data)

    def _proof(self) -> bytes:
        return _framed(_encoder.encode(LinkProof(self._digest(self.part))))

    def _digest(self, part: str) -> bytes:
        covered = hmac.new(self._cookie, digestmod=hashlib.sha256)
        for piece in (part.encode(), self._binding, *self._hellos):
            covered.update(len(piece).to_bytes(4, "big") + piece)
        return covered.digest()

    def _check(self, hello: LinkHello) -> None:
        own, name = self._own, frame_name(hello)
        if hello.cluster != own.cluster:
            raise _refused(
                WRONG_CLUSTER, f"{name} is of the cluster {hello.cluster[:_SHOWN_MAX]!r}, not {own.cluster!r}"
            )
        is_valid = len(hello.nonce) == NONCE_BYTES and _SITE.fullmatch(hello.site) and hello.incarnation >= 0
        if not is_valid or not 0 <= hello.number <= NUMBER_MAX:
            raise _refused(WRONG_FRAME, f"{name} introduced itself with values that no node has")
        if hello.site == own.site:
            raise _refused(OWN_SITE, f"{name} has the site {own.site}, as {own.node} has: one is a copy of the other")
        release = f" (release {hello.release[:_SHOWN_MAX]!r})" if hello.release else ""
        for protocol, (lowest, highest) in own.protocols.items():
            theirs = hello.protocols.get(protocol)
            if theirs is None:
                raise _refused(WRONG_VERSION, f"{name}{release} does not speak the protocol {protocol}")
            if theirs[1] < lowest or theirs[0] > highest:
                speaks = f"speaks versions {theirs[0]} to {theirs[1]} of the protocol {protocol}"
                raise _refused(WRONG_VERSION, f"{name}{release} {speaks}, this node {lowest} to {highest}")

    def _peer_of(self, hello: LinkHello) -> LinkedPeer:
        versions = {name: min(highest, hello.protocols[name][1]) for name, (_, highest) in self._own.protocols.items()}
        identity = NodeIdentity(
            hello.cluster,
            hello.node,
            hello.site,
            hello.incarnation,
            hello.number,
            hello.protocols,
            hello.release,
        )
        return LinkedPeer(identity, self._purpose(hello), versions)

    @abstractmethod
    def _purpose(self, hello: LinkHello) -> str:
        """What the connection is for: the opener says it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.peer or self._hello or 'waiting'})"


class OpenerHandshake(LinkHandshake):
    """The side that connected."""

    part = "opener"
    other_part = "accepter"
    _asked_for = ""

    def begin(self, purpose: str) -> bytes:
        """What to send first, and what the connection is for."""
        self._asked_for = purpose
        return self._introduction(purpose)

    def _on_hello(self, frame: bytes) -> bytes:
        self._hellos.append(frame)
        return self._proof()

    def _on_proof(self, peer: LinkedPeer) -> bytes:
        self.peer = peer
        return b""

    def _purpose(self, hello: LinkHello) -> str:
        return self._asked_for


class AccepterHandshake(LinkHandshake):
    """The side that was connected to.

    Args:
        admit: Called with a peer that has the cookie; says why it is refused nevertheless, or nothing.
    """

    part = "accepter"
    other_part = "opener"

    def __init__(
        self,
        own: NodeIdentity,
        cookie: bytes,
        nonce: bytes,
        reader: RpcFrameReader,
        binding: bytes = b"",
        *,
        admit: Callable[[LinkedPeer], tuple[str, str] | None],
    ) -> None:
        super().__init__(own, cookie, nonce, reader, binding)
        self._admit = admit

    def _on_hello(self, frame: bytes) -> bytes:
        self._hellos.append(frame)
        return self._introduction("")

    def _on_proof(self, peer: LinkedPeer) -> bytes:
        refusal = self._admit(peer)
        if refusal is not None:
            raise _refused(*refusal)
        self.peer = peer
        return self._proof()

    def _purpose(self, hello: LinkHello) -> str:
        return hello.purpose


def frame_name(hello: LinkHello) -> str:
    """The name of a node that may be any text."""
    return repr(hello.node[:_SHOWN_MAX])


def _refused(code: str, message: str) -> HandshakeRefusedError:
    return HandshakeRefusedError(code, message, _framed(_encoder.encode(LinkRefusal(code, message))))


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data

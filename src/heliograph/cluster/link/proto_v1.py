"""The frames with which a link begins. Frozen: a field keeps its place and type; one may be added with a default.

A frame is a length of four bytes (big endian) and as many bytes of MessagePack: an array that begins with the tag of
its struct. The node that opened the connection sends `LinkHello`, gets the other's, sends `LinkProof`, and gets the
other's. Instead of its frame, either side may send `LinkRefusal`, and close.
"""

from typing import TypeAlias

import msgspec


class LinkHello(msgspec.Struct, array_like=True, frozen=True, tag=32):
    """Who a node says that it is.

    Attributes:
        cluster: The name of the cluster.
        node: The name of the node.
        site: The id of its data, 16 hexadecimal digits.
        incarnation: Rises with each start of the node.
        number: Its number in message ids, 0 to 32767.
        purpose: What the connection is for, as `messages`.
        protocols: The lowest and the highest version that it speaks, by the name of the protocol.
        nonce: 32 random bytes.
        release: Of Heliograph, for people.
    """

    cluster: str
    node: str
    site: str
    incarnation: int
    number: int
    purpose: str
    protocols: dict[str, tuple[int, int]]
    nonce: bytes
    release: str


class LinkProof(msgspec.Struct, array_like=True, frozen=True, tag=33):
    """That a node has the cookie.

    Attributes:
        digest: HMAC-SHA256 with the cookie over the part (`opener`, `accepter`), the channel binding and the frames of
            both `LinkHello`, opener's first, each behind its length.
    """

    digest: bytes


class LinkRefusal(msgspec.Struct, array_like=True, frozen=True, tag=34):
    """The connection ends.

    Attributes:
        code: Why, for programs.
        message: The same for people.
    """

    code: str
    message: str


HandshakeFrame: TypeAlias = LinkHello | LinkProof | LinkRefusal

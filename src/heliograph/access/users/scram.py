"""SCRAM on the server (RFC 5802): the keys that are kept of a password, and one exchange; nothing here knows MQTT.

Channel binding is not offered: a client that demands it is refused, and one that only could is not.
"""

import binascii
import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Final

from heliograph.access.users.records import ScramUser

# The header and the rest of a client's first message: flag of channel binding, authorization id, name, nonce.
_FIRST: Final = re.compile(rb"([ny],(?:a=[^,]*)?,)(n=([^,]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?)", re.DOTALL)
_FINAL: Final = re.compile(rb"(c=([^,]+),r=([^,]+)(?:,.*)?),p=([^,]+)", re.DOTALL)
_NAME_ESCAPE: Final = re.compile(rb"=(2C|3D|)")
_NONCE_BYTES: Final = 18
_MESSAGE_BYTES_MAX: Final = 4096
DIGESTS: Final = ("sha256", "sha512")


class ScramError(Exception):
    """A message that SCRAM refuses; the text names neither the user nor a key."""


class ClientFirst:
    """A client's first message; raises `ScramError`."""

    def __init__(self, message: bytes) -> None:
        found = _FIRST.fullmatch(message) if len(message) <= _MESSAGE_BYTES_MAX else None
        if found is None:
            raise ScramError("the client's first message is not valid")
        self.header, self.bare, name, self.nonce = found[1], found[2], found[3], found[4]
        self.username = _name(name)


class ScramExchange:
    """One exchange after the client's first message; owned by the attempt that it belongs to.

    Args:
        nonce: The server's part of the nonce; by chance if empty.

    Attributes:
        server_first: What the client is to be sent.
    """

    def __init__(self, first: ClientFirst, user: ScramUser, nonce: bytes = b"") -> None:
        self.user = user
        self._first = first
        self._nonce = first.nonce + (nonce or b64encode(secrets.token_bytes(_NONCE_BYTES)))
        self.server_first = b"r=%s,s=%s,i=%d" % (self._nonce, b64encode(user.salt), user.iterations)

    def finish(self, message: bytes) -> bytes:
        """The server's last message, for a client that has proved to know the password; else raises `ScramError`."""
        found = _FINAL.fullmatch(message) if len(message) <= _MESSAGE_BYTES_MAX else None
        if found is None:
            raise ScramError("the client's final message is not valid")
        without_proof, binding, nonce, proof = found[1], _decoded(found[2]), found[3], _decoded(found[4])
        if binding != self._first.header or not hmac.compare_digest(nonce, self._nonce):
            raise ScramError("the client's final message belongs to another exchange")
        user, digest = self.user, self.user.digest
        text = b",".join((self._first.bare, self.server_first, without_proof))
        signature = hmac.digest(user.stored_key, text, digest)
        if len(proof) != len(signature):
            raise ScramError("the proof is not valid")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(digest, client_key).digest(), user.stored_key):
            raise ScramError("the proof is not valid")
        return b"v=" + b64encode(hmac.digest(user.server_key, text, digest))


def _name(escaped: bytes) -> str:
    """The user's name: `=2C` stands for a comma and `=3D` for an equals sign, which nothing else may hold."""
    if any(found[1] == b"" for found in _NAME_ESCAPE.finditer(escaped)):
        raise ScramError("the user name is not valid")
    try:
        return _NAME_ESCAPE.sub(lambda found: b"," if found[1] == b"2C" else b"=", escaped).decode()
    except UnicodeDecodeError:
        raise ScramError("the user name is no UTF-8") from None


def _decoded(text: bytes) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise ScramError("the client's final message is not valid") from None


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """`stored_key` proves that a client knows the password, `server_key` that the server knows these keys."""

    stored_key: bytes
    server_key: bytes


def scram_keys(digest: str, password: bytes, salt: bytes, iterations: int) -> ScramKeys:
    """The password is taken as its bytes are, without normalisation; `digest` is `sha256` or `sha512`."""
    salted = hashlib.pbkdf2_hmac(digest, password, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    return ScramKeys(hashlib.new(digest, client_key).digest(), hmac.digest(salted, b"Server Key", digest))

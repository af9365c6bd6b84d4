"""The keys that SCRAM keeps of a password (RFC 5802, section 3), from which the password cannot be derived."""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

DIGESTS: Final = ("sha256", "sha512")


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """What a server keeps of one password.

    Attributes:
        stored_key: Proves that a client knows the password.
        server_key: Proves to the client that the server knows these keys.
    """

    stored_key: bytes
    server_key: bytes


def scram_keys(digest: str, password: bytes, salt: bytes, iterations: int) -> ScramKeys:
    """The keys of a password, which is taken as its bytes are, without normalisation.

    Args:
        digest: `sha256` or `sha512`.
    """
    salted = hashlib.pbkdf2_hmac(digest, password, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    return ScramKeys(hashlib.new(digest, client_key).digest(), hmac.digest(salted, b"Server Key", digest))

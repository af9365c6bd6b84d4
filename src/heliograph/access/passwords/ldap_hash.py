"""Passwords as LDAP entries have them: `{SCHEME}BASE64`, which may be wrapped in base64 once more."""

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final

_VALUE: Final = re.compile(rb"\{([A-Za-z0-9]+)\}(.+)", re.DOTALL)
_DIGESTS: Final = {
    b"md5": "md5",
    b"sha": "sha1",
    b"ssha": "sha1",
    b"sha256": "sha256",
    b"sha384": "sha384",
    b"sha512": "sha512",
}
_SALTED: Final = b"ssha"


def verify_ldap_hash(stored: bytes, password: bytes | None) -> bool:
    """Whether a password belongs to the value of an attribute, a scheme in any case and the digest (SSHA: and salt)."""
    found = _VALUE.fullmatch(stored) or _VALUE.fullmatch(_decoded(b"".join(stored.split())) or b"")
    if found is None or password is None:
        return False
    scheme = found[1].lower()
    digest = _decoded(found[2])
    if digest is None or scheme not in _DIGESTS:
        return False
    hashed = hashlib.new(_DIGESTS[scheme], password, usedforsecurity=False)
    salt = b""
    if scheme == _SALTED:
        digest, salt = digest[: hashed.digest_size], digest[hashed.digest_size :]
    hashed.update(salt)
    return hmac.compare_digest(hashed.digest(), digest)


def _decoded(text: bytes) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None

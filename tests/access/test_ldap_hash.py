"""Passwords of LDAP entries."""

import base64
import hashlib

from heliograph.access.passwords.ldap_hash import verify_ldap_hash
from support.cases import cases

_SCHEMES = {"MD5": "md5", "SHA": "sha1", "SHA256": "sha256", "SHA384": "sha384", "SHA512": "sha512"}
_PASSWORD = "pässword".encode()


def _stored(scheme: str, digest: bytes) -> bytes:
    return b"{" + scheme.encode() + b"}" + base64.b64encode(digest)


@cases("wrapped", [False, True])
@cases("scheme", [*_SCHEMES, *map(str.lower, _SCHEMES)])
def test_schemes(scheme: str, wrapped: bool) -> None:
    stored = _stored(scheme, hashlib.new(_SCHEMES[scheme.upper()], _PASSWORD).digest())
    if wrapped:
        stored = base64.b64encode(stored)
    assert verify_ldap_hash(stored, _PASSWORD)
    assert not verify_ldap_hash(stored, _PASSWORD + b"x")
    assert not verify_ldap_hash(stored, b"")
    assert not verify_ldap_hash(stored, None)


@cases("salt", [b"", b"s", b"0123456789abcdef"])
def test_salted(salt: bytes) -> None:
    stored = _stored("SSHA", hashlib.sha1(_PASSWORD + salt).digest() + salt)
    assert verify_ldap_hash(stored, _PASSWORD)
    assert not verify_ldap_hash(stored, _PASSWORD + b"x")
    assert not verify_ldap_hash(stored, b"x" + _PASSWORD)


@cases(
    "stored",
    [
        b"",
        b"secret",
        b"{SHA}",
        b"{}c2VjcmV0",
        b"{SHA}secret!",
        b"{CRYPT}secret",
        b"{SSHA512}c2VjcmV0",
        b"{CLEARTEXT}secret",
        b"{SHA}" + hashlib.sha1(b"secret").hexdigest().encode(),
        b"{SSHA}" + base64.b64encode(b"short"),
        b"x{SHA}" + base64.b64encode(hashlib.sha1(b"secret").digest()),
        base64.b64encode(base64.b64encode(_stored("SHA", hashlib.sha1(b"secret").digest()))),
    ],
)
def test_what_cannot_be_read_matches_nothing(stored: bytes) -> None:
    assert not verify_ldap_hash(stored, b"secret")
    assert not verify_ldap_hash(stored, stored)

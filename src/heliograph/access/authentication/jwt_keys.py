"""Keys that signatures of tokens are checked with: made ready once, each with the algorithms that fit its family.

A key of one family is never used with an algorithm of another one: a token that was signed with the text of a public
key as its HMAC secret is not valid, and one without a signature (`none`) fits no key at all.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt import PyJWK
from jwt.algorithms import Algorithm, get_default_algorithms
from jwt.exceptions import PyJWTError

_HMAC: Final = {"HS256": "sha256", "HS384": "sha384", "HS512": "sha512"}
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512", "secp256k1": "ES256K"}
_ALGORITHMS: Final[Mapping[str, Algorithm]] = get_default_algorithms()
_KEYS_MAX: Final = 100  # a token of an unknown key costs a signature check with each of them
_LISTED_MAX: Final = 1000  # with those of other uses
_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"

Verify = Callable[[bytes, bytes], bool]
"""Whether a signature (second) is that of what was signed (first)."""


class KeyUnusableError(ValueError):
    """A key cannot be used; the text says why and shows nothing of it."""


class VerifyingKey:
    """One key, with what checks a signature for each algorithm that it fits."""

    def __init__(self, verifiers: Mapping[str, Verify]) -> None:
        self._verifiers = verifiers

    def verifies(self, algorithm: str, signed: bytes, signature: bytes) -> bool:
        """False if the key does not fit the algorithm."""
        verify = self._verifiers.get(algorithm)
        return verify is not None and verify(signed, signature)

    def __repr__(self) -> str:
        return f"VerifyingKey({', '.join(self._verifiers)})"


def secret_key(secret: bytes) -> VerifyingKey:
    return VerifyingKey({name: _hmac(secret, digest) for name, digest in _HMAC.items()})


def pem_key(text_or_path: str) -> VerifyingKey:
    """The public key of a PEM text, or of a file that holds one or a certificate; `KeyUnusableError` without one."""
    pem = text_or_path
    if not is_pem(pem):
        try:
            pem = Path(text_or_path).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise KeyUnusableError(f"the file {text_or_path!r} of a public key cannot be read: {error}") from None
    try:
        if _CERTIFICATE in pem:
            key: object = x509.load_pem_x509_certificate(pem.encode()).public_key()
        else:
            key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise KeyUnusableError("public_key holds no public key or certificate in PEM") from None
    return _asymmetric(key)


def is_pem(text: str) -> bool:
    return "-----BEGIN" in text


def jwks_keys(body: bytes) -> list[VerifyingKey]:
    """The keys of a JWKS that can check signatures; `KeyUnusableError` without any, or with too many."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise KeyUnusableError("the JWKS is no JSON") from None
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise KeyUnusableError("the JWKS has no list of keys")
    keys = list(islice(_usable(listed), _KEYS_MAX + 1))
    if not keys:
        raise KeyUnusableError("the JWKS has no key that can be used")
    if len(keys) > _KEYS_MAX or len(listed) > _LISTED_MAX:
        raise KeyUnusableError(f"the JWKS has more than {_KEYS_MAX} keys, all of which would be tried with each token")
    return keys


def _usable(listed: Sequence[object]) -> Iterator[VerifyingKey]:
    for one in listed[:_LISTED_MAX]:
        key = _of_jwk(one) if isinstance(one, dict) else None
        if key is not None:
            yield key


def _of_jwk(jwk: Mapping[str, Any]) -> VerifyingKey | None:
    if jwk.get("use", "sig") != "sig":
        return None
    named = jwk.get("alg")
    algorithm = named if isinstance(named, str) and (named in _ALGORITHMS or named in _HMAC) else None
    if named is not None and algorithm is None:
        return None  # of encryption
    try:
        # PyJWK wants an algorithm where a key's family has several.
        key = PyJWK(dict(jwk), algorithm=algorithm).key
        made = secret_key(key) if isinstance(key, bytes) else _asymmetric(key)
    except (PyJWTError, ValueError, TypeError, KeyError, NotImplementedError):  # the last one for `none`
        return None
    return made if algorithm is None else _restricted(made, algorithm)


def _restricted(key: VerifyingKey, algorithm: str) -> VerifyingKey | None:
    verify = key._verifiers.get(algorithm)
    return None if verify is None else VerifyingKey({algorithm: verify})


def _asymmetric(key: object) -> VerifyingKey:
    if isinstance(
        key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey
    ):
        key = key.public_key()
    if isinstance(key, rsa.RSAPublicKey):
        names: Sequence[str] = _RSA
    elif isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        names = (_CURVES[key.curve.name],)
    elif isinstance(key, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        names = ("EdDSA",)
    else:
        raise KeyUnusableError("the public key is of no kind that signs tokens: RSA, EC or Ed25519")
    return VerifyingKey({name: _verify(_ALGORITHMS[name], key) for name in names})


def _verify(algorithm: Algorithm, key: object) -> Verify:
    return lambda signed, signature: algorithm.verify(signed, key, signature)


def _hmac(secret: bytes, digest: str) -> Verify:
    # Half of the work of an HMAC is its key's: that is done once.
    keyed = hmac.new(secret, digestmod=getattr(hashlib, digest))

    def verify(signed: bytes, signature: bytes) -> bool:
        mac = keyed.copy()
        mac.update(signed)
        return hmac.compare_digest(mac.digest(), signature)

    return verify

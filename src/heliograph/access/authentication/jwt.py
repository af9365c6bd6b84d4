"""The authenticator `jwt`: a token that a client brings as password or user name says who it is.

A token whose signature is not valid may be an ordinary password, of which the next authenticator knows more. One that
was signed by the right key but has expired, or says something else than it must, refuses its client.
"""

import binascii
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from heliograph.access.authentication.interface import Answer, Authenticator, Surroundings
from heliograph.access.authentication.jwt_keys import VerifyingKey, is_pem, pem_key, secret_key
from heliograph.access.authentication.results import ResultError, accepted, carried_rights, client_attrs, is_superuser
from heliograph.access.templates import Template, client_values
from heliograph.access.templates.template import warn_of_unknown
from heliograph.access.templates.values import JWT_NAMES
from heliograph.broker.authentication import AuthAttempt, AuthStep, Grants
from heliograph.broker.client import ClientInfo
from heliograph.config.authentication import JwtConfig, secret_bytes

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40}([eE][+-]?[0-9]{1,3})?)?")
_TIME_MAX_S: Final = 1 << 43  # the microseconds of later times have no room in 64 bits
_SOURCE: Final = "jwt"
_COMPACT: Final = re.compile(rb"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)\.([A-Za-z0-9_-]+)")
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_PADDING: Final = (b"", b"", b"==", b"=")  # by length modulo 4; one character too many is refused by the decoder
_TOKEN_BYTES_MAX: Final = 65_535


class TokenKeys(Protocol):
    """Where the keys of an authenticator come from; owned by it."""

    def are_current(self) -> bool: ...

    def all(self) -> Sequence[VerifyingKey]: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def health(self) -> str: ...


class FixedKeys:
    """Keys that stand in the settings or in the file `path`, which looked like `seen` before it was read."""

    def __init__(self, *keys: VerifyingKey, path: Path | None = None, seen: object = None) -> None:
        self._keys = keys
        self._path = path
        self._seen = seen

    def are_current(self) -> bool:
        return _stamp(self._path) == self._seen

    def all(self) -> Sequence[VerifyingKey]:
        return self._keys

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def health(self) -> str:
        return ""


class JwtAuthenticator(Authenticator):
    """Checks tokens with each of the keys; it holds nothing of any client."""

    def __init__(self, settings: JwtConfig, keys: TokenKeys, now_s: Callable[[], int]) -> None:
        super().__init__("jwt")
        self._keys = keys
        self._now_s = now_s
        self._in_password = settings.source == "password"
        self._ends_with_token = settings.disconnect_after_expire
        self._acl_claim = settings.acl_claim_name
        self._wanted = [(name, Template(text, JWT_NAMES)) for name, text in settings.verify_claims.items()]
        for claim, template in self._wanted:
            warn_of_unknown(f"the claim {claim} of jwt", template.unknown)

    async def start(self) -> None:
        await self._keys.start()

    async def stop(self) -> None:
        await self._keys.stop()

    def is_current(self) -> bool:
        return self._keys.are_current()

    def health(self) -> str:
        return self._keys.health()

    def authenticate(self, client: ClientInfo, attempt: AuthAttempt) -> Answer:
        if attempt.method is not None:
            return None
        if self._in_password:
            data = attempt.password
        else:
            data = None if attempt.username is None else attempt.username.encode()
        token = None if data is None else read_token(data)
        if token is None or not any(token.is_of(key) for key in self._keys.all()):
            return None
        claims = token.claims()
        if claims is None:
            return None
        try:
            return self._accepted(claims, client, attempt)
        except ResultError as error:
            return error.step()

    def _accepted(self, claims: Mapping[str, Any], client: ClientInfo, attempt: AuthAttempt) -> AuthStep:
        """Accept a client with what its token says; `ResultError` if the token does not hold or cannot be used."""
        expires_s = self._expiry(claims)
        self._check_claims(claims, client, attempt)
        expire_at_ms = int(expires_s * 1000) if expires_s is not None and self._ends_with_token else 0
        acl = None
        if self._acl_claim in claims:
            acl = carried_rights(claims[self._acl_claim], _SOURCE, expires_s, takes_map=True)
        attributes = client_attrs(claims["client_attrs"]) if "client_attrs" in claims else None
        return accepted(Grants(is_superuser(claims.get("is_superuser")), attributes, expire_at_ms, acl))

    def _expiry(self, claims: Mapping[str, Any]) -> float | None:
        now_s = self._now_s()
        expires_s, begins_s = _time(claims, "exp"), _time(claims, "nbf")
        if (expires_s is not None and now_s >= expires_s) or (begins_s is not None and now_s < begins_s):
            raise ResultError("the token is not valid now", refuses=True)
        return expires_s

    def _check_claims(self, claims: Mapping[str, Any], client: ClientInfo, attempt: AuthAttempt) -> None:
        if not self._wanted:
            return
        values = client_values(client, attempt)
        for name, wanted in self._wanted:
            if claims.get(name) != wanted.render(values):
                raise ResultError(f"the claim {name} is not as it must be", refuses=True)


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    """A time in seconds, None without the claim; raises `ResultError` if it is not a time."""
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value) if "." in value else int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ResultError(f"{name} is no number", refuses=True)
    return min(value, _TIME_MAX_S)


def make(settings: JwtConfig, surroundings: Surroundings) -> JwtAuthenticator:
    """Make it; a bad key raises `ValueError`, an unreadable secret `SecretError`, a bad file of TLS `OSError`."""
    return JwtAuthenticator(settings, _keys(settings, surroundings), surroundings.now_s)


def _keys(settings: JwtConfig, surroundings: Surroundings) -> TokenKeys:
    if settings.use_jwks:
        from heliograph.access.authentication.jwks import JwksKeys  # httpx is loaded where it is needed

        return JwksKeys(surroundings.backend_name("jwt"), settings, surroundings.backends)
    path = settings.secret.file
    if settings.algorithm == "public-key":
        path = None if is_pem(settings.public_key) else Path(settings.public_key)
    seen = _stamp(path)
    return FixedKeys(settings_key(settings), path=path, seen=seen)


def settings_key(settings: JwtConfig) -> VerifyingKey:
    """The key of the settings or of a file that they name; raises `ValueError` or `SecretError`."""
    if settings.algorithm == "public-key":
        return pem_key(settings.public_key)
    return secret_key(secret_bytes(settings.secret, is_base64=settings.secret_base64_encoded))


def _stamp(path: Path | None) -> object:
    """Differs when a file is another one."""
    try:
        status = None if path is None else path.stat()
    except OSError:
        return None
    return None if status is None else (status.st_mtime_ns, status.st_ino, status.st_size)


class SignedToken:
    """A token whose signature is not checked yet; `algorithm` is what its header claims."""

    def __init__(self, algorithm: str, signed: bytes, signature: bytes, payload: bytes) -> None:
        self.algorithm = algorithm
        self._signed = signed
        self._signature = signature
        self._payload = payload

    def is_of(self, key: VerifyingKey) -> bool:
        return key.verifies(self.algorithm, self._signed, self._signature)

    def claims(self) -> Mapping[str, Any] | None:
        """None if it is no JSON object."""
        try:
            claims = msgspec.json.decode(_decoded(self._payload))
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None
        return claims if isinstance(claims, dict) else None

    def __repr__(self) -> str:
        return f"SignedToken({self.algorithm!r})"


def read_token(data: bytes) -> SignedToken | None:
    """None if the bytes are no token that could be checked."""
    if len(data) > _TOKEN_BYTES_MAX:
        return None
    parts = _COMPACT.fullmatch(data)
    if parts is None:
        return None
    try:
        header = msgspec.json.decode(_decoded(parts[1]))
        signature = _decoded(parts[3])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    # What is critical (RFC 7515 section 4.1.11) must be understood, and nothing is.
    if not isinstance(header, dict) or "crit" in header or not isinstance(header.get("alg"), str):
        return None
    return SignedToken(header["alg"], data[: parts.end(2)], signature, parts[2])


def _decoded(part: bytes) -> bytes:
    """Base64 with the alphabet of URLs and without padding; raises `ValueError`."""
    return binascii.a2b_base64(part.translate(_STANDARD) + _PADDING[len(part) % 4], strict_mode=True)

"""Settings of `jwt`: signed tokens that clients bring as password or user name."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from heliograph.config.authentication.authenticator import AuthenticatorConfig
from heliograph.hocon.values import Content, Plain
from heliograph.settings.fields import optional_section, setting
from heliograph.settings.kinds import (
    AnyText,
    Boolean,
    Choice,
    Duration,
    Integer,
    Kind,
    RefusedError,
    SecretText,
    Text,
    Texts,
)
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls

_TIMES: Final = ("exp", "iat", "nbf")  # checked by themselves


class WantedClaims(Kind[Mapping[str, str]]):
    """Claims and the texts that they must have."""

    expected = 'an object of texts, as in { sub = "${username}" }, or a list of { name, value }'

    def convert(self, value: Content) -> Mapping[str, str]:
        """Texts by the names of claims."""
        wanted = dict(self._pairs(value))
        for name in wanted:
            if not name or name in _TIMES:
                raise RefusedError(f"{name!r} is no claim to compare; {', '.join(_TIMES)} are checked anyway")
        return wanted

    def plain(self, value: Mapping[str, str]) -> dict[str, Plain]:
        """An object."""
        return dict(value)

    def _pairs(self, value: Content) -> list[tuple[str, str]]:
        if isinstance(value, dict):
            return [(name, _text(node.value)) for name, node in value.items()]
        if not isinstance(value, list):
            raise RefusedError
        pairs = []
        for item in value:
            fields = item.value if isinstance(item.value, dict) else {}
            if set(fields) != {"name", "value"}:
                raise RefusedError
            pairs.append((_text(fields["name"].value), _text(fields["value"].value)))
        return pairs


def _text(value: Content) -> str:
    """A text; one that looks like a number in the file is compared as its digits."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int):
        raise RefusedError
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtConfig(AuthenticatorConfig):
    """Tokens whose signature says who a client is."""

    mechanism: str = setting(Choice("jwt"), "jwt", "Which authenticator it is.")
    source: str = setting(Choice("password", "username"), "password", "Where clients put the token.", name="from")
    use_jwks: bool = setting(Boolean(), False, "Whether the keys come from `endpoint`.")
    algorithm: str = setting(
        Choice("hmac-based", "public-key"),
        "hmac-based",
        "What the key is without `use_jwks`: `secret`, or `public_key`.",
    )
    secret: Secret = setting(SecretText(may_be_empty=True), Secret(), "The key of HS256, HS384 and HS512.")
    secret_base64_encoded: bool = setting(Boolean(), False, "Whether `secret` is in Base64.")
    public_key: str = setting(
        AnyText("a PEM text or the path of a PEM file"), "", "The public key or certificate of RS*, PS*, ES* and EdDSA."
    )
    endpoint: str = setting(Text("a URL as in https://issuer/jwks", r"(https?://\S+)?"), "", "Where the JWKS is.")
    headers: Mapping[str, str] = setting(
        Texts(), {"Accept": "application/json"}, "Headers of requests to `endpoint`.", is_secret=True
    )
    refresh_interval: float = setting(Duration(10.0), 300.0, "How often the JWKS is fetched.")
    pool_size: int = setting(Integer(1, 1024), 8, "Connections to `endpoint` at most.")
    tls: ClientTls | None = optional_section(
        ClientTls, "TLS to `endpoint`, if not with the authorities of the system.", name="ssl", has_switch=True
    )
    verify_claims: Mapping[str, str] = setting(
        WantedClaims(), {}, "Claims and the text that each must have; with `${clientid}` and `${username}`."
    )
    disconnect_after_expire: bool = setting(
        Boolean(), True, "Whether a client is disconnected when its token expires (`exp`)."
    )
    acl_claim_name: str = setting(Text("the name of a claim"), "acl", "The claim with the client's rights.")

    def __post_init__(self) -> None:
        if self.use_jwks:
            if not self.endpoint:
                raise RefusedError("use_jwks needs endpoint: where are the keys?", "endpoint")
        elif self.algorithm == "public-key":
            if not self.public_key:
                raise RefusedError("algorithm = public-key needs public_key", "public_key")
        elif not self.secret:
            raise RefusedError("algorithm = hmac-based needs secret", "secret")
        elif self.secret_base64_encoded and self.secret.file is None:
            try:
                secret_bytes(self.secret, is_base64=True)
            except ValueError as error:
                raise RefusedError(str(error), "secret") from None


def secret_bytes(secret: Secret, *, is_base64: bool) -> bytes:
    """The key that a secret is.

    Raises:
        ValueError: It is no Base64, or nothing is left of it.
        SecretError: Its file cannot be read.
    """
    text = secret.reveal()
    if not is_base64:
        return text.encode()
    try:
        key = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the secret is no Base64, as secret_base64_encoded says that it is") from None
    if not key:
        raise ValueError("the secret is empty")
    return key

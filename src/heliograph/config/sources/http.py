"""Settings of sources of the type `http_in`."""

from dataclasses import dataclass
from typing import Final

from heliograph.config.sources.interface import MessageSourceConfig
from heliograph.settings.fields import optional, optional_section, required, required_section, setting
from heliograph.settings.kinds import AnyText, Choice, Integer, RefusedError, SecretText, Size, Text
from heliograph.settings.secrets import Secret

TOKEN_LENGTH_MIN: Final = 16
"""Characters of a token, or of the secret of a signature."""
BASE64: Final = "base64"
_BODY_BYTES_MAX: Final = 4_000_000  # what a frame to the node holds, with room for headers


@dataclass(frozen=True, kw_only=True)
class BodySignature:
    """How callers sign the body of a request."""

    secret: Secret = required(
        SecretText(), f"What both sides know, {TOKEN_LENGTH_MIN} characters at least, or `file://PATH` with it."
    )
    header: str = setting(
        Text("the name of a header", r"[A-Za-z0-9_-]{1,100}"), "X-Hub-Signature-256", "The header with the signature."
    )
    algorithm: str = setting(Choice("sha256", "sha512"), "sha256", "Hash of the HMAC.")
    prefix: str = setting(AnyText(), "sha256=", "What stands before the signature; empty for nothing.")
    encoding: str = setting(Choice("hex", BASE64), "hex", "How the signature is written.")

    def __post_init__(self) -> None:
        _check_length(self.secret, "secret")


@dataclass(frozen=True, kw_only=True)
class HttpInParameters:
    token: Secret | None = optional(
        SecretText(),
        f"What callers show, {TOKEN_LENGTH_MIN} characters at least, or `file://PATH` with it; without it, `hmac`.",
    )
    hmac: BodySignature | None = optional_section(
        BodySignature, "The signature of bodies, which is checked beside the token, or in its place without one."
    )
    max_body_size: int = setting(Size(1, _BODY_BYTES_MAX), 1_000_000, "Bytes of the largest body that is taken.")
    qos: int = setting(Integer(0, 2), 1, "Quality of service with which a request comes in.")

    def __post_init__(self) -> None:
        if self.token is None and self.hmac is None:
            raise RefusedError("is missing, and nothing else keeps strangers out: give it, or hmac.secret", "token")
        if self.token is not None:
            _check_length(self.token, "token")


def _check_length(secret: Secret, name: str) -> None:
    if secret.file is None and len(secret.text) < TOKEN_LENGTH_MIN:  # that of a file is seen when it is read
        text = f"found a {name} of {len(secret.text)} characters; {TOKEN_LENGTH_MIN} at least keep strangers out"
        raise RefusedError(text, name)


@dataclass(frozen=True, kw_only=True)
class HttpIn(MessageSourceConfig):
    parameters: HttpInParameters = required_section(HttpInParameters, "Who may send what.")

"""Settings of sources of the type `http_in`."""

from dataclasses import dataclass
from typing import Final

from heliograph.config.sources.interface import MessageSourceConfig
from heliograph.settings.fields import required, required_section, setting
from heliograph.settings.kinds import Integer, RefusedError, SecretText, Size
from heliograph.settings.secrets import Secret

TOKEN_LENGTH_MIN: Final = 16
_BODY_BYTES_MAX: Final = 4_000_000  # what a frame to the node holds, with room for headers


@dataclass(frozen=True, kw_only=True)
class HttpInParameters:
    token: Secret = required(
        SecretText(), f"What callers show, {TOKEN_LENGTH_MIN} characters at least, or `file://PATH` with it."
    )
    max_body_size: int = setting(Size(1, _BODY_BYTES_MAX), 1_000_000, "Bytes of the largest body that is taken.")
    qos: int = setting(Integer(0, 2), 1, "Quality of service with which a request comes in.")

    def __post_init__(self) -> None:
        if (
            self.token.file is None and len(self.token.text) < TOKEN_LENGTH_MIN
        ):  # that of a file is seen when it is read
            text = f"found a token of {len(self.token.text)} characters; {TOKEN_LENGTH_MIN} at least keep strangers out"
            raise RefusedError(text, "token")


@dataclass(frozen=True, kw_only=True)
class HttpIn(MessageSourceConfig):
    parameters: HttpInParameters = required_section(HttpInParameters, "Who may send what.")

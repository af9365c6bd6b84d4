"""How a sink speaks TLS to its target: the object `ssl` of its section, with the names that listeners have."""

import ssl
from dataclasses import dataclass
from typing import Final, Self

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.files.section import Section
from heliograph.pipeline.tls import client_context

_VERIFY_PEER: Final = "verify_peer"
_VERIFY_NONE: Final = "verify_none"


@dataclass(frozen=True)
class TlsSettings:
    """How to check the target and what to show it.

    Attributes:
        verify: Whether the target's certificate and name are checked.
        cacertfile: PEM file with the authorities to check against; None are the system's.
        certfile: PEM file with a certificate to show.
        keyfile: PEM file with its key; None if it is in `certfile`.
    """

    verify: bool = True
    cacertfile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None

    @classmethod
    def read(cls, section: Section) -> Self | None:
        """Read the object `ssl` of a sink's section; None where it is not there, or is not enabled."""
        tls = section.section("ssl")
        if tls is None:
            return None
        tls.check_keys("enable", "verify", "cacertfile", "certfile", "keyfile")
        verify = tls.text("verify", _VERIFY_PEER)
        if verify not in (_VERIFY_PEER, _VERIFY_NONE):
            valid = f"{_VERIFY_PEER} or {_VERIFY_NONE}"
            raise tls.mistake(f"{tls.path}.verify is {verify!r}, but must be {valid}", tls.fields["verify"])
        if "enable" in tls.fields and not tls.flag("enable"):
            return None
        files = (tls.optional_text(key) for key in ("cacertfile", "certfile", "keyfile"))
        return cls(verify == _VERIFY_PEER, *files)

    def context(self) -> ssl.SSLContext:
        """A context for clients.

        Raises:
            SinkError: A file cannot be read.
        """
        return client_context(self.cacertfile, self.certfile, self.keyfile, self.verify, SinkError)

"""The settings of TLS: of our servers, and of our clients.

Clients speak to targets of pipelines, to services that rules ask, to brokers under load.
"""

import ssl
from dataclasses import dataclass
from typing import Final

from heliograph.settings.fields import setting
from heliograph.settings.kinds import PemFile, RefusedError, Words

_FILE: Final = PemFile()


@dataclass(frozen=True, slots=True)
class ServerTls:
    """What a server shows, and whether it asks its clients for a certificate."""

    certfile: str = setting(_FILE, "", "PEM file with the server's certificate and what leads to its root; required.")
    keyfile: str = setting(_FILE, "", "PEM file with its private key; empty if in `certfile`.")
    cacertfile: str = setting(
        _FILE, "", "PEM file with the authorities that clients' certificates are checked against."
    )
    verify: bool = setting(
        Words({"verify_none": False, "verify_peer": True}), False, "Whether clients are asked for a certificate."
    )

    def __post_init__(self) -> None:
        if self.verify and not self.cacertfile:
            raise RefusedError("verify = verify_peer needs cacertfile: which authorities are to be trusted?")


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How to check a server and what to show it."""

    cacertfile: str = setting(_FILE, "", "PEM file with the authorities to trust; empty for those of the system.")
    certfile: str = setting(_FILE, "", "PEM file with a certificate to show; empty for none.")
    keyfile: str = setting(_FILE, "", "PEM file with its private key; empty if in `certfile`.")
    verify: bool = setting(
        Words({"verify_peer": True, "verify_none": False}), True, "Whether the server's certificate is verified."
    )

    def context(self) -> ssl.SSLContext:
        """Raises `OSError` if a file cannot be read, or holds nothing that TLS can use."""
        context = ssl.create_default_context(cafile=self.cacertfile or None)
        if self.certfile:
            context.load_cert_chain(self.certfile, self.keyfile or None)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

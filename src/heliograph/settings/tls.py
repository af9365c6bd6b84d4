"""How a client of ours speaks TLS: to targets of pipelines, to services that rules ask, to brokers under load."""

import ssl
from dataclasses import dataclass

from heliograph.settings.fields import setting
from heliograph.settings.kinds import AnyText, Words


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How to check a server and what to show it."""

    cacertfile: str = setting(
        AnyText("a file"), "", "PEM file with the authorities to trust; empty for those of the system."
    )
    certfile: str = setting(AnyText("a file"), "", "PEM file with a certificate to show; empty for none.")
    keyfile: str = setting(AnyText("a file"), "", "PEM file with its private key; empty if in `certfile`.")
    verify: bool = setting(
        Words({"verify_peer": True, "verify_none": False}), True, "Whether the server's certificate is verified."
    )

    def context(self) -> ssl.SSLContext:
        """A context for clients.

        Raises:
            OSError: A file cannot be read, or holds nothing that TLS can use.
        """
        context = ssl.create_default_context(cafile=self.cacertfile or None)
        if self.certfile:
            context.load_cert_chain(self.certfile, self.keyfile or None)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

"""How a client of ours speaks TLS: to targets of pipelines, to services that rules ask, to brokers under load."""

import ssl
from dataclasses import dataclass


@dataclass(frozen=True)
class ClientTls:
    """How to check a server and what to show it.

    Attributes:
        cacertfile: PEM file with the authorities to check against; None or empty are the system's.
        certfile: PEM file with a certificate to show.
        keyfile: PEM file with its key; None if it is in `certfile`.
        verify: Whether the server's certificate and name are checked.
    """

    cacertfile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """A context for clients.

        Raises:
            OSError: A file cannot be read, or holds nothing that TLS can use.
        """
        context = ssl.create_default_context(cafile=self.cacertfile or None)
        if self.certfile is not None:
            context.load_cert_chain(self.certfile, self.keyfile)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

"""The other end of a connection, as the transport knows it before a byte of MQTT came."""


class Peer:
    """Where a connection comes from; made by the transport, kept by the channel.

    Args:
        username: What the certificate gives by `peer_cert_as_username`; likewise `clientid`.
        certificate: In DER.
    """

    def __init__(
        self,
        peername: str,
        sockname: str = "",
        common_name: str | None = None,
        subject: str | None = None,
        username: str | None = None,
        clientid: str | None = None,
        certificate: bytes | None = None,
    ) -> None:
        self.peername = peername
        self.sockname = sockname
        self.common_name = common_name
        self.subject = subject
        self.username = username
        self.clientid = clientid
        self.certificate = certificate

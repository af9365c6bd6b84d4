"""The other end of a connection, as the transport knows it before a byte of MQTT came."""


class Peer:
    """Where a connection comes from; made by the transport, kept by the channel.

    Args:
        peername: The peer's address as `host:port` (of the client itself, if a proxy gave it).
        sockname: Our address as `host:port`.
        common_name: The common name of the peer's certificate, or None.
        subject: The distinguished name of the peer's certificate, or None.
        username: The user name that the certificate gives, by `peer_cert_as_username`, or None.
        clientid: The client id that the certificate gives, by `peer_cert_as_clientid`, or None.
        certificate: The peer's certificate in DER, or None.
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

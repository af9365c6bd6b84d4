"""The identity of a client, as hooks, access control and events see it."""

from base64 import b64encode
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mypy_extensions import i64, mypyc_attr

_NO_ATTRS: Final[Mapping[str, str]] = MappingProxyType({})


@mypyc_attr(allow_interpreted_subclasses=True)
class ClientInfo:
    """One client at one connection; made by its channel at CONNECT, a view of that connection.

    Args:
        clientid: Its client id; the assigned one if it brought none.
        peername: The peer's address as `host:port`; empty if it is not known any more.

    Attributes:
        sockname: Our address as `host:port`.
        listener: The listener that accepted it, as `tcp:default`.
        mountpoint: What stands before its topics; empty for nothing.
        keepalive_s: The keepalive that holds, 0 for none.
        expiry_interval_s: How long its session outlives its connection; known when the session is opened.
        client_attrs: What the operator has made of it by name (`mqtt.client_attrs_init`); an authenticator may replace
            it by more.
        will_topic: The topic of the will that it connected with, without the mountpoint; None if it has none.
        is_superuser: Granted by an authenticator: what it does is not asked about.
        acl: Granted by an authenticator: the rules that it carries; None for none.
        expires_at_us: When it is disconnected, in microseconds since the epoch; 0 for never.
        kept_rights: What the node's authorization keeps about it, such as rules that it fetched; dropped when what the
            client is changes.
        certificate: The certificate that it showed, in DER; None if it showed none.
    """

    def __init__(self, clientid: str, username: str | None, peername: str) -> None:
        self.clientid = clientid
        self.username = username
        self.peername = peername
        self.sockname = ""
        self.listener = "tcp:default"
        self.zone = "default"
        self.mountpoint = ""
        self.version: i64 = 4
        self.clean_start = True
        self.keepalive_s: i64 = 0
        self.connected_at_us: i64 = 0
        self.common_name: str | None = None
        self.subject: str | None = None
        self.expiry_interval_s: i64 = 0
        self.client_attrs: Mapping[str, str] = _NO_ATTRS
        self.will_topic: str | None = None
        self.is_superuser = False
        self.acl: object = None
        self.expires_at_us: i64 = 0
        self.kept_rights: object = None
        self.certificate: bytes | None = None

    @property
    def proto_name(self) -> str:
        return "MQIsdp" if self.version == 3 else "MQTT"

    @property
    def peerport(self) -> int:
        """The peer's port; 0 where it has none, or is not known any more."""
        _, colon, port = self.peername.rpartition(":")
        return int(port) if colon and port.isdigit() else 0

    @property
    def cert_pem(self) -> str | None:
        """The certificate that it showed, in Base64 without lines; None if it showed none."""
        return None if self.certificate is None else b64encode(self.certificate).decode()

    @property
    def peerhost(self) -> str:
        return host_of(self.peername)

    def __repr__(self) -> str:
        return f"ClientInfo({self.clientid!r} at {self.peername}, {self.listener})"


def host_of(address: str) -> str:
    """The host of `host:port` or `[host]:port`; the whole text where there is no port (a Unix socket's path)."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return address
    return host[1:-1] if host.startswith("[") else host

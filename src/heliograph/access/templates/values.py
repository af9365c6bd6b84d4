"""What placeholders stand for: the names that each kind of template may hold, and the values of a client."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from heliograph.broker.authentication import AuthAttempt
from heliograph.broker.client import ClientInfo

# Values by name; what a client does not have is not there. Bytes that are not UTF-8 (of a password) are surrogates, as
# in `os.environ`.
Values: TypeAlias = Mapping[str, str]

TOPIC_NAMES: Final = frozenset(("username", "clientid", "cert_common_name", "zone", "client_attrs"))
"""Topics of rules."""

JWT_NAMES: Final = frozenset(("username", "clientid"))
"""What claims of a JWT have to be."""

QUERY_NAMES: Final = TOPIC_NAMES | {"peerhost", "peerport", "cert_subject", "listener"}
"""Questions of authorization to databases and directories."""

AUTHENTICATION_NAMES: Final = QUERY_NAMES | {"password", "cert_pem"}
"""Questions of authentication."""

REQUEST_NAMES: Final = QUERY_NAMES | {
    *("action", "topic", "qos", "retain", "access", "proto_name", "mountpoint", "cert_pem"),
}
"""Questions of authorization over HTTP."""


def client_values(client: ClientInfo, attempt: AuthAttempt | None = None, **more: str | None) -> dict[str, str]:
    """What placeholders stand for where they are about a client.

    Args:
        more: Values of other names, or in the place of those of the client.
    """
    username = client.username if attempt is None else attempt.username
    password = None if attempt is None or attempt.password is None else attempt.password
    port = client.peerport
    known = {
        "clientid": client.clientid,
        "username": username,
        "password": None if password is None else password.decode("utf-8", "surrogateescape"),
        "peerhost": client.peerhost,
        "peerport": str(port) if port else None,
        "zone": client.zone,
        "listener": client.listener,
        "cert_common_name": client.common_name,
        "cert_subject": client.subject,
        "cert_pem": client.cert_pem,
        "mountpoint": client.mountpoint,
        "proto_name": client.proto_name,
        **more,
    }
    values = {name: value for name, value in known.items() if value is not None}
    for name, value in client.client_attrs.items():
        values[f"client_attrs.{name}"] = value
    return values

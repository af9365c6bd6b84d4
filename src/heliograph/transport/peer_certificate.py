"""What a client's certificate says about who it is (`peer_cert_as_username`, `peer_cert_as_clientid`)."""

import base64
import hashlib
import ssl
from typing import Final, cast

from heliograph.channel.peer import Peer

DISABLED: Final = "disabled"

# Short names of RFC 4514 and those in use beside it; attributes without one keep their long name.
_SHORT_NAMES: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "serialNumber": "SERIALNUMBER",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "surname": "SN",
    "title": "TITLE",
    "userId": "UID",
}
_ESCAPED: Final = frozenset('",+;<>\\')

_Subject = tuple[tuple[tuple[str, str], ...], ...]


class PeerIdentity:
    """Fills in what the certificate of a connection says; one for each listener.

    Args:
        as_username: Which field is the user name: `disabled`, `cn`, `dn`, `crt`, `pem` or `md5`.
    """

    def __init__(self, as_username: str = DISABLED, as_clientid: str = DISABLED) -> None:
        self._as_username = as_username
        self._as_clientid = as_clientid

    def fill_in(self, peer: Peer, connection: object) -> None:
        """Complete `peer` from its TLS connection; a client without a verified certificate stays as it is."""
        if isinstance(connection, ssl.SSLObject | ssl.SSLSocket):
            certificate = connection.getpeercert()
            encoded = connection.getpeercert(binary_form=True)
            if certificate and encoded:
                subject = cast("_Subject", certificate.get("subject", ()))
                peer.common_name = _common_name(subject)
                peer.subject = distinguished_name(subject)
                peer.certificate = encoded
                peer.username = self._field(self._as_username, peer, encoded)
                peer.clientid = self._field(self._as_clientid, peer, encoded)

    def fill_in_common_name(self, peer: Peer, common_name: str) -> None:
        """Complete `peer` with the common name that a proxy verified."""
        peer.common_name = common_name
        if self._as_username == "cn":
            peer.username = common_name
        if self._as_clientid == "cn":
            peer.clientid = common_name

    def _field(self, field: str, peer: Peer, encoded: bytes) -> str | None:
        if field == "cn":
            return peer.common_name
        if field == "dn":
            return peer.subject
        if field == "md5":
            return hashlib.md5(encoded, usedforsecurity=False).hexdigest()
        if field == "pem":
            return ssl.DER_cert_to_PEM_cert(encoded)
        # MQTT's texts are UTF-8, which the certificate's bytes are not.
        return base64.b64encode(encoded).decode() if field == "crt" else None


def distinguished_name(subject: _Subject) -> str:
    """A subject in the notation of RFC 4514: the last part first."""
    return ",".join(
        "+".join(f"{_SHORT_NAMES.get(name, name)}={_escape(value)}" for name, value in part)
        for part in reversed(subject)
    )


def _common_name(subject: _Subject) -> str | None:
    for part in subject:
        for name, value in part:
            if name == "commonName":
                return value
    return None


def _escape(value: str) -> str:
    text = "".join(f"\\{character}" if character in _ESCAPED else character for character in value)
    if text.startswith((" ", "#")):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(value) > 1 else text

"""Who may read what over Flight: tokens and their rights, and the certificate that the reader shows.

The node reads the settings and the files of tokens; the reader process gets them over its standard input, where no list
of processes shows them, and of a token only its digest. What a caller may do is decided here; asking is
`heliograph.storage.reader`'s.
"""

import hashlib
import hmac
import json
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from heliograph.mqtt.topic import filter_covers
from heliograph.settings.units import is_loopback
from heliograph.storage.errors import StorageError, UnknownDatabaseError

_SCHEME: Final = "Bearer "


class UnauthenticatedError(StorageError):
    """A request without a token, or with one that the reader does not know."""

    code = "storage_unauthenticated"
    advice = (
        "Send a token of durable_storage.flight.tokens, or the node's own in DATA_DIR/flight_token, as `authorization: "
        "Bearer TOKEN` (option `token` in Spark)."
    )


class ForbiddenError(StorageError):
    """A request for what its token may not see."""

    code = "storage_forbidden"
    advice = "Ask for less, or have durable_storage.flight.tokens allow it."


class ReaderSettingsError(StorageError):
    """What the settings of the reader name cannot be used."""

    code = "storage_reader_settings"
    advice = "Mend that setting of durable_storage.flight."


@dataclass(frozen=True, slots=True)
class ReaderToken:
    """A token and what it allows.

    Attributes:
        digest: SHA-256 of its text, in hexadecimal digits.
        topics: Topic filters; all others are refused.
        databases: Databases of messages; all others are refused.
        user: The user whose rights decide which topics are read of these; empty for all of them.
    """

    name: str
    digest: str = field(repr=False)
    topics: tuple[str, ...]
    databases: tuple[str, ...]
    user: str = ""

    @property
    def sees_all_topics(self) -> bool:
        """Whether it allows every topic, so that sums over topics tell nothing more."""
        return "#" in self.topics and not self.user

    def check_database(self, database: str, existing: Sequence[str]) -> None:
        """Refuse a database that it does not allow, or that is not there; the error lists only what it may know."""
        if database not in self.databases:
            raise ForbiddenError(
                f"the token {self.name!r} does not allow the database {database!r}; it allows "
                f"{', '.join(self.databases) or 'none'}",
                database="",
            )
        if database not in existing:
            listed = ", ".join(self.visible(existing)) or "none"
            raise UnknownDatabaseError(f"there is no such database; there are: {listed}", database=database)

    def check_topics(self, filters: Iterable[str]) -> None:
        """Refuse topic filters that match more than it allows."""
        for wanted in filters:
            if not any(filter_covers(allowed, wanted) for allowed in self.topics):
                raise ForbiddenError(
                    f"the token {self.name!r} does not allow the topic filter {wanted!r}; it allows "
                    f"{', '.join(self.topics) or 'none'}, and filters within these",
                    database="",
                )

    def visible(self, databases: Iterable[str]) -> list[str]:
        return [database for database in databases if database in self.databases]


@dataclass(frozen=True, slots=True)
class ReaderSecurity:
    """What the reader process knows about its callers. It never holds a token, only digests.

    Attributes:
        open_to_all: Whether a request without a token sees everything; None leaves that to the address.
        certfile: PEM file with the certificate; empty for no TLS.
        cacertfile: PEM file with the authorities of clients' certificates; empty if clients need none.
        local_digest: SHA-256 of the node's own token, which allows everything; empty for none.
    """

    tokens: tuple[ReaderToken, ...] = ()
    open_to_all: bool | None = None
    certfile: str = ""
    keyfile: str = ""
    cacertfile: str = ""
    local_digest: str = ""

    @classmethod
    def from_json(cls, text: str) -> "ReaderSecurity":
        fields: dict[str, Any] = json.loads(text)
        tokens = tuple(
            ReaderToken(
                token["name"], token["digest"], tuple(token["topics"]), tuple(token["databases"]), token["user"]
            )
            for token in fields.pop("tokens")
        )
        return cls(tokens, **fields)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def check_address(self, host: str) -> None:
        """Refuse to serve an address that other machines can reach without a token, unless the settings allow it."""
        if not self.tokens and self.open_to_all is None and not is_loopback(host):
            raise ReaderSettingsError(
                f"every client that reaches {host} could read all messages: describe who may in "
                "durable_storage.flight.tokens, bind to 127.0.0.1, or say durable_storage.flight.require_token = false",
                database="",
            )

    def authenticate(self, authorization: str | None) -> ReaderToken | None:
        """The token of a request, None for one that may see everything without.

        Raises:
            UnauthenticatedError: It needs a token that the reader knows.
        """
        open_to_all = self.open_to_all if self.open_to_all is not None else not (self.tokens or self.local_digest)
        if authorization is None:
            if open_to_all:
                return None
            raise UnauthenticatedError("this storage reader needs a token, and the request has none", database="")
        digest = digest_of(authorization.removeprefix(_SCHEME))
        found = None
        if self.local_digest and hmac.compare_digest(self.local_digest, digest):
            return None
        for token in self.tokens:  # all of them, always: the time tells nothing
            if hmac.compare_digest(token.digest, digest):
                found = token
        if found is None and not open_to_all:  # without its token the client would see everything
            raise UnauthenticatedError("this storage reader does not know the token of the request", database="")
        return found

    def certificate(self) -> tuple[bytes, bytes] | None:
        """Certificate and key as PEM, where there is TLS."""
        if not self.certfile:
            return None
        keyfile = self.keyfile or self.certfile
        certificate, key = read_file("tls.certfile", self.certfile), read_file("tls.keyfile", keyfile)
        if b"ENCRYPTED" in key:
            raise unusable("tls.keyfile", keyfile, "a key with a password cannot be used here")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certfile, keyfile)
        except ssl.SSLError as error:
            fault = "the key does not belong to the certificate"
            if error.reason != "KEY_VALUES_MISMATCH":
                fault = f"it is not a certificate and its key in PEM ({error.reason})"
            raise unusable("tls.certfile", self.certfile, fault) from None
        return certificate, key

    def authorities(self) -> bytes | None:
        """The authorities of clients' certificates as PEM, where clients need one."""
        return read_file("tls.cacertfile", self.cacertfile) if self.cacertfile else None


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def read_file(setting: str, file: str) -> bytes:
    """What is in a file that a setting of the reader names."""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise unusable(setting, file, error.strerror or str(error)) from None


def unusable(setting: str, file: str, why: str) -> ReaderSettingsError:
    return ReaderSettingsError(f'durable_storage.flight.{setting} = "{file}": {why}', database="")

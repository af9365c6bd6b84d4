"""An LDAP server that is searched for one entry, and asked whether a password is that of an entry.

The library ldap3 is Python alone, so that it works after an installation without a compiler; it blocks, so each
connection has a thread. Passwords are sent as the client sent them, as bytes: a text would be prepared as RFC 4513
wants it, which makes nothing of some characters, and a bind without a password succeeds on many servers. Referrals are
not followed: who may log in is said by the server that the operator named.
"""

import socket
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from heliograph.access.backends.interface import Fault, PoolLimits
from heliograph.access.backends.live import Backends
from heliograph.access.backends.store import AccessStore
from heliograph.access.backends.threads import BlockingConnector, Threaded
from heliograph.access.templates import Template, Values
from heliograph.access.templates.ldap import dn_value, filter_value
from heliograph.access.templates.template import warn_of_unknown
from heliograph.config.backends.ldap import LdapConnection
from heliograph.outbound import Dialer

_CONNECT_S: Final = 5.0


# Results of the protocol (RFC 4511, appendix A).
_SUCCESS: Final = 0
_SIZE_LIMIT_EXCEEDED: Final = 4
_NO_SUCH_OBJECT: Final = 32


# The server is to blame for these, and not a password: operationsError, protocolError, timeLimitExceeded, busy,
# unavailable, other.
_FAILURES: Final = frozenset((1, 2, 3, 51, 52, 80))
_AWAY: Final = frozenset((51, 52))


@dataclass(frozen=True, slots=True)
class LdapEntry:
    """An entry; its attributes have names in small letters."""

    dn: str
    attributes: Mapping[str, list[bytes]]

    def values(self, attribute: str) -> list[bytes]:
        return self.attributes.get(attribute.lower(), [])

    def value(self, attribute: str) -> bytes | None:
        return next(iter(self.values(attribute)), None)


class Ldap(AccessStore[Threaded["LdapClient"], tuple[str, str]]):
    """The first entry that fits; a question is the name below which is searched, and the filter, values escaped."""

    def __init__(
        self,
        name: str,
        settings: LdapConnection,
        names: Collection[str],
        attributes: Iterable[str],
        backends: Backends,
    ) -> None:
        limits = PoolLimits(questions=settings.pool_size, deadline_s=settings.query_timeout, connect_s=_CONNECT_S)
        super().__init__(name, LdapConnector(settings, backends.outbound.dialer(name)), limits, backends)
        self._base = Template(settings.base_dn, names)
        self._filter = Template(settings.filter, names)
        self.names = [*self._base.names, *self._filter.names]
        warn_of_unknown("base_dn and filter of LDAP", [*self._base.unknown, *self._filter.unknown])
        self._wanted = list(attributes)

    def question(self, values: Values) -> tuple[str, str]:
        return self._base.render(values, dn_value), self._filter.render(values, filter_value)

    async def rows(self, question: tuple[str, str]) -> list[LdapEntry]:
        entry = await self.pool.ask(lambda threaded: threaded.run(lambda client: client.find(*question, self._wanted)))
        return [] if entry is None else [entry]

    async def is_password(self, dn: str, password: bytes) -> bool:
        """Whether an entry can be bound with a password; without a name or a password the server is not asked."""
        if not dn or not password:  # many servers answer with success without a login (RFC 4513, 5.1.2)
            return False
        if not _is_utf8(password):  # which the library cannot send, and RFC 4513 does not allow
            return False
        return await self.pool.ask(lambda threaded: threaded.run(lambda client: client.can_bind(dn, password)))


class LdapConnector(BlockingConnector["LdapClient"]):
    kind = "ldap"

    def __init__(self, settings: LdapConnection, dialer: Dialer) -> None:
        self.server = str(settings.server)
        self._settings = settings
        self._dialer = dialer
        self._password = ""

    def connect(self) -> "LdapClient":
        """A connection that the user of the settings has bound."""
        self._password = self._settings.password.reveal() if self._settings.password is not None else ""
        client = LdapClient(self._settings, self._dialer)
        try:
            client.log_in(self._settings.username or "", self._password)
        except BaseException:
            client.close()
            raise
        return client

    def ping(self, client: "LdapClient") -> None:
        """Read the root entry, which every server has."""
        client.find("", "(objectClass=*)", ["1.1"], whole=False)

    def disconnect(self, client: "LdapClient") -> None:
        client.close()

    def interrupt(self, client: "LdapClient") -> None:
        client.interrupt()

    def fault(self, error: Exception) -> Fault:
        """The library's texts about filters and names may have values of clients."""
        from ldap3.core import exceptions

        lost = (exceptions.LDAPCommunicationError, exceptions.LDAPBindError, exceptions.LDAPResponseTimeoutError)
        if isinstance(error, LdapResultError):
            return Fault(str(error), error.is_lost)
        if isinstance(error, (*lost, exceptions.LDAPSessionTerminatedByServerError, OSError)):
            return Fault(str(error), True)
        return Fault(type(error).__name__, False)

    def secrets(self) -> tuple[str, ...]:
        return (self._password,) if self._password else ()


class LdapResultError(Exception):
    def __init__(self, doing: str, result: Mapping[str, Any]) -> None:
        super().__init__(f"{doing}: {result['description']}")
        self.is_lost = result["result"] in _AWAY


class LdapClient:
    """One connection for searching, and one for trying passwords; used in one thread."""

    def __init__(self, settings: LdapConnection, dialer: Dialer) -> None:
        import ldap3

        self._library = ldap3
        self._settings = settings
        self._dialer = dialer
        self._searching: Any = None
        self._trying: Any = None

    def log_in(self, username: str, password: str) -> None:
        """Open the connection for searching, anonymously with an empty name; raises `LdapResultError`."""
        self._searching = self._connection(username, password.encode())
        if username and not password:
            raise LdapResultError("the user has no password", {"description": "refused", "result": -1})
        _, result, *_ = self._searching.bind()
        if result["result"] != _SUCCESS:
            raise LdapResultError("the server does not let us in", result)

    def find(self, base: str, search_filter: str, attributes: list[str], *, whole: bool = True) -> LdapEntry | None:
        """The first entry; with `whole`, all that is below `base` is searched, else that entry alone."""
        _, result, response, _ = self._searching.search(
            base,
            search_filter,
            self._library.SUBTREE if whole else self._library.BASE,
            attributes=attributes,
            size_limit=1,
            time_limit=ceil(self._settings.query_timeout),
        )
        if result["result"] not in (_SUCCESS, _SIZE_LIMIT_EXCEEDED, _NO_SUCH_OBJECT):
            raise LdapResultError("the search failed", result)
        for entry in response or ():
            if entry["type"] == "searchResEntry":
                values = {name.lower(): list(found) for name, found in entry["raw_attributes"].items()}
                return LdapEntry(entry["dn"], values)
        return None

    def can_bind(self, dn: str, password: bytes) -> bool:
        if self._trying is None or self._trying.closed:
            self._trying = self._connection(dn, password)
        try:
            _, result, *_ = self._trying.rebind(dn, password, self._library.SIMPLE)
        finally:
            self._trying.password = None  # that of a client is not kept
        if result["result"] in _FAILURES:
            raise LdapResultError("the bind failed", result)
        return bool(result["result"] == _SUCCESS)

    def close(self) -> None:
        for connection in (self._searching, self._trying):
            if connection is None:
                continue
            with suppress(Exception):
                connection.unbind()
            with suppress(Exception):  # the library leaves one open whose server has gone
                connection.socket.close()

    def interrupt(self) -> None:
        """End the sockets, from another thread."""
        for connection in (self._searching, self._trying):
            with suppress(OSError, AttributeError):
                connection.socket.shutdown(socket.SHUT_RDWR)

    def _connection(self, dn: str, password: bytes) -> Any:
        """An open connection; the library gets an address that was checked, and would resolve a name itself."""
        problem: Exception | None = None
        for address in self._dialer.addresses(self._settings.server.host, self._settings.server.port):
            connection = self._connection_to(address.host, dn, password)
            try:
                connection.open(read_server_info=False)
            except self._library.core.exceptions.LDAPSocketOpenError as error:
                with suppress(Exception):  # the library leaves one open that could not connect
                    connection.socket.close()
                problem = error
            else:
                return connection
        assert problem is not None  # there is one address at least
        raise problem

    def _connection_to(self, address: str, dn: str, password: bytes) -> Any:
        server = self._library.Server(
            address,
            self._settings.server.port,
            use_ssl=self._settings.tls is not None,
            tls=_tls(self._library, self._settings),
            connect_timeout=_CONNECT_S,
            get_info=self._library.NONE,
        )
        return self._library.Connection(
            server,
            dn or None,
            password or None,
            client_strategy=self._library.SAFE_SYNC,
            auto_referrals=False,
            check_names=False,
            auto_escape=False,
            read_only=True,
            receive_timeout=ceil(self._settings.request_timeout),
        )


def _is_utf8(password: bytes) -> bool:
    try:
        password.decode()
    except UnicodeDecodeError:
        return False
    return True


def _tls(library: Any, settings: LdapConnection) -> Any:
    """TLS as all our clients have it: the library's own checks the name of the server after the handshake."""
    if settings.tls is None:
        return None
    context = settings.tls.context()

    def wrap_socket(connection: Any, do_handshake: bool = True) -> None:
        bare = connection.socket
        try:
            connection.socket = context.wrap_socket(bare, server_hostname=settings.server.host)
        except BaseException:
            bare.close()
            raise

    tls = library.Tls()
    tls.wrap_socket = wrap_socket
    return tls

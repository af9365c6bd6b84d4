"""The authenticator `gssapi:kerberos`: a client shows a ticket of Kerberos, and the node shows that it can read it.

The exchange is that of SASL's mechanism GSSAPI (RFC 4752), as EMQX's clients speak it: tokens until both know each
other, then an empty offer of security layers, since TLS is below. Each step reads files and may ask
name servers, so it is made in a thread.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeVar

from heliograph.access.authentication.interface import Answer, Authenticator, Surroundings
from heliograph.broker.authentication import AuthAttempt, AuthStep, Grants
from heliograph.broker.client import ClientInfo
from heliograph.config.authentication import GssapiConfig
from heliograph.mqtt import reason_codes as rc
from heliograph.parts.threads import Threads

METHOD: Final = "GSSAPI-KERBEROS"
#: The client attribute that holds who the ticket is for.
PRINCIPAL: Final = "principal"

_THREADS_MAX: Final = 4
# One byte for the layers that are offered or chosen, here none, and three for the longest message of a layer.
_NO_LAYER: Final = b"\x01\x00\x00\x00"
_ROUNDS_MAX: Final = 8

Result = TypeVar("Result")


class KeytabError(Exception):
    code: ClassVar[str] = "keytab"


class _RefusedError(Exception):
    """The client is not let in."""


class Exchange:
    """The exchange with one client, from its CONNECT to its end; its steps are made one after the other, in threads.

    Args:
        realm: Ours, whose principals may leave it out of their user names.
    """

    def __init__(self, context: Any, username: str | None, realm: str) -> None:
        self._context = context
        self._realm = realm
        self._username = username
        self._rounds = 0
        self._has_offered = False

    def step(self, data: bytes) -> tuple[bytes, str | None]:
        """The answer to what the client sent, and who it is where it is let in; raises where it is not."""
        self._rounds += 1
        if self._rounds > _ROUNDS_MAX:
            raise _RefusedError
        if not self._context.complete:
            token = self._context.step(data)
            if token or not self._context.complete:
                return token or b"", None
            return self._offer(), None
        if not self._has_offered:
            return self._offer(), None
        self._check_choice(self._context.unwrap(data).message)
        return b"", self._principal()

    def _offer(self) -> bytes:
        self._has_offered = True
        return bytes(self._context.wrap(_NO_LAYER, False).message)

    def _check_choice(self, choice: bytes) -> None:
        """Refuse a client that wants a layer, or to act as another one."""
        asked = choice[len(_NO_LAYER) :].decode()
        if choice[:1] != _NO_LAYER[:1] or (asked and not self.is_name_of(asked, str(self._context.initiator_name))):
            raise _RefusedError

    def _principal(self) -> str:
        principal = str(self._context.initiator_name)
        if self._username and not self.is_name_of(self._username, principal):
            raise _RefusedError
        return principal

    def is_name_of(self, name: str, principal: str) -> bool:
        """Whether a user name is a principal, which another realm may vouch for, or one of ours without its realm."""
        return principal in (name, f"{name}@{self._realm}")


class GssapiAuthenticator(Authenticator):
    def __init__(self, settings: GssapiConfig) -> None:
        super().__init__("gssapi:kerberos")
        self._settings = settings
        self._realm = settings.principal.rpartition("@")[2]
        self._threads = Threads(_THREADS_MAX, "gssapi")
        self._waiting = 0
        self._credentials: Any = None

    async def start(self) -> None:
        self._credentials = await self._call(lambda: _credentials(self._settings))

    async def stop(self) -> None:
        self._threads.stop()

    def authenticate(self, client: ClientInfo, attempt: AuthAttempt) -> Answer | Awaitable[Answer]:
        """A client without a token is left to the next authenticator."""
        if attempt.method != METHOD:
            return None
        if attempt.state is None and not attempt.data:
            return None
        return self._step(client, attempt)

    async def _step(self, client: ClientInfo, attempt: AuthAttempt) -> Answer:
        if self._waiting >= self._settings.max_waiting:
            return AuthStep(rc.SERVER_BUSY)
        data = attempt.data or b""
        try:
            if attempt.state is None:
                attempt.state = Exchange(await self._call(self._accepting), attempt.username, self._realm)
            exchange = attempt.state
            assert isinstance(exchange, Exchange)
            answer, principal = await self._call(lambda: exchange.step(data))
        except Exception:  # noqa: BLE001 - whatever the library finds wrong with a ticket
            return AuthStep(rc.NOT_AUTHORIZED)
        if principal is None:
            return AuthStep(rc.CONTINUE_AUTHENTICATION, answer)
        if client.username is None:
            client.username = principal.removesuffix(f"@{self._realm}")  # so that it has the rights of its user
        return AuthStep(rc.SUCCESS, answer or None, Grants(client_attrs={PRINCIPAL: principal}))

    def _accepting(self) -> Any:
        import gssapi

        return gssapi.SecurityContext(creds=self._credentials, usage="accept")

    async def _call(self, work: Callable[[], Result]) -> Result:
        """What a function returns or raises in a thread; `TimeoutError` if it takes too long."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Result] = loop.create_future()

        def run() -> None:
            result, error = None, None
            if not outcome.cancelled():  # else nothing waits for it any more
                try:
                    result = work()
                except Exception as raised:  # noqa: BLE001 - it is raised where it is waited for
                    error = raised
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._finish, outcome, result, error)

        self._waiting += 1
        self._threads.run(run)
        async with asyncio.timeout(self._settings.request_timeout):
            return await outcome

    def _finish(self, outcome: "asyncio.Future[Any]", result: object, error: Exception | None) -> None:
        self._waiting -= 1
        if outcome.done():
            return
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)


def make(settings: GssapiConfig, surroundings: Surroundings) -> GssapiAuthenticator:
    return GssapiAuthenticator(settings)


def _credentials(settings: GssapiConfig) -> Any:
    import gssapi
    from gssapi.raw import GSSError

    name = gssapi.Name(settings.principal, gssapi.NameType.kerberos_principal)
    store: dict[str | bytes, str | bytes] | None = {"keytab": settings.keytab_file} if settings.keytab_file else None
    try:
        return gssapi.Credentials(name=name, usage="accept", mechs=[gssapi.MechType.kerberos], store=store)
    except GSSError as error:
        where = settings.keytab_file or "the system's keytab"
        raise KeytabError(f"the keys of {settings.principal} cannot be used from {where}: {error}") from None

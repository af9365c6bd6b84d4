"""`scram:http`: an HTTP service has the keys of users, and the node carries out the exchange of SCRAM."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

from heliograph.access.authentication.http import OK_STATUS, grants_of, http_backend
from heliograph.access.authentication.interface import Answer, Authenticator, Surroundings
from heliograph.access.authentication.results import ResultError
from heliograph.access.authentication.scram import METHODS
from heliograph.access.backends.http import HttpAnswer, object_of
from heliograph.access.backends.http_requests import HttpBackend
from heliograph.access.templates import TemplateError, client_values
from heliograph.access.users.records import ScramUser
from heliograph.access.users.scram import ClientFirst, ScramError, ScramExchange
from heliograph.broker.authentication import AuthAttempt, AuthStep, Grants
from heliograph.broker.client import ClientInfo
from heliograph.config.authentication import ScramHttpConfig
from heliograph.mqtt import reason_codes as rc

ID: Final = "scram:http"


class HttpScramState:
    def __init__(self, username: str, exchange: ScramExchange, grants: Grants) -> None:
        self.username = username
        self.exchange = exchange
        self.grants = grants


class HttpScram(Authenticator):
    def __init__(self, settings: ScramHttpConfig, service: HttpBackend, now_s: Callable[[], int]) -> None:
        super().__init__(ID)
        self._digest = settings.algorithm
        self._method = METHODS[settings.algorithm]
        self._iterations = settings.iteration_count
        self._service = service
        self.backend = service.pool
        self._now_s = now_s

    def authenticate(self, client: ClientInfo, attempt: AuthAttempt) -> Answer | Awaitable[Answer]:
        """Take the client's first message, or its last one.

        A first message that is not valid, or of whose user the service has no keys, is left to the next authenticator.
        """
        if attempt.method != self._method or attempt.data is None:
            return None
        if isinstance(attempt.state, HttpScramState):
            return _finish(client, attempt.state, attempt.data)
        try:
            first = ClientFirst(attempt.data)
        except ScramError:
            return None
        return self._begin(client, attempt, first)

    async def _begin(self, client: ClientInfo, attempt: AuthAttempt, first: ClientFirst) -> Answer:
        try:
            asked = self._service.ask(client_values(client, attempt, username=first.username), self._user_of)
            found = await asked if isinstance(asked, Awaitable) else asked
        except TemplateError:
            return None  # the name cannot be sent
        except ResultError as error:
            return error.step()
        if found is None:
            return None
        user, grants = found
        if client.username is not None and client.username != first.username:
            return AuthStep(rc.NOT_AUTHORIZED)  # its rights would be those of another user
        exchange = ScramExchange(first, user)
        attempt.state = HttpScramState(first.username, exchange, grants)
        return AuthStep(rc.CONTINUE_AUTHENTICATION, exchange.server_first)

    def _user_of(self, answer: HttpAnswer) -> tuple[ScramUser, Grants] | None:
        """The keys in an answer, and what the user is granted; None without keys. Raises `ResultError`."""
        body = object_of(answer) if answer.status == OK_STATUS else None
        if body is None:
            return None
        stored, server, salt = (_bytes_of(body.get(name)) for name in ("stored_key", "server_key", "salt"))
        size = hashlib.new(self._digest).digest_size
        if stored is None or server is None or salt is None or len(stored) != size or len(server) != size:
            return None
        grants = grants_of(body, self._now_s())
        return ScramUser(stored, server, salt, self._iterations, self._digest, grants.is_superuser), grants


def _finish(client: ClientInfo, state: HttpScramState, message: bytes) -> AuthStep:
    try:
        data = state.exchange.finish(message)
    except ScramError:
        return AuthStep(rc.NOT_AUTHORIZED)
    if client.username is None:
        client.username = state.username  # so that it has the rights of its user
    return AuthStep(rc.SUCCESS, data, state.grants)


def _bytes_of(value: object) -> bytes | None:
    try:
        return bytes.fromhex(value) if isinstance(value, str) and value else None
    except ValueError:
        return None


def make(settings: ScramHttpConfig, surroundings: Surroundings) -> HttpScram:
    return HttpScram(settings, http_backend(ID, settings, surroundings), surroundings.now_s)

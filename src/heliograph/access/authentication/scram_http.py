"""`scram:http`: an HTTP service has the keys of users, and the node carries out the exchange of SCRAM."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

from heliograph.access.authentication.http import OK_STATUS, grants_of, http_backend
from heliograph.access.authentication.interface import Answer, Surroundings
from heliograph.access.authentication.results import ResultError
from heliograph.access.authentication.scram import ScramAuthenticator
from heliograph.access.backends.http import HttpAnswer, object_of
from heliograph.access.backends.http_requests import HttpBackend
from heliograph.access.templates import TemplateError, client_values
from heliograph.access.users.records import ScramUser
from heliograph.access.users.scram import ClientFirst
from heliograph.broker.authentication import AuthAttempt, Grants
from heliograph.broker.client import ClientInfo
from heliograph.config.authentication import ScramHttpConfig

ID: Final = "scram:http"


class HttpScram(ScramAuthenticator):
    """Has the keys of users from a service."""

    def __init__(self, settings: ScramHttpConfig, service: HttpBackend, now_s: Callable[[], int]) -> None:
        super().__init__(ID, settings.algorithm)
        self._iterations = settings.iteration_count
        self._service = service
        self.backend = service.pool
        self._now_s = now_s

    async def begin_exchange(self, client: ClientInfo, attempt: AuthAttempt, first: ClientFirst) -> Answer:
        try:
            asked = self._service.ask(client_values(client, attempt, username=first.username), self._user_of)
            found = await asked if isinstance(asked, Awaitable) else asked
        except TemplateError:
            return None  # the name cannot be sent
        except ResultError as error:
            return error.step()
        return None if found is None else self.challenge(client, attempt, first, *found)

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


def _bytes_of(value: object) -> bytes | None:
    try:
        return bytes.fromhex(value) if isinstance(value, str) and value else None
    except ValueError:
        return None


def make(settings: ScramHttpConfig, surroundings: Surroundings) -> HttpScram:
    return HttpScram(settings, http_backend(ID, settings, surroundings), surroundings.now_s)

"""SCRAM: clients of MQTT 5 prove that they know a password without sending it; `scram:built_in_database`."""

from collections.abc import Awaitable
from typing import Final

from heliograph.access.authentication.interface import Answer, Authenticator, Surroundings
from heliograph.access.users.records import ScramUser
from heliograph.access.users.scram import ClientFirst, ScramError, ScramExchange
from heliograph.broker.authentication import AuthAttempt, AuthStep, Grants
from heliograph.broker.client import ClientInfo
from heliograph.config.authentication import ScramConfig
from heliograph.mqtt import reason_codes as rc

ID: Final = "scram:built_in_database"
METHODS: Final = {"sha256": "SCRAM-SHA-256", "sha512": "SCRAM-SHA-512"}


def make(settings: ScramConfig, surroundings: Surroundings) -> Authenticator:
    return ScramDatabase(settings, surroundings)


class ScramState:
    """What an attempt keeps of an exchange between its two messages."""

    def __init__(self, owner: Authenticator, username: str, exchange: ScramExchange, grants: Grants) -> None:
        self.owner = owner
        self.username = username
        self.exchange = exchange
        self.grants = grants


class ScramAuthenticator(Authenticator):
    """Carries out exchanges of SCRAM; subclasses say where the keys of users are. Owned by its chain."""

    def __init__(self, id: str, digest: str) -> None:
        super().__init__(id)
        self._digest = digest
        self._method = METHODS[digest]

    def begin_exchange(
        self, client: ClientInfo, attempt: AuthAttempt, first: ClientFirst
    ) -> Answer | Awaitable[Answer]:
        """`challenge` the user that a first message names; one that is not known is left to the next authenticator."""
        raise NotImplementedError

    def authenticate(self, client: ClientInfo, attempt: AuthAttempt) -> Answer | Awaitable[Answer]:
        """Take the client's first message or its last one; an invalid first one is for the next authenticator."""
        if attempt.method != self._method or attempt.data is None:
            return None
        if isinstance(attempt.state, ScramState):
            return _finish(client, attempt.state, attempt.data) if attempt.state.owner is self else None
        try:
            first = ClientFirst(attempt.data)
        except ScramError:
            return None
        return self.begin_exchange(client, attempt, first)

    def challenge(
        self, client: ClientInfo, attempt: AuthAttempt, first: ClientFirst, user: ScramUser, grants: Grants
    ) -> AuthStep:
        if client.username is not None and client.username != first.username:
            return AuthStep(rc.NOT_AUTHORIZED)  # its rights would be those of another user
        exchange = ScramExchange(first, user)
        attempt.state = ScramState(self, first.username, exchange, grants)
        return AuthStep(rc.CONTINUE_AUTHENTICATION, exchange.server_first)


class ScramDatabase(ScramAuthenticator):
    """Has the keys of users in the node's own database."""

    def __init__(self, settings: ScramConfig, surroundings: Surroundings) -> None:
        super().__init__(ID, settings.algorithm)
        self._store = surroundings.users
        self._users = surroundings.users.group(ScramUser, surroundings.chain, ID)

    async def start(self) -> None:
        self._users.open()

    def begin_exchange(self, client: ClientInfo, attempt: AuthAttempt, first: ClientFirst) -> Answer:
        user = self._users.find(first.username)
        if user is None or user.digest != self._digest:
            return None
        return self.challenge(client, attempt, first, user, Grants(user.is_superuser))

    def health(self) -> str:
        return self._users.health()

    def forget(self) -> None:
        self._store.delete_group(self._users.chain, ID)


def _finish(client: ClientInfo, state: ScramState, message: bytes) -> AuthStep:
    try:
        data = state.exchange.finish(message)
    except ScramError:
        return AuthStep(rc.NOT_AUTHORIZED)
    if client.username is None:
        client.username = state.username  # so that it has the rights of its user
    return AuthStep(rc.SUCCESS, data, state.grants)

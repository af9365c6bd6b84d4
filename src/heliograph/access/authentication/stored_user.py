"""The authenticators whose users are in rows, documents or hashes of a database."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from heliograph.access.authentication.interface import Answer, Authenticator, Surroundings
from heliograph.access.authentication.results import accepted, is_superuser
from heliograph.access.backends.databases import database_of
from heliograph.access.passwords import PasswordCheck, PasswordsBusyError
from heliograph.access.templates import TemplateError, Values, client_values
from heliograph.access.templates.values import AUTHENTICATION_NAMES
from heliograph.broker.authentication import AuthAttempt, AuthStep, Grants
from heliograph.broker.client import ClientInfo
from heliograph.config.authentication import (
    MongoAuthenticatorConfig,
    MysqlAuthenticatorConfig,
    PostgresqlAuthenticatorConfig,
    RedisAuthenticatorConfig,
)
from heliograph.mqtt import reason_codes as rc

_HASH: Final = "password_hash"
_PASSWORD: Final = "password"

StoredUserSettings: TypeAlias = (
    MysqlAuthenticatorConfig | PostgresqlAuthenticatorConfig | MongoAuthenticatorConfig | RedisAuthenticatorConfig
)


@dataclass(frozen=True, slots=True)
class StoredUser:
    """A user as a database has it; without a hash it cannot log in. No salt is an empty one."""

    password_hash: bytes | None = field(repr=False)
    salt: bytes = field(repr=False)
    is_superuser: bool

    @staticmethod
    def of_row(
        row: Mapping[str, object], hash_name: str = "", salt_name: str = "salt", superuser_name: str = "is_superuser"
    ) -> "StoredUser":
        """The hash is in `hash_name`, else in `password_hash` or `password`; what cannot be a hash is left out."""
        named = hash_name or (_HASH if _HASH in row else _PASSWORD)
        return StoredUser(
            _as_bytes(row.get(named)),
            _as_bytes(row.get(salt_name)) or b"",
            is_superuser(_as_text(row.get(superuser_name))),
        )

    async def step(self, password: bytes, check: PasswordCheck) -> AuthStep:
        if self.password_hash is None:
            return AuthStep(rc.NOT_AUTHORIZED)
        try:
            outcome = check.check(password, self.password_hash, self.salt)
            if not (outcome if isinstance(outcome, bool) else await outcome):
                return AuthStep(rc.BAD_USERNAME_OR_PASSWORD)
        except PasswordsBusyError:
            return AuthStep(rc.SERVER_BUSY)
        return accepted(Grants(is_superuser=self.is_superuser))


class StoredUserAuthenticator(Authenticator):
    """Checks passwords against users of a database.

    Where nothing of the client is asked, or its password is, users are not kept (`authentication_settings.node_cache`).
    """

    def __init__(self, settings: StoredUserSettings, surroundings: Surroundings) -> None:
        super().__init__(f"{settings.mechanism}:{settings.backend}")
        self._settings = settings
        name = surroundings.backend_name(self.id)
        self._database = database_of(name, settings, AUTHENTICATION_NAMES, surroundings.backends)
        self.backend = self._database.pool
        self._keeps = bool(self._database.names) and _PASSWORD not in self._database.names
        self._check = PasswordCheck(settings.password_hash_algorithm, surroundings.passwords)
        self._answers = surroundings.node_cache.answers()

    def authenticate(self, client: ClientInfo, attempt: AuthAttempt) -> Answer | Awaitable[Answer]:
        """A client without a password is left to the next authenticator."""
        if attempt.method is not None or attempt.password is None:
            return None
        return self._answer(client_values(client, attempt), attempt.password)

    async def _answer(self, values: Values, password: bytes) -> Answer:
        user = await self._found(values)
        if user is None:
            return await self._unknown(password)
        return await user.step(password, self._check)

    async def _found(self, values: Values) -> StoredUser | None:
        try:
            question = self._database.question(values)
        except TemplateError:  # what is not UTF-8 is the name of nothing in a database
            return None
        if self._keeps:
            return await self._answers.answer(question, lambda: self._asked(question))
        return await self._asked(question)

    async def _asked(self, question: tuple[str, ...]) -> StoredUser | None:
        rows = await self._database.rows(question)
        if not rows:
            return None
        settings = self._settings
        if not isinstance(settings, MongoAuthenticatorConfig):
            return StoredUser.of_row(rows[0])
        names = settings.password_hash_field, settings.salt_field, settings.is_superuser_field
        user = StoredUser.of_row(rows[0], *names)
        return None if user.password_hash is None else user

    async def _unknown(self, password: bytes) -> Answer:
        """Leave the client to the next one after the time of a check: times do not tell who is known."""
        try:
            outcome = self._check.check_unknown(password)
            if not isinstance(outcome, bool):
                await outcome
        except PasswordsBusyError:
            return AuthStep(rc.SERVER_BUSY)
        return None


def make(settings: StoredUserSettings, surroundings: Surroundings) -> StoredUserAuthenticator:
    """Raises `TemplateError` if a query cannot be used."""
    return StoredUserAuthenticator(settings, surroundings)


def _as_bytes(value: object) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def _as_text(value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

"""Users as databases have them, in rows, hashes or documents, and what follows from them for clients."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from heliograph.access.authentication.interface import Answer, Authenticator, Surroundings
from heliograph.access.authentication.results import accepted, is_superuser
from heliograph.access.passwords import PasswordCheck, PasswordsBusyError
from heliograph.access.templates import Values, client_values
from heliograph.broker.authentication import AuthAttempt, AuthStep, Grants
from heliograph.broker.client import ClientInfo
from heliograph.config.passwords import PasswordHashAlgorithm
from heliograph.mqtt import reason_codes as rc

_HASH: Final = "password_hash"
_PASSWORD: Final = "password"


@dataclass(frozen=True, slots=True)
class StoredUser:
    """A user as a database has it; without a hash it cannot log in, and an empty salt is none."""

    password_hash: bytes | None = field(repr=False)
    salt: bytes = field(repr=False)
    is_superuser: bool

    @staticmethod
    def of_row(
        row: Mapping[str, object], hash_name: str = "", salt_name: str = "salt", superuser_name: str = "is_superuser"
    ) -> "StoredUser":
        """The hash is in `hash_name`, else in `password_hash` or `password`; what cannot be a hash is none."""
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
    """Checks passwords against users of a database; subclasses say how a user is found there."""

    def __init__(self, id: str, algorithm: PasswordHashAlgorithm, surroundings: Surroundings) -> None:
        super().__init__(id)
        self._check = PasswordCheck(algorithm, surroundings.passwords)
        self._answers = surroundings.node_cache.answers()

    def asked_names(self) -> Sequence[str]:
        """The names of the placeholders in what is asked: clients with the same values have the same user.

        Without any, or with the password among them, what is found is not kept (`authentication_settings.node_cache`).
        """
        return ()

    async def find(self, values: Values) -> StoredUser | None:
        """None without a user; raises where the database does not say."""
        raise NotImplementedError(type(self).__name__)

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
        names = self.asked_names()
        if not names or _PASSWORD in names:
            return await self.find(values)
        return await self._answers.answer(tuple(values.get(name) for name in names), lambda: self.find(values))

    async def _unknown(self, password: bytes) -> Answer:
        """Leave the client to the next one after the time of a check: times do not tell who is known."""
        try:
            outcome = self._check.check_unknown(password)
            if not isinstance(outcome, bool):
                await outcome
        except PasswordsBusyError:
            return AuthStep(rc.SERVER_BUSY)
        return None


def _as_bytes(value: object) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def _as_text(value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

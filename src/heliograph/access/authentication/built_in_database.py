"""`password_based:built_in_database`: users that the node keeps, with the hashes of their passwords."""

import asyncio
import os
from collections.abc import Awaitable
from typing import Final

from heliograph.access.authentication.interface import Answer, Authenticator, Surroundings
from heliograph.access.passwords import PasswordCheck, PasswordsBusyError
from heliograph.access.users.intake import BootstrapFile, read_bootstrap
from heliograph.access.users.records import PasswordUser
from heliograph.broker.authentication import AuthAttempt, AuthStep, Grants
from heliograph.broker.client import ClientInfo
from heliograph.config.authentication import BuiltInDatabaseConfig
from heliograph.mqtt import reason_codes as rc
from heliograph.storage.errors import StorageError

ID: Final = "password_based:built_in_database"


def make(settings: BuiltInDatabaseConfig, surroundings: Surroundings) -> Authenticator:
    return BuiltInDatabase(settings, surroundings)


class BuiltInDatabase(Authenticator):
    """Checks user names or client ids and passwords against users in the node's own database; owned by its chain."""

    def __init__(self, settings: BuiltInDatabaseConfig, surroundings: Surroundings) -> None:
        super().__init__(ID)
        self._settings = settings
        self._store = surroundings.users
        self._users = surroundings.users.group(PasswordUser, surroundings.chain, ID)
        self._check = PasswordCheck(settings.password_hash_algorithm, surroundings.passwords)
        self._pool = surroundings.passwords
        self._file = _identity(settings.bootstrap_file)
        self._bootstrap: BootstrapFile | None = None  # until its users are added
        self._missing = ""  # why some of its users are not there
        self._adding: asyncio.Future[None] | None = None  # clients whose user is not there yet wait for it

    def is_current(self) -> bool:
        return _identity(self._settings.bootstrap_file) == self._file

    async def start(self) -> None:
        """Open the database, and read the bootstrap file; `UserFileError` if that cannot be used."""
        settings = self._settings
        self._users.open()
        if settings.bootstrap_file:
            self._bootstrap = await read_bootstrap(
                settings.bootstrap_file, settings.bootstrap_type, settings.password_hash_algorithm
            )
            self._adding = asyncio.get_running_loop().create_future()

    async def begin(self) -> None:
        bootstrap, self._bootstrap = self._bootstrap, None
        try:
            if bootstrap is not None:
                await bootstrap.add(self._users, self._pool)
        except StorageError as error:
            self._missing = f"users of {self._settings.bootstrap_file} were not added: {error}"
            raise
        finally:
            self._added()

    async def stop(self) -> None:
        self._added()

    def authenticate(self, client: ClientInfo, attempt: AuthAttempt) -> Answer | Awaitable[Answer]:
        """Decide about a client with a password; slow hashes are checked beside the event loop.

        A user that there is not costs as much time as one that there is, and is left to the next authenticator.
        """
        user_id = client.clientid if self._settings.user_id_type == "clientid" else attempt.username
        if attempt.method is not None or attempt.password is None or user_id is None:
            return None
        user = self._users.find(user_id)
        if user is None and self._adding is not None:
            return self._when_added(self._adding, client, attempt)
        try:
            if user is None:
                matches = self._check.check_unknown(attempt.password, user_id)
            else:
                matches = self._check.check(attempt.password, user.password_hash, user.salt, user.algorithm)
        except PasswordsBusyError:
            return AuthStep(rc.SERVER_BUSY)
        if isinstance(matches, bool):
            return _answer(user, matches)
        return _later(user, matches)

    async def _when_added(self, adding: asyncio.Future[None], client: ClientInfo, attempt: AuthAttempt) -> Answer:
        await asyncio.wait((adding,))
        answer = self.authenticate(client, attempt)
        return await answer if isinstance(answer, Awaitable) else answer

    def _added(self) -> None:
        adding, self._adding = self._adding, None
        if adding is not None:
            adding.set_result(None)

    def health(self) -> str:
        return self._users.health() or self._missing

    def forget(self) -> None:
        self._store.delete_group(self._users.chain, ID)


def _identity(file: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


async def _later(user: PasswordUser | None, matches: Awaitable[bool]) -> Answer:
    return _answer(user, await matches)


def _answer(user: PasswordUser | None, matches: bool) -> Answer:
    if user is None:
        return None
    if not matches:
        return AuthStep(rc.BAD_USERNAME_OR_PASSWORD)
    return AuthStep(rc.SUCCESS, grants=Grants(user.is_superuser))

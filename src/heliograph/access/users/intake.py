"""Makes users of what files say; reads a bootstrap file, and adds its users."""

import asyncio
import logging
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from heliograph.access.passwords import PasswordPool, hash_password
from heliograph.access.passwords.algorithms import PasswordTooLongError, check_length
from heliograph.access.users.files import FileUser, UserFileError, read_users
from heliograph.access.users.records import PasswordUser, ScramUser, own_algorithm
from heliograph.access.users.scram import scram_keys
from heliograph.access.users.store import UserGroup
from heliograph.config.passwords import PasswordHashAlgorithm

_log = logging.getLogger(__name__)

_SLICE: Final = 100
_SALT_BYTES: Final = 16


def user_with_password(password: bytes, algorithm: PasswordHashAlgorithm, *, is_superuser: bool) -> PasswordUser:
    """Hashed with a salt of its own; raises `PasswordTooLongError`."""
    hashed, salt = hash_password(algorithm, password)
    return PasswordUser(hashed, salt, is_superuser, own_algorithm(algorithm))


def new_scram_user(digest: str, password: bytes, iterations: int, is_superuser: bool) -> ScramUser:
    salt = secrets.token_bytes(_SALT_BYTES)
    keys = scram_keys(digest, password, salt, iterations)
    return ScramUser(keys.stored_key, keys.server_key, salt, iterations, digest, is_superuser)


def user_of_file(user: FileUser, kind: str, algorithm: PasswordHashAlgorithm) -> PasswordUser:
    """A user of a file that was checked; `kind` is `plain` or `hash`."""
    if kind == "plain":
        return user_with_password(user.secret, algorithm, is_superuser=user.is_superuser)
    own = None if user.algorithm is None else own_algorithm(user.algorithm)
    return PasswordUser(user.secret, user.salt, user.is_superuser, own)


def checked_users(text: bytes, form: str, kind: str, algorithm: PasswordHashAlgorithm) -> Iterator[FileUser]:
    """See `read_users`; also raises `UserFileError` where a password is too long for the algorithm."""
    for user in read_users(text, form, kind):
        if kind == "plain":
            try:
                check_length(algorithm, user.secret)
            except PasswordTooLongError as error:
                raise UserFileError(f"user {user.user_id!r}: {error}") from None
        yield user


@dataclass(frozen=True, slots=True)
class BootstrapFile:
    """A bootstrap file that was read and found good; nothing of it is added yet."""

    file: str
    text: bytes
    kind: str
    algorithm: PasswordHashAlgorithm

    async def add(self, users: UserGroup[PasswordUser], pool: PasswordPool) -> None:
        """Add the users that are not there yet, in turns of the event loop; raises `StorageError`."""
        added = count = 0
        for part in _parts(checked_users(self.text, _form(self.file), self.kind, self.algorithm)):
            count += len(part)
            new = {user.user_id: user for user in reversed(part) if users.find(user.user_id) is None}
            make = partial(_made, new, self.kind, self.algorithm)
            is_slow = self.kind == "plain" and self.algorithm.is_slow
            made = await pool.run(make, is_refused=False) if is_slow else make()  # nothing adds them later
            added += (await users.take(made.items(), overwrite=False)).added
        _log.info("users of %s: %d added, %d there before", self.file, added, count - added)

    def __repr__(self) -> str:
        return f"BootstrapFile({self.file}, {len(self.text)} bytes)"


async def read_bootstrap(file: str, kind: str, algorithm: PasswordHashAlgorithm) -> BootstrapFile:
    """Read and checked in turns of the event loop; raises `UserFileError`."""
    try:
        text = await asyncio.to_thread(Path(file).read_bytes)
    except OSError as error:
        raise UserFileError(f"bootstrap_file {file} cannot be read: {error.strerror}") from error
    try:
        for _ in _parts(checked_users(text, _form(file), kind, algorithm)):
            await asyncio.sleep(0)
    except UserFileError as error:
        raise UserFileError(f"bootstrap_file {file}: {error}") from None
    return BootstrapFile(file, text, kind, algorithm)


def _form(file: str) -> str:
    return Path(file).suffix.removeprefix(".")


def _made(users: dict[str, FileUser], kind: str, algorithm: PasswordHashAlgorithm) -> dict[str, PasswordUser]:
    return {user_id: user_of_file(user, kind, algorithm) for user_id, user in users.items()}


def _parts(users: Iterable[FileUser]) -> Iterator[list[FileUser]]:
    waiting = iter(users)
    while part := list(islice(waiting, _SLICE)):
        yield part

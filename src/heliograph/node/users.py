"""What authenticators share: the users and the pool for slow password hashes, as a part of a node."""

import logging
from typing import Final

from heliograph.access.passwords import PasswordPool
from heliograph.access.users.store import UserStore
from heliograph.config import Config
from heliograph.node.data_dir import DataDirectory
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics.storage import COMMITS, samples_of
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.parts import Change, Part
from heliograph.storage.errors import StorageError
from heliograph.storage.state.interface import StateDatabase
from heliograph.storage.state.local import LocalState

_log = logging.getLogger(__name__)

_USERS: Final = "users"


class UsersPart(Part):
    """The users of built-in databases, and the pool for slow hashes; owned by the node.

    The database is opened by the first authenticator that has users.

    Attributes:
        users: The users.
        passwords: The pool.
    """

    name = "users"
    metrics = (
        *COMMITS,
        gauge("passwords.waiting", "Logins that wait for the check of a slow password hash, or are checked."),
        counter("passwords.checked", "Slow password hashes that were checked."),
        counter("passwords.refused", "Logins that were refused since too many waited for such a check."),
    )
    needs = ("data_dir", "kernel")
    roots = ("authentication_settings.password_checks",)

    users: UserStore
    passwords: PasswordPool

    def __init__(self, config: Config, directory: DataDirectory, kernel: KernelPart) -> None:
        self._settings = config.authentication_settings.password_checks
        self._directory = directory
        self._kernel = kernel

    async def start(self) -> None:
        """Begin without users: those that there are lie in the database."""
        self.users = UserStore(self._open)
        self.passwords = PasswordPool(self._settings, self._kernel.alarms)

    async def stop(self) -> None:
        """Commit what was taken, and close."""
        self.passwords.stop()
        await self.users.close()

    async def check(self, new: Config) -> Change | None:
        """Other limits of the pool."""
        settings = new.authentication_settings.password_checks
        return Change(lambda: self.passwords.use(settings))

    def samples(self) -> list[Sample]:
        """Counts of the pool, and of the database once it is open."""
        found, state = plain(self.passwords.statistics()), self.users.opened
        return found if state is None else [*found, *samples_of(_USERS, state.statistics(), state.commit_times)]

    def _open(self) -> StateDatabase:
        state = LocalState(self._directory.path, _USERS)
        try:
            state.open()
        except StorageError as error:
            _log.error("the database of users cannot be opened [%s]: %s", error.code, error)
        return state

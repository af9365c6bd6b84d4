"""Users, built-in rules and bans on the disk of a node, as parts of it."""

import logging
from contextlib import suppress
from typing import Final

from heliograph.access.bans.parts import BansPart
from heliograph.access.bans.stored import StoredBans
from heliograph.access.built_in_rules.store import DATABASE, BuiltInRules
from heliograph.access.passwords import PasswordPool
from heliograph.access.users.store import UserStore
from heliograph.config.settings import Config
from heliograph.node.data_dir import DataDirectory
from heliograph.node.delayed import may_be_there
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics.storage import COMMITS, samples_of
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.parts import Change, Part
from heliograph.storage.errors import StorageError
from heliograph.storage.state.interface import StateDatabase
from heliograph.storage.state.local import LocalState

_log = logging.getLogger(__name__)
_USERS: Final = "users"
BANS: Final = "bans"


class UsersPart(Part):
    """The users of built-in databases (opened by the first authenticator with users), and the pool for slow hashes."""

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
        self.users = UserStore(self._open)
        self.passwords = PasswordPool(self._settings, self._kernel.alarms)

    async def stop(self) -> None:
        self.passwords.stop()
        await self.users.close()

    async def check(self, new: Config) -> Change | None:
        settings = new.authentication_settings.password_checks
        return Change(lambda: self.passwords.use(settings))

    def samples(self) -> list[Sample]:
        found, state = plain(self.passwords.statistics()), self.users.opened
        return found if state is None else [*found, *samples_of(_USERS, state.statistics(), state.commit_times)]

    def _open(self) -> StateDatabase:
        state = LocalState(self._directory.path, _USERS)
        try:
            state.open()
        except StorageError as error:
            _log.error("the database of users cannot be opened [%s]: %s", error.code, error)
        return state


class BuiltInRulesPart(Part):
    """Rules that commands set; owned by the node. Its database is opened when it is needed first."""

    name = "built_in_rules"
    metrics = COMMITS
    needs = ("data_dir",)

    def __init__(self, config: Config, directory: DataDirectory) -> None:
        self._state = LocalState(directory.path, DATABASE)
        self.rules = BuiltInRules(self._state)

    async def stop(self) -> None:
        await self.rules.close()

    def samples(self) -> list[Sample]:
        if not self.rules.is_open:
            return []
        return samples_of(DATABASE, self._state.statistics(), self._state.commit_times)


class StoredBansPart(Part):
    """Keeps bans that are made; owned by the node.

    Its database is made with the first ban: a node without bans does not pay for it.
    """

    name = "stored_bans"
    metrics = COMMITS
    needs = ("data_dir", "kernel", "bans")

    def __init__(self, directory: DataDirectory, kernel: KernelPart, bans: BansPart) -> None:
        self._directory = directory
        self._kernel = kernel
        self._bans = bans
        self._stored: StoredBans | None = None

    async def start(self) -> None:
        bans, path = self._bans.bans, self._directory.path
        self._kernel.context.sessions.wills.is_banned = bans.may_not_publish

        def opened() -> LocalState:
            state = LocalState(path, BANS)
            with suppress(StorageError):  # each use of it tries again, and says why it cannot
                state.open()
            return state

        self._stored = StoredBans(bans, opened, may_be_there(LocalState(path, BANS).path), self._kernel.alarms)
        self._stored.load()

    async def stop(self) -> None:
        if self._stored is not None:
            await self._stored.close()

    def tick(self, uptime_us: int) -> None:
        if self._stored is not None:
            self._stored.tick()

    def health(self) -> str:
        return "" if self._stored is None else str(self._stored.health)

    def samples(self) -> list[Sample]:
        state = None if self._stored is None else self._stored.state
        return [] if state is None else samples_of(BANS, state.statistics(), state.commit_times)

"""Logins of users: the check of name, password and second factor, and the token that comes of it."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from heliograph.access.bans.known_logins import FILE as KNOWN_FILE
from heliograph.access.people.passwords import NO_PASSWORD, hash_of, is_password
from heliograph.control.proto_v1.people import PEOPLE_USER_LOGGED_IN, ManagementLogin, ManagementUserSecrets
from heliograph.management.asking.nodes import Node
from heliograph.management.people import refusals, totp
from heliograph.management.people.back_off import CODES, EVERYWHERE, LOGINS, BackOff
from heliograph.management.people.devices import STRANGE, Device, Devices
from heliograph.management.people.failures import FailureCount, FailuresSinceLogin
from heliograph.management.people.hash_threads import HashesBusyError, HashThreads
from heliograph.management.people.known import KnownPeople
from heliograph.management.people.login_file import LoginFile
from heliograph.management.people.tokens import LoggedIn, TokenExpiredError, Tokens
from heliograph.observe.bounded_log import BoundedLog
from heliograph.rpc.methods import RpcError

_log = logging.getLogger(__name__)

_PASSWORD_MAX: Final = 1_024
_SSO_LIFE_S: Final = 12 * 3_600  # the provider does not say when one of its users is gone


def _clock() -> int:
    return time.monotonic_ns() // 1_000


@dataclass(frozen=True, slots=True)
class NewLogin:
    """A login that has just begun.

    Attributes:
        device: The cookie that the browser is known by from now on.
        failed: Wrong passwords since the login before.
        wrong_codes: Wrong codes of the second factor since then.
    """

    token: str
    user: ManagementUserSecrets
    device: str
    failed: FailureCount
    wrong_codes: FailureCount


class Logins:
    """Logs users in, and knows them by their tokens; owned by `PeopleCallers`.

    Neither the text nor the time of a refusal tells whether there is a user of that name: an unknown one costs a hash
    as well. Tries that fail make the next ones of that name at that address wait, and those of the address; wrong codes
    of a second factor count wherever they come from, since who gets so far has the password. A browser that the user
    logged in with before waits for its own failures alone (`devices`), so guesses of others do not keep its user out.

    Args:
        known: The users.
        file: Where tokens are kept.
        token_life_s: How long a token lasts that is not used.
        now_s: The time, in seconds since the epoch.
        clock: Microseconds on the monotonic clock.

    Attributes:
        tokens: The tokens.
        devices: Browsers that users logged in with.
        sso_version: What logins of single sign-on have as their version; those with another one have ended.
    """

    def __init__(
        self,
        known: KnownPeople,
        file: Path,
        token_life_s: float,
        now_s: Callable[[], float] = time.time,
        clock: Callable[[], int] = _clock,
    ) -> None:
        self._known = known
        self._now_s = now_s
        self._threads = HashThreads()
        self._by_address = BackOff(LOGINS, clock, file.with_name(KNOWN_FILE))
        self._by_code = BackOff(CODES, clock)
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = WeakValueDictionary()
        self._failed_log = BoundedLog(_log, _clock)
        self._file = LoginFile(file)
        self._failures = FailuresSinceLogin(self._file, now_s)
        self.devices = Devices(self._file)
        self.tokens = Tokens(self._file, token_life_s, now_s)
        self.sso_version = ""

    async def log_in(
        self, username: str, password: str, code: str, address: str, node: Node, cookie: str = ""
    ) -> NewLogin:
        """A new login.

        Args:
            code: Of the second factor; empty for none.
            address: Of the caller.
            node: The node, on behalf of that user: it counts codes, and has the login in its audit.
            cookie: Of a known device; empty for none.

        Raises:
            ApiError: It is refused.
        """
        user = await self.verified(username, password, address, cookie)
        step, recovery = self._second_factor(user, code, address, cookie)
        await _tell(node, ManagementLogin(username, user.version, address, step, recovery))
        self._by_code.succeeded(EVERYWHERE, username, self.devices.of(cookie, username).key(user.version))
        token = self.tokens.begin(username, str(user.version))
        device = self.devices.new(username, user.version)
        failed = self._failures.take(_who(user), "password")
        wrong = self._failures.take(_who(user), "code")
        return NewLogin(token, user, device, failed, wrong)

    async def verified(self, username: str, password: str, address: str, cookie: str = "") -> ManagementUserSecrets:
        """The user of a name and a password.

        Raises:
            ApiError: It is refused.
        """
        device = self.devices.of(cookie, username)
        turns = self._turns.setdefault((device.id or address, username), asyncio.Semaphore(LOGINS.max_failures))
        async with turns:  # a crowd of tries at once would be as many guesses
            return await self._verified(username, password, address, device)

    async def _verified(self, username: str, password: str, address: str, device: Device) -> ManagementUserSecrets:
        key = b""
        if device is not STRANGE:
            found = (await self._known.fresh()).users.get(username)
            key = b"" if found is None else device.key(found.version)
        if not self._by_address.may_try(address, username, key):
            raise refusals.too_often().by("user", username)
        user = (await self._known.fresh()).users.get(username)
        stored = NO_PASSWORD if user is None else user.password_hash
        work = partial(is_password, password[:_PASSWORD_MAX], stored)
        try:
            is_right = await self._threads.run(work, is_known=bool(key))
        except HashesBusyError:
            raise refusals.too_busy() from None
        if user is None or not is_right:
            self._by_address.failed(address, username, key)
            if user is not None:
                self._failures.add(_who(user), "password")
            self._failed_log.warn("a login of %r from %s failed", username[:100], address)
            raise refusals.bad_password().by("user", username)
        self._by_address.succeeded(address, username, key)
        return user

    async def hashed(self, password: str) -> str:
        """The hash of a new password, made in a thread.

        Raises:
            ApiError: Too many wait.
        """
        try:
            return await self._threads.run(partial(hash_of, password))
        except HashesBusyError:
            raise refusals.too_busy() from None

    async def user_of(self, token: str) -> tuple[LoggedIn, ManagementUserSecrets | None]:
        """The login of a token, and its user; None for one of single sign-on. The token's life begins again.

        Raises:
            ApiError: There is no such token, it has ended, or its user was changed or deleted.
        """
        try:
            login = self.tokens.find(token)
        except TokenExpiredError:
            raise refusals.token_expired() from None
        if login is None:
            raise refusals.bad_token()
        if login.role:
            if login.version != self.sso_version or self._now_s() - login.created_s > _SSO_LIFE_S:
                self.tokens.end(token)
                raise refusals.bad_token()
            self.tokens.use(token)
            return login, None
        user = (await self._known.fresh()).users.get(login.username)
        if user is None or str(user.version) != login.version:
            self.tokens.end(token)
            raise refusals.bad_token()
        self.tokens.use(token)
        return login, user

    def stop(self) -> None:
        """End; tokens are kept."""
        self._threads.stop()
        self.tokens.close()
        self._failures.close()
        self._file.close()

    def check_code(self, user: ManagementUserSecrets, code: str, address: str, cookie: str = "") -> tuple[int, bytes]:
        """What a code of a second factor is: its time step, or which recovery code; the node says if it was used.

        Raises:
            ApiError: It is not one of that user, or too many were wrong.
        """
        name = user.user.username
        device = self.devices.of(cookie, name).key(user.version)
        if not self._by_code.may_try(EVERYWHERE, name, device):
            raise refusals.too_often().by("user", name)
        step = totp.step_of(user.totp_secret, code, self._now_s())
        recovery = b"" if step else totp.recovery_of(code, user.recovery)
        if not recovery and step <= user.totp_step:
            self._by_code.failed(EVERYWHERE, name, device)
            self._failures.add(_who(user), "code")
            self._failed_log.warn("a login of %r from %s failed: its code is wrong, or was used", name, address)
            raise refusals.bad_code("the code is wrong, or was used before; wait for the next one").by("user", name)
        return step, recovery

    def _second_factor(self, user: ManagementUserSecrets, code: str, address: str, cookie: str) -> tuple[int, bytes]:
        if not user.totp_secret:
            return 0, b""
        if not code:
            raise refusals.bad_code("a code of the second factor is needed too, as `mfa_token`")
        return self.check_code(user, code, address, cookie)

    def __repr__(self) -> str:
        return f"Logins({self.tokens!r})"


def _who(user: ManagementUserSecrets) -> str:
    """A user, and no later one of the same name."""
    return f"{user.user.created_at} {user.user.username}"


async def _tell(node: Node, login: ManagementLogin) -> None:
    try:
        await node.ask(PEOPLE_USER_LOGGED_IN(login))
    except RpcError as error:
        if error.code == "code_used":
            raise refusals.bad_code(error.message) from None
        if error.code in ("login_outdated", "not_found"):
            raise refusals.bad_password() from None
        raise

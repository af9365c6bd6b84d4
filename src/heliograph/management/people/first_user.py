"""The first user: made of the configuration, or with the one-time set-up token from the log.

There is no default password: a node that was never set up refuses all logins.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable
from typing import Final

from heliograph.access.people.names import PeopleError, check_username
from heliograph.access.people.passwords import check_length, check_password
from heliograph.config.management import DashboardConfig
from heliograph.control.proto_v1.people import PEOPLE_USER_ADD, ManagementUserRow, NewManagementUser
from heliograph.management.asking.nodes import Node
from heliograph.management.people.known import KnownPeople
from heliograph.management.people.logins import Logins
from heliograph.management.web.errors import ApiError
from heliograph.rpc import codes
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError
from heliograph.settings.secrets import SecretError

_log = logging.getLogger(__name__)

TOKEN_LIFE_S: Final = 3_600.0
USERNAME: Final = "admin"  # of the user of `default_password`, where no other name is set
_AGAIN_S: Final = 1.0


class FirstUser:
    """Makes the first user; owned by `PeopleCallers`.

    A set-up token is in the log while there is no user. It ends when it is used, after an hour, or when there is one.

    Args:
        known: The users.
        logins: What makes hashes.
        again_s: How long it waits where the node does not answer, or has no time.
    """

    def __init__(
        self,
        known: KnownPeople,
        logins: Logins,
        node: Node,
        clock: Callable[[], float] = time.monotonic,
        again_s: float = _AGAIN_S,
    ) -> None:
        self._known = known
        self._logins = logins
        self._node = node
        self._clock = clock
        self._again_s = again_s
        self._hash = b""
        self._until_s = 0.0
        self._beginning: asyncio.Task[None] | None = None
        self._is_settled = asyncio.Event()

    def begin(self, settings: DashboardConfig) -> None:
        """Make the user of the configuration, or say how to make one, as soon as the node answers."""
        self._beginning = asyncio.create_task(self._begin(settings), name="first user")

    async def stop(self) -> None:
        if self._beginning is not None:
            self._beginning.cancel()
            await asyncio.gather(self._beginning, return_exceptions=True)

    async def settled(self) -> None:
        """Wait until the user of the configuration is made, or is not to be: who logs in at once finds it.

        Nothing waits for it where the node does not answer: logins then get that error.
        """
        if self._beginning is not None:
            await self._is_settled.wait()

    async def is_needed(self) -> bool:
        """Whether there is no user."""
        return not (await self._known.fresh()).users

    async def is_token(self, token: str) -> bool:
        """Whether this is the set-up token, and counts now."""
        given = hashlib.sha256(token.strip().encode("utf-8", "surrogatepass")).digest()
        is_right = hmac.compare_digest(given, self._hash) and self._clock() < self._until_s
        return await self.is_needed() and is_right

    async def make(self, username: str, password: str, node: Node) -> ManagementUserRow:
        """Add the first user, an administrator; the set-up token ends.

        Args:
            node: The node, on behalf of the holder of the token.

        Raises:
            PeopleError: The name or the password cannot be so.
            RpcError: There is a user already, or the node cannot keep it.
        """
        row = await self._add(username, password, node, is_default=False)
        self._hash = b""
        return row

    async def _begin(self, settings: DashboardConfig) -> None:
        try:
            while True:
                if await self._has_begun(settings):
                    return
                await asyncio.sleep(self._again_s)  # the node is starting, stops, or has no time
        finally:
            self._is_settled.set()

    async def _has_begun(self, settings: DashboardConfig) -> bool:
        try:
            if await self.is_needed():
                await self._make_or_tell(settings)
        except UnreachableError:
            self._is_settled.set()
        except RpcError as error:
            _log.warning("the node does not say whether there is a user [%s]: %s", error.code, error.message)
            if error.code != codes.OVERLOADED:
                self._is_settled.set()
        except ApiError as error:  # too many wait for the hash of theirs
            _log.warning("the first user is not made yet: %s", error.message)
        else:
            return True
        return False

    async def _make_or_tell(self, settings: DashboardConfig) -> None:
        try:
            password = settings.default_password.reveal()
        except SecretError as error:
            _log.error("dashboard.default_password: %s", error)
            password = ""
        name = settings.default_username or USERNAME
        if not password:
            self._tell_token()
            return
        try:
            await self._add(name, password, self._node, is_default=True)
        except PeopleError as error:
            _log.error("dashboard.default_username and default_password make no user: %s", error)
            self._tell_token()
        else:
            _log.info("the user %s of dashboard.default_password is added", name)
            if _is_weak(password):
                _log.warning(
                    "dashboard.default_password is one that no other user may have (8 to 64 characters, two of "
                    "letters, digits and special characters): change it with `heliograph ctl admins passwd %s`",
                    name,
                )

    def _tell_token(self) -> None:
        token = secrets.token_urlsafe(24)
        self._hash = hashlib.sha256(token.encode()).digest()
        self._until_s = self._clock() + TOKEN_LIFE_S
        _log.warning(
            "there is no user yet: add the first one with `heliograph ctl admins add NAME`, or within an hour in "
            "the dashboard, or over the HTTP API, with the set-up token %s",
            token,
        )

    async def _add(self, username: str, password: str, node: Node, *, is_default: bool) -> ManagementUserRow:
        check_username(username)
        if is_default:
            check_length(password)  # the rest is the operator's to decide
        else:
            check_password(password)
        password_hash = await self._logins.hashed(password)
        wanted = NewManagementUser(username, password_hash, is_default=is_default, is_first=True)
        return await node.ask(PEOPLE_USER_ADD(wanted))


def _is_weak(password: str) -> bool:
    try:
        check_password(password)
    except PeopleError:
        return True
    return False

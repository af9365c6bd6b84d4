"""Logins that last: opaque random tokens, of which only hashes are kept, in memory and in a file."""

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from heliograph.management.people.login_file import LoginFile

TOKEN_BYTES: Final = 32
TOKENS_MAX: Final = 10_000
TOKENS_OF_USER_MAX: Final = 100
_TOLD_EXPIRED_S: Final = 86_400  # for so long an ended token is known as such
_WRITTEN_EVERY_S: Final = 30.0


@dataclass(slots=True)
class LoggedIn:
    """A login.

    Attributes:
        version: Of the user at that time: when it has another one, the login has ended.
        role: The role that single sign-on gave; empty where the user has one in the node.
        used_s: When the token was used last, in seconds since the epoch.
        written_s: The same as the file has it.
    """

    username: str
    version: str
    role: str
    created_s: float
    used_s: float
    written_s: float = 0.0


class TokenExpiredError(Exception):
    """The token was good once."""


class Tokens:
    """The tokens of a management process; owned by it.

    Args:
        file: Where they are kept.
        life_s: How long one lasts that is not used.
        now_s: The time, in seconds since the epoch.

    Attributes:
        life_s: How long one lasts that is not used; may be changed.
    """

    def __init__(self, file: LoginFile, life_s: float, now_s: Callable[[], float]) -> None:
        self.life_s = life_s
        self._now_s = now_s
        self._file = file
        self._logins: OrderedDict[bytes, LoggedIn] = OrderedDict()  # the one used longest ago first
        for key, username, version, role, created_s, used_s in sorted(file.rows("tokens"), key=itemgetter(-1)):
            self._logins[key] = LoggedIn(username, version, role, created_s, used_s, used_s)
        self._forget_old(now_s())

    def begin(self, username: str, version: str, role: str = "") -> str:
        """A token for a login; the oldest ones go where there are too many."""
        now_s = self._now_s()
        self._forget_old(now_s)
        own = [key for key, one in self._logins.items() if one.username == username]
        for key in own[: max(0, len(own) + 1 - TOKENS_OF_USER_MAX)]:
            self._drop(key)
        while len(self._logins) >= TOKENS_MAX:
            self._drop(next(iter(self._logins)))
        token = secrets.token_urlsafe(TOKEN_BYTES)
        key = _hash_of(token)
        self._logins[key] = login = LoggedIn(username, version, role, now_s, now_s)
        self._write(key, login)
        return token

    def find(self, token: str) -> LoggedIn | None:
        """The login of a token; None if there is none. It counts as used when `use` is called.

        Raises:
            TokenExpiredError: It has ended, since it was not used.
        """
        login = self._logins.get(_hash_of(token))
        if login is not None and self._now_s() - login.used_s > self.life_s:
            raise TokenExpiredError
        return login

    def use(self, token: str) -> None:
        """Begin the life of a token again."""
        key = _hash_of(token)
        login = self._logins.get(key)
        if login is None:
            return
        login.used_s = max(login.used_s, self._now_s())
        self._logins.move_to_end(key)
        if login.used_s - login.written_s > min(_WRITTEN_EVERY_S, self.life_s / 4):
            self._write(key, login)

    def end(self, token: str) -> None:
        self._drop(_hash_of(token))

    def end_all(self, username: str) -> int:
        """End the logins of a user; how many there were."""
        keys = [key for key, one in self._logins.items() if one.username == username]
        for key in keys:
            self._drop(key)
        return len(keys)

    def close(self) -> None:
        """Write when each was used."""
        for key, login in self._logins.items():
            if login.used_s != login.written_s:
                self._write(key, login)

    def __len__(self) -> int:
        return len(self._logins)

    def __repr__(self) -> str:
        return f"Tokens({len(self._logins)} logins)"

    def _forget_old(self, now_s: float) -> None:
        while self._logins:
            key, login = next(iter(self._logins.items()))
            if now_s - login.used_s <= self.life_s + _TOLD_EXPIRED_S:
                return
            self._drop(key)

    def _write(self, key: bytes, login: LoggedIn) -> None:
        login.written_s = login.used_s
        row = (key, login.username, login.version, login.role, login.created_s, login.used_s)
        self._file.put("tokens", row)

    def _drop(self, key: bytes) -> None:
        if self._logins.pop(key, None) is not None:
            self._file.execute("DELETE FROM tokens WHERE hash = ?", (key,))


def _hash_of(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()

"""`PasswordCheck`: one authenticator's way to check passwords, at once where that is quick, else in the pool."""

from collections.abc import Awaitable
from typing import Final

from heliograph.access.passwords.algorithms import bcrypt_cost_of, unlike_any, verify
from heliograph.access.passwords.pool import PasswordPool
from heliograph.config.passwords import PasswordHashAlgorithm

_BCRYPT_COST: Final = 10  # as long as no stored hash was seen
_SEEN_MAX: Final = 8


class PasswordCheck:
    """Checks passwords by one algorithm; owned by an authenticator, and used in the event loop only.

    Args:
        algorithm: How its passwords are hashed.
        pool: Where slow checks are made.
    """

    def __init__(self, algorithm: PasswordHashAlgorithm, pool: PasswordPool) -> None:
        self.algorithm = algorithm
        self._pool = pool
        self._bcrypt_cost = _BCRYPT_COST
        self._seen: list[PasswordHashAlgorithm | None] = []  # those of users; None for the authenticator's

    def check(
        self, password: bytes | None, stored: bytes, salt: bytes = b"", own: PasswordHashAlgorithm | None = None
    ) -> bool | Awaitable[bool]:
        """Whether a password is that of a user; None never is.

        What is awaited may be cancelled when the client goes: a check that has not begun is then not made.

        Args:
            own: The algorithm of this user, where it is not the authenticator's.

        Raises:
            PasswordsBusyError: Too many logins wait; the client is to be refused with `SERVER_BUSY`.
        """
        if password is None:
            return False
        if own not in self._seen and len(self._seen) < _SEEN_MAX:
            self._seen.append(own)
        if own is None and self.algorithm.name == "bcrypt":
            self._bcrypt_cost = bcrypt_cost_of(stored) or self._bcrypt_cost
        return self._checked(own or self.algorithm, password, stored, salt)

    def check_unknown(self, password: bytes | None, name: str = "") -> bool | Awaitable[bool]:
        """Spend the time of a check where there is no such user, so that time does not tell which users there are.

        Where users have algorithms of their own, as imported ones have, a name costs what one of those costs that were
        seen, always the same one.

        Args:
            name: Which user there is not.

        Returns:
            False, or what becomes False.

        Raises:
            PasswordsBusyError: As in `check`.
        """
        if password is None:
            return False
        algorithm = (self._seen[hash(name) % len(self._seen)] if self._seen else None) or self.algorithm
        stored, salt = unlike_any(algorithm, self._bcrypt_cost)
        return self._checked(algorithm, password, stored, salt)

    def _checked(
        self, algorithm: PasswordHashAlgorithm, password: bytes, stored: bytes, salt: bytes
    ) -> bool | Awaitable[bool]:
        if algorithm.is_slow:
            return self._pool.check(algorithm, password, stored, salt)
        return verify(algorithm, password, stored, salt)

    def __repr__(self) -> str:
        return f"PasswordCheck({self.algorithm.name})"

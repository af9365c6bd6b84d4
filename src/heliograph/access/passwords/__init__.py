"""Password hashing: the algorithms, checks in constant time, and the bounded pool that makes the slow ones."""

from heliograph.access.passwords.algorithms import hash_password, verify
from heliograph.access.passwords.pool import PasswordCheck, PasswordPool, PasswordsBusyError

__all__ = ["PasswordCheck", "PasswordPool", "PasswordsBusyError", "hash_password", "verify"]

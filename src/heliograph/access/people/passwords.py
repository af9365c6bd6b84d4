"""Passwords of those who manage a node: what they must look like, and their hashes (argon2id).

A hash takes about 0.1 s and 19 MiB, so it is made in threads, few at a time, and never in a broker's event loop.
"""

import string
from typing import TYPE_CHECKING, Final

from heliograph.access.people.names import PeopleError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

LENGTH_MIN: Final = 8
LENGTH_MAX: Final = 64
HASH_START: Final = "$argon2id$v=19$m=19456,t=2,p=1$"  # OWASP's second choice, with the least memory that it allows
_HASH_MAX: Final = 200
_KINDS: Final = (frozenset(string.ascii_letters), frozenset(string.digits), frozenset(string.punctuation))


def check_password(password: str) -> None:
    """Refuse a new password that is too weak; the message does not show it."""
    if len(password) < LENGTH_MIN:
        raise PeopleError(f"the password has {len(password)} characters; {LENGTH_MIN} to {LENGTH_MAX} are valid")
    check_length(password)
    if not set(password) <= frozenset().union(*_KINDS):
        raise PeopleError("the password has characters besides letters, digits and special characters of ASCII")
    if sum(not kind.isdisjoint(password) for kind in _KINDS) < 2:
        raise PeopleError("the password needs at least two of: letters, digits, special characters")


def check_length(password: str) -> None:
    """Refuse a password that no login could have."""
    if len(password) > LENGTH_MAX:
        raise PeopleError(f"the password has {len(password)} characters; {LENGTH_MIN} to {LENGTH_MAX} are valid")


def hash_of(password: str) -> str:
    """Takes long."""
    return _hasher().hash(password)


def is_password(password: str, stored: str) -> bool:
    """Takes long. Never raises: what is no hash matches nothing."""
    if not is_hash(stored) or len(password) > LENGTH_MAX:
        password, stored = "", NO_PASSWORD  # it takes as long as with one, so that it does not show that there is none
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        matches = _hasher().verify(stored, password)
    except (VerificationError, InvalidHashError, UnicodeEncodeError):
        return False
    return matches and stored != NO_PASSWORD


def is_hash(text: str) -> bool:
    """Whether this is a hash as `hash_of` makes them: none that would take longer or more memory to check."""
    return text.startswith(HASH_START) and len(text) <= _HASH_MAX


def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


# In the place of a hash where there is none: its check takes as long.
NO_PASSWORD: Final = f"{HASH_START}xA4+5xY3hyCTSXZYBRIIoQ${'0' * 43}"

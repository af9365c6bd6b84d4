"""The algorithms of `password_hash_algorithm`: does a password belong to a stored hash, and the hash of a new one.

Passwords, salts and stored hashes are bytes; nothing is decoded, so a salt in hexadecimal digits is used as that text.
Comparisons take the same time wherever the texts differ.
"""

import hashlib
import hmac
import re
import secrets
from typing import Final

from heliograph.config.passwords import PasswordHashAlgorithm

# What bcrypt looks at of a password; other programs ignore the rest silently, so stored hashes are of as much.
BCRYPT_BYTES_MAX: Final = 72
# A longer password matches no hash of pbkdf2 or bcrypt: an MQTT password may have 64 KiB.
SLOW_PASSWORD_BYTES_MAX: Final = 4096
_MQTT_BYTES_MAX: Final = 65_535  # no CONNECT holds a longer one
# A stored bcrypt hash of a higher cost matches nothing: one check at this cost takes seconds.
BCRYPT_COST_MAX: Final = 16

_HASHLIB: Final = {"sha": "sha1"}
_SALT_BYTES: Final = 16
_BCRYPT_COSTS: Final = (5, 10)
_BCRYPT: Final = re.compile(rb"\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{53}")


class PasswordTooLongError(ValueError):
    """A new password is longer than its algorithm takes."""


def verify(algorithm: PasswordHashAlgorithm, password: bytes, stored: bytes, salt: bytes) -> bool:
    """Whether a password belongs to a stored hash. Never raises: what is no hash of the algorithm matches nothing.

    Args:
        stored: The hash: hexadecimal digits of either case, the text itself for `plain`, or bcrypt's text, which has
            its own salt.
        salt: The salt; empty for none.
    """
    if algorithm.name == "bcrypt":
        return _verify_bcrypt(password, stored)
    if algorithm.name == "plain":
        return hmac.compare_digest(_salted(algorithm, password, salt), stored)
    if algorithm.name == "pbkdf2" and len(password) > SLOW_PASSWORD_BYTES_MAX:
        return False
    return hmac.compare_digest(_digest(algorithm, password, salt), stored.lower())


def check_length(algorithm: PasswordHashAlgorithm, password: bytes) -> None:
    """Refuse (`PasswordTooLongError`) a new password that the algorithm would cut, or never accept."""
    limits = {"bcrypt": BCRYPT_BYTES_MAX, "pbkdf2": SLOW_PASSWORD_BYTES_MAX}
    limit = limits.get(algorithm.name, _MQTT_BYTES_MAX)
    if len(password) > limit:
        raise PasswordTooLongError(
            f"a password for {algorithm.name} may have {limit} bytes, and this one has {len(password)}"
        )


def hash_password(algorithm: PasswordHashAlgorithm, password: bytes) -> tuple[bytes, bytes]:
    """The hash of a new password, and its salt; raises as `check_length`."""
    check_length(algorithm, password)
    if algorithm.name == "bcrypt":
        import bcrypt

        least, most = _BCRYPT_COSTS
        return bcrypt.hashpw(password, bcrypt.gensalt(min(max(algorithm.salt_rounds or most, least), most))), b""
    salt = secrets.token_hex(_SALT_BYTES).encode() if algorithm.is_salted else b""
    if algorithm.name == "plain":
        return password, salt
    return _digest(algorithm, password, salt), salt


def unlike_any(algorithm: PasswordHashAlgorithm, bcrypt_cost: int = 10) -> tuple[bytes, bytes]:
    """A hash and salt that no password has, whose check takes as long as that of a real one."""
    if algorithm.name == "bcrypt":
        return b"$2b$%02d$" % bcrypt_cost + b"." * 53, b""
    return b"-" * 64, b"0" * (2 * _SALT_BYTES)


def bcrypt_cost_of(stored: bytes) -> int | None:
    found = _BCRYPT.fullmatch(stored)
    cost = 0 if found is None else int(found[1])
    return cost if 4 <= cost <= BCRYPT_COST_MAX else None


def _verify_bcrypt(password: bytes, stored: bytes) -> bool:
    if bcrypt_cost_of(stored) is None or len(password) > SLOW_PASSWORD_BYTES_MAX:
        return False
    import bcrypt

    try:
        return bcrypt.checkpw(password[:BCRYPT_BYTES_MAX], stored)
    except ValueError:  # a salt whose last digit has bits that belong to nothing
        return False


def _digest(algorithm: PasswordHashAlgorithm, password: bytes, salt: bytes) -> bytes:
    """Hexadecimal digits."""
    if algorithm.name == "pbkdf2":
        assert algorithm.mac_fun is not None
        assert algorithm.iterations is not None
        function = _HASHLIB.get(algorithm.mac_fun, algorithm.mac_fun)
        key = hashlib.pbkdf2_hmac(function, password, salt, algorithm.iterations, algorithm.dk_length)
        return key.hex().encode()
    digest = hashlib.new(_HASHLIB.get(algorithm.name, algorithm.name), usedforsecurity=False)
    digest.update(_salted(algorithm, password, salt))
    return digest.hexdigest().encode()


def _salted(algorithm: PasswordHashAlgorithm, password: bytes, salt: bytes) -> bytes:
    if algorithm.salt_position == "disable":
        return password
    return password + salt if algorithm.salt_position == "suffix" else salt + password

"""Password files of mosquitto: a line is a user name, a colon, and a salted hash, which is verified as it is."""

import binascii
from base64 import b64decode
from collections.abc import Iterator
from typing import Final

from heliograph.access.users.files import FileUser, UserFileError
from heliograph.config.passwords import PasswordHashAlgorithm

_SHA512: Final = PasswordHashAlgorithm("sha512", "suffix")


def read_mosquitto(text: bytes) -> Iterator[FileUser]:
    """The users of a file that `mosquitto_passwd` wrote: `$6$SALT$HASH` or `$7$ITERATIONS$SALT$HASH`, in Base64.

    Raises:
        UserFileError: While it is read: a line is not one of these, or there is no user.
    """
    is_empty = True
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith(b"#"):
            continue
        is_empty = False
        try:
            yield _user(line.decode())
        except (ValueError, binascii.Error) as error:
            reason = f" ({error})" if isinstance(error, _LineError) else ""
            raise UserFileError(
                f"line {number} is no line of a mosquitto password file{reason}; it looks like USER:$7$101$SALT$HASH"
            ) from None
    if is_empty:
        raise UserFileError("there is no user in the file")


class _LineError(ValueError):
    """A line that cannot be used, and why; without what it has of passwords."""


def _user(line: str) -> FileUser:
    user_id, colon, secret = line.strip().partition(":")
    fields = secret.split("$")
    if not user_id or not colon:
        raise _LineError("it has no user name and colon")
    if fields[:2] == ["", "6"] and len(fields) == 4:
        return FileUser(user_id, _hex(fields[3]), b64decode(fields[2], validate=True), algorithm=_SHA512)
    if fields[:2] == ["", "7"] and len(fields) == 5:
        key = b64decode(fields[4], validate=True)
        algorithm = PasswordHashAlgorithm(
            "pbkdf2", mac_fun="sha512", iterations=_iterations(fields[2]), dk_length=len(key)
        )
        return FileUser(user_id, key.hex().encode(), b64decode(fields[3], validate=True), algorithm=algorithm)
    if not secret.startswith("$"):
        raise _LineError("its password is not hashed: run mosquitto_passwd -U on the file first")
    raise _LineError("its hash is of another kind than $6$ and $7$")


def _iterations(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise _LineError("its number of iterations is not valid")
    return int(text)


def _hex(text: str) -> bytes:
    return b64decode(text, validate=True).hex().encode()

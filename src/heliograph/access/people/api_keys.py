"""API keys: how a key and its secret are made, and the file of keys that a node begins with."""

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heliograph.access.people.names import ADMINISTRATOR, KEY_ROLES, PeopleError, check_api_key, check_role

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET_BYTES: Final = 32
_SECRET_MAX: Final = 1_024
FILE_BYTES_MAX: Final = 1 << 20
FILE_KEYS_MAX: Final = 1_000
BOOTSTRAPPED: Final = "from_bootstrap_file_"


@dataclass(frozen=True, slots=True)
class FileKey:
    api_key: str
    secret_hash: bytes
    role: str

    @property
    def name(self) -> str:
        return BOOTSTRAPPED + hashlib.sha256(self.api_key.encode()).hexdigest()[:16]


def api_key_of(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def new_secret() -> str:
    """32 random bytes in base 62."""
    number = int.from_bytes(secrets.token_bytes(_SECRET_BYTES))
    digits = []
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)).rjust(43, "0")


def secret_hash_of(secret: str) -> bytes:
    """A secret is random: a fast hash gives nothing away."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def file_keys(file: str | Path) -> Iterator[FileKey]:
    """Lines of `key:secret` or `key:secret:role`, read lazily; a bad one raises `PeopleError`, without its secret."""
    path = Path(file)
    for count, (number, line) in enumerate(_lines(path)):
        if count >= FILE_KEYS_MAX:
            raise PeopleError(f"{path}:{number}: the file has more than {FILE_KEYS_MAX:,} keys")
        try:
            yield _file_key(line)
        except PeopleError as error:
            raise PeopleError(f"{path}:{number}: {error}") from None


def _lines(path: Path) -> list[tuple[int, str]]:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise PeopleError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise PeopleError(f"{str(path)!r} has more than {FILE_BYTES_MAX:,} bytes")
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise PeopleError(f"{str(path)!r} is no UTF-8") from None
    return [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]


def _file_key(line: str) -> FileKey:
    parts = line.split(":")
    if len(parts) not in (2, 3):
        raise PeopleError("this is no API key; `key:secret` or `key:secret:role` is valid")
    check_api_key(parts[0])
    if not 0 < len(parts[1]) <= _SECRET_MAX:
        raise PeopleError(f"the secret has {len(parts[1]):,} characters; 1 to {_SECRET_MAX:,} are valid")
    role = parts[2] if len(parts) == 3 else ADMINISTRATOR
    check_role(role, KEY_ROLES)
    return FileKey(parts[0], secret_hash_of(parts[1]), role)

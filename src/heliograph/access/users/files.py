"""Files of users: the bootstrap file of an authenticator, imports by command, and password files of mosquitto.

CSV and JSON, each with passwords (`plain`) or hashes (`hash`); docs/authentication.md says what they look like. A file
is taken whole or refused: the first line or element that is wrong is named, and its password is not.
"""

import io
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import orjson

from heliograph.config.passwords import PasswordHashAlgorithm
from heliograph.settings.reading import group_of_plain

FORMATS: Final = ("csv", "json")
_SHA512: Final = PasswordHashAlgorithm("sha512", "suffix")


class UserFileError(ValueError):
    """A file of users that cannot be used; the text says why."""

    code = "user_file_invalid"


@dataclass(frozen=True, slots=True)
class FileUser:
    """A user of a file.

    Attributes:
        secret: The password, or its hash, as the type of the file says.
        algorithm: Of a hash; None for that of the authenticator.
    """

    user_id: str
    secret: bytes
    salt: bytes = b""
    is_superuser: bool = False
    algorithm: PasswordHashAlgorithm | None = None


def read_users(text: bytes, form: str, kind: str) -> Iterator[FileUser]:
    """The users of a file, in its order; the same user may come twice.

    Args:
        kind: `plain` or `hash`.

    Raises:
        UserFileError: While it is read: it has a form that is not known, or a bad record, or no user.
    """
    if form not in FORMATS:
        raise UserFileError(f"files of users end in .csv or .json, and this one in .{form}")
    if kind not in ("plain", "hash"):
        raise UserFileError(f"a file holds plain or hash, and not {kind}")
    rows = _csv_rows(text) if form == "csv" else _json_rows(text)
    is_empty = True
    for place, row in rows:
        is_empty = False
        yield _user(row, kind, place)
    if is_empty:
        raise UserFileError("there is no user in the file")


def _csv_rows(text: bytes) -> Iterator[tuple[str, dict[str, object]]]:
    """Fields end at commas and blanks, and there is no quoting."""
    names: list[str] | None = None
    for number, line in enumerate(_lines(text), 1):
        if not line:
            continue
        fields = [field for field in line.replace(",", " ").split(" ") if field]
        if names is None:
            names = fields
            continue
        if len(fields) != len(names):
            raise UserFileError(
                f"line {number} has {len(fields)} fields, and the first line names {len(names)}; fields cannot be "
                "empty or have blanks in a .csv file, but in a .json file"
            )
        yield f"line {number}", dict(zip(names, fields, strict=True))


def _lines(text: bytes) -> Iterator[str]:
    """Lines end with CR, LF or both; read one by one, since there may be a million."""
    try:
        for line in io.TextIOWrapper(io.BytesIO(text), "utf-8"):
            yield line.removesuffix("\n")
    except UnicodeDecodeError as error:
        raise UserFileError(f"the file is no UTF-8: {error.reason}") from None


def _json_rows(text: bytes) -> Iterator[tuple[str, dict[str, object]]]:
    try:
        rows = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UserFileError(f"the file is no JSON: {error}") from None
    if not isinstance(rows, list):
        raise UserFileError("the file must be a JSON list of objects")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise UserFileError(f"element {number} of the list is no object")
        yield f"element {number}", row


def _user(row: dict[str, object], kind: str, place: str) -> FileUser:
    user_id = _text(row, "user_id", place)
    claim = row.get("is_superuser")
    is_superuser = claim is True or claim == "true"  # 1 is not true
    if kind == "plain":
        if "password" not in row and "password_hash" in row:
            raise UserFileError(f"{place} has a password_hash and no password: this is a file of the type hash")
        return FileUser(user_id, _text(row, "password", place).encode(), b"", is_superuser)
    secret = _text(row, "password_hash", place).encode()
    return FileUser(user_id, secret, _salt(row, place), is_superuser, _algorithm(row, place))


def _salt(row: dict[str, object], place: str) -> bytes:
    """The salt: a text, or hexadecimal digits where it is no text."""
    if "salt_hex" not in row:
        return _text(row, "salt", place, "").encode()
    try:
        return bytes.fromhex(_text(row, "salt_hex", place))
    except ValueError:
        raise UserFileError(f"{place}: salt_hex is no text of hexadecimal digits") from None


def _algorithm(row: dict[str, object], place: str) -> PasswordHashAlgorithm | None:
    if "password_hash_algorithm" not in row:
        return None
    group, problems = group_of_plain(PasswordHashAlgorithm, row["password_hash_algorithm"], "password_hash_algorithm")
    if group is None or problems:
        raise UserFileError(f"{place}: {problems[0].path}: {problems[0].message}")
    return group


def _text(row: dict[str, object], name: str, place: str, default: str | None = None) -> str:
    value = row.get(name, default)
    if not isinstance(value, str):
        raise UserFileError(f"{place} {'has no' if value is None else 'has no text as'} {name}")
    return value


def read_mosquitto(text: bytes) -> Iterator[FileUser]:
    """Lines of `$6$SALT$HASH` or `$7$ITERATIONS$SALT$HASH`, in Base64; raises `UserFileError` while they are read."""
    is_empty = True
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith(b"#"):
            continue
        is_empty = False
        try:
            yield mosquitto_user(line)
        except UserFileError as error:
            raise UserFileError(
                f"line {number} is no line of a mosquitto password file ({error}); it looks like USER:$7$101$SALT$HASH"
            ) from None
    if is_empty:
        raise UserFileError("there is no user in the file")


def mosquitto_user(line: bytes) -> FileUser:
    """The user of one line; raises `UserFileError`, which has nothing of the password."""
    try:
        user_id, colon, secret = line.decode().strip().partition(":")
    except UnicodeDecodeError:
        raise UserFileError("it is no UTF-8") from None
    if not user_id or not colon:
        raise UserFileError("it has no user name and colon")
    try:
        return _mosquitto_user(user_id, secret)
    except UserFileError:
        raise
    except ValueError:
        raise UserFileError("its salt or hash is no Base64") from None


def _mosquitto_user(user_id: str, secret: str) -> FileUser:
    fields = secret.split("$")
    if fields[:2] == ["", "6"] and len(fields) == 4:
        return FileUser(user_id, _hex(fields[3]), b64decode(fields[2], validate=True), algorithm=_SHA512)
    if fields[:2] == ["", "7"] and len(fields) == 5:
        key = b64decode(fields[4], validate=True)
        algorithm = PasswordHashAlgorithm(
            "pbkdf2", mac_fun="sha512", iterations=_iterations(fields[2]), dk_length=len(key)
        )
        return FileUser(user_id, key.hex().encode(), b64decode(fields[3], validate=True), algorithm=algorithm)
    if not secret.startswith("$"):
        raise UserFileError("its password is not hashed: run mosquitto_passwd -U on the file first")
    raise UserFileError("its hash is of another kind than $6$ and $7$")


def _iterations(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise UserFileError("its number of iterations is not valid")
    return int(text)


def _hex(text: str) -> bytes:
    return b64decode(text, validate=True).hex().encode()

r"""The settings of a connection to Redis, and commands as the kind of setting that they are.

Blanks separate words. In double quotes `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH` and `\` before any other character are
escapes, in single quotes `\'` is. A quote that ends must end the word. The text is split when the configuration is
read, and values of clients are inserted into words afterwards: no value can make a word, a field or another command.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from heliograph.hocon.values import Content
from heliograph.settings.fields import optional, optional_section, setting
from heliograph.settings.kinds import Duration, Integer, Kind, RefusedError, SecretText, Text
from heliograph.settings.redis import RedisPlace
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls

_HASH_FIELDS: Final = ("password_hash", "password")
_USER_FIELDS: Final = (*_HASH_FIELDS, "salt", "is_superuser")
_BLANKS: Final = " \t\n\r\v\f"
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "b": b"\b", "a": b"\a"}
_HEX: Final = frozenset("0123456789abcdefABCDEF")


@dataclass(frozen=True, kw_only=True)
class RedisConnection(RedisPlace):
    username: str | None = optional(Text("a user name"), "Who connects.")
    password: Secret | None = optional(SecretText(), "The password for it.")
    pool_size: int = setting(Integer(1, 1000), 8, "Connections at most; in a cluster, questions at a time.")
    query_timeout: float = setting(Duration(0.001), 5.0, "How long an answer may take.")
    tls: ClientTls | None = optional_section(ClientTls, "TLS to the server.", name="ssl", has_switch=True)


@dataclass(frozen=True, slots=True)
class RedisCommand:
    """A command as it was written, its name in capitals, its key (a template), and the fields that it asks for."""

    text: str
    name: str
    key: str
    fields: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """With the name as it was written."""
        return tuple(command_words(self.text))

    @staticmethod
    def of_user(text: str) -> RedisCommand:
        """A command that asks for the password of a user; raises `RedisCommandError`."""
        command = _read(text, ("HGET", "HMGET"))
        for field in command.fields:
            if field not in _USER_FIELDS:
                raise RedisCommandError(f"{field!r} is not one of the fields {', '.join(_USER_FIELDS)}")
        if not set(_HASH_FIELDS) & set(command.fields):
            raise RedisCommandError("it asks for neither password_hash nor password")
        if command.name == "HGET" and len(command.fields) != 1:
            raise RedisCommandError("HGET has one field; HMGET has several")
        return command

    @staticmethod
    def of_rules(text: str) -> RedisCommand:
        """A command that asks for the rules of a client; raises `RedisCommandError`."""
        command = _read(text, ("HGETALL", "HMGET"))
        if command.name == "HGETALL" and command.fields:
            raise RedisCommandError("HGETALL has a key only")
        if command.name == "HMGET" and not command.fields:
            raise RedisCommandError("HMGET needs fields")
        return command


class RedisCommandText(Kind[RedisCommand]):
    """A command that `read` takes, `RedisCommand.of_user` or `RedisCommand.of_rules`."""

    def __init__(self, read: Callable[[str], RedisCommand], expected: str) -> None:
        self._read = read
        self.expected = expected

    def convert(self, value: Content) -> RedisCommand:
        if not isinstance(value, str):
            raise RefusedError
        try:
            return self._read(value)
        except RedisCommandError as error:
            raise RefusedError(str(error)) from None

    def plain(self, value: RedisCommand) -> str:
        return value.text


def _read(text: str, names: Sequence[str]) -> RedisCommand:
    words = command_words(text)
    return RedisCommand(text, checked_name(words, names), words[1], tuple(words[2:]))


class RedisCommandError(ValueError):
    """A command that is not one of those that are valid here."""


def command_words(text: str) -> list[str]:
    """Raises `RedisCommandError` if a quote is not closed, or does not end its word, or a word is not UTF-8."""
    words: list[str] = []
    at = 0
    while True:
        while at < len(text) and text[at] in _BLANKS:
            at += 1
        if at == len(text):
            return words
        word, at = _word(text, at)
        try:
            words.append(word.decode())
        except UnicodeDecodeError:
            raise RedisCommandError(f"word {len(words) + 1} is not UTF-8") from None


def checked_name(words: Sequence[str], names: Collection[str]) -> str:
    """The name in capitals; `RedisCommandError` if it is not one of `names`, or has no key."""
    valid = " or ".join(f"{name} KEY" for name in names)
    if not words or words[0].upper() not in names:
        raise RedisCommandError(
            f"it begins with {words[0]!r}; valid is {valid}" if words else f"it is empty, not {valid}"
        )
    if len(words) == 1:
        raise RedisCommandError(f"{words[0]} has no key")
    return words[0].upper()


def _word(text: str, at: int) -> tuple[bytes, int]:
    word = bytearray()
    while at < len(text) and text[at] not in _BLANKS:
        if text[at] in "\"'":
            at = _quoted(text, at, word)
            if at < len(text) and text[at] not in _BLANKS:
                raise RedisCommandError(f"a blank is missing behind the quote at column {at}")
            break
        word += text[at].encode()
        at += 1
    return bytes(word), at


def _quoted(text: str, begin: int, word: bytearray) -> int:
    """Append what is quoted from `begin` on; where it ends."""
    quote, at = text[begin], begin + 1
    while at < len(text):
        if text[at] == quote:
            return at + 1
        if text[at] != "\\" or at + 1 == len(text):
            word += text[at].encode()
            at += 1
        elif quote == "'":
            at = _single_escape(text, at, word)
        else:
            at = _double_escape(text, at, word)
    raise RedisCommandError(f"the quote at column {begin + 1} is not closed")


def _single_escape(text: str, at: int, word: bytearray) -> int:
    if text[at + 1] == "'":
        word += b"'"
        return at + 2
    word += b"\\"
    return at + 1


def _double_escape(text: str, at: int, word: bytearray) -> int:
    digits = text[at + 2 : at + 4]
    if text[at + 1] == "x" and len(digits) == 2 and _HEX.issuperset(digits):
        word.append(int(digits, 16))
        return at + 4
    word += _ESCAPES.get(text[at + 1], text[at + 1].encode())
    return at + 2

"""The settings of a connection to Redis, and commands as the kind of setting that they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from heliograph.config.backends.redis_command import RedisCommandError, checked_name, command_words
from heliograph.hocon.values import Content
from heliograph.settings.fields import optional, optional_section, setting
from heliograph.settings.kinds import Duration, Integer, Kind, RefusedError, SecretText, Text
from heliograph.settings.redis import RedisPlace
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls

_HASH_FIELDS: Final = ("password_hash", "password")
_USER_FIELDS: Final = (*_HASH_FIELDS, "salt", "is_superuser")


@dataclass(frozen=True, kw_only=True)
class RedisConnection(RedisPlace):
    """Where a Redis is, and how it is asked."""

    username: str | None = optional(Text("a user name"), "Who connects.")
    password: Secret | None = optional(SecretText(), "The password for it.")
    pool_size: int = setting(Integer(1, 1000), 8, "Connections at most; in a cluster, questions at a time.")
    query_timeout: float = setting(Duration(0.001), 5.0, "How long an answer may take.")
    tls: ClientTls | None = optional_section(ClientTls, "TLS to the server.", name="ssl", has_switch=True)


@dataclass(frozen=True, slots=True)
class RedisCommand:
    """A command: its name in capitals, its key (a template), and the fields that it asks for.

    Attributes:
        text: As the operator wrote it.
    """

    text: str
    name: str
    key: str
    fields: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """Its words, with the name as it was written."""
        return tuple(command_words(self.text))

    @staticmethod
    def of_user(text: str) -> RedisCommand:
        """A command that asks for the password of a user.

        Raises:
            RedisCommandError: It is something else.
        """
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
        """A command that asks for the rules of a client.

        Raises:
            RedisCommandError: It is something else.
        """
        command = _read(text, ("HGETALL", "HMGET"))
        if command.name == "HGETALL" and command.fields:
            raise RedisCommandError("HGETALL has a key only")
        if command.name == "HMGET" and not command.fields:
            raise RedisCommandError("HMGET needs fields")
        return command


class RedisCommandText(Kind[RedisCommand]):
    """A command of Redis.

    Args:
        read: `RedisCommand.of_user` or `RedisCommand.of_rules`.
        expected: What is valid.
    """

    def __init__(self, read: Callable[[str], RedisCommand], expected: str) -> None:
        self._read = read
        self.expected = expected

    def convert(self, value: Content) -> RedisCommand:
        """The command, taken apart."""
        if not isinstance(value, str):
            raise RefusedError
        try:
            return self._read(value)
        except RedisCommandError as error:
            raise RefusedError(str(error)) from None

    def plain(self, value: RedisCommand) -> str:
        """The command as it was written."""
        return value.text


def _read(text: str, names: Sequence[str]) -> RedisCommand:
    words = command_words(text)
    return RedisCommand(text, checked_name(words, names), words[1], tuple(words[2:]))

"""Commands of Redis as operators write them."""

import pytest

from heliograph.config.backends.redis import RedisCommand, RedisCommandError, command_words
from support.cases import cases


@cases(
    ("text", "words"),
    [
        ("", []),
        ("  ", []),
        ("HGET key field", ["HGET", "key", "field"]),
        (" HGET\tkey \r\n field ", ["HGET", "key", "field"]),
        ("\"a b\" 'c d' e", ["a b", "c d", "e"]),
        ("'' \"\"", ["", ""]),
        ('a"b c"', ["ab c"]),
        ("a'b \"c'", ['ab "c']),
        (r'"\x41\x4a\x4B" \x41', ["AJK", r"\x41"]),
        (r'"\xZZ\q\"\\"', ['xZZq"\\']),
        (r'"\n\r\t\b\a"', ["\n\r\t\b\a"]),
        (r"'it\'s \n'", [r"it's \n"]),
        ("mqtt:${username} ü", ["mqtt:${username}", "ü"]),
        (r'"\xc3\xbc"', ["ü"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert command_words(text) == words


@cases("text", ['"a', "'a", '"a"b', "'a'b", "a'b'c", 'a "b\\"', "'\\'", r'"\xff"'])
def test_refused_quotes(text: str) -> None:
    with pytest.raises(RedisCommandError):
        command_words(text)


@cases(
    "text",
    [
        "HGET k password_hash",
        "hmget k password",
        "HMGET ${clientid} salt is_superuser password_hash",
        'HMGET "a b" password_hash',
    ],
)
def test_commands_for_users(text: str) -> None:
    command = RedisCommand.of_user(text)
    assert (command.name, command.key, *command.fields) == (text.split()[0].upper(), *command_words(text)[1:])


@cases(
    "text",
    [
        "",
        "HGET",
        "HGET k",
        "HMGET k salt",
        "HGETALL k",
        "GET k",
        "HGET k password_hash salt",
        "HMGET k password_hash name",
        "HMGET k PASSWORD",
        "HMGET k 'password_hash",
    ],
)
def test_refused_commands_for_users(text: str) -> None:
    with pytest.raises(RedisCommandError):
        RedisCommand.of_user(text)


@cases("text", ["HGETALL k", "hgetall mqtt_acl:${username}", "HMGET k a/b c/#"])
def test_commands_for_rules(text: str) -> None:
    command = RedisCommand.of_rules(text)
    assert [command.key, *command.fields] == command_words(text)[1:]


@cases("text", ["", "HGETALL", "HGETALL k f", "HMGET k", "HGET k f", "KEYS *", 'HGETALL "k'])
def test_refused_commands_for_rules(text: str) -> None:
    with pytest.raises(RedisCommandError):
        RedisCommand.of_rules(text)

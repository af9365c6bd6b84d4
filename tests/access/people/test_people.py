"""Passwords, names and keys of those who manage a node: what is refused, and that nothing secret is told."""

import hashlib
from pathlib import Path

import pytest

from heliograph.access.people.api_keys import FileKey, api_key_of, file_keys, new_secret, secret_hash_of
from heliograph.access.people.names import PeopleError, check_key_name, check_username
from heliograph.access.people.passwords import NO_PASSWORD, check_password, hash_of, is_hash, is_password
from support.cases import cases


@cases("password", ["abcdefg1", "!!!!!!!1", "a" * 63 + "~", "Tr0ub4dor&3"])
def test_a_password_with_two_kinds_of_characters_is_taken(password: str) -> None:
    check_password(password)


@cases(
    ("password", "why"),
    [
        ("", "has 0 characters"),
        ("abcdef1", "has 7 characters"),
        ("a" * 64 + "1", "has 65 characters"),
        ("abcdefgh", "at least two"),
        ("12345678", "at least two"),
        ("!!!!!!!!", "at least two"),
        ("pässwörd1", "besides letters"),
        ("pass word1", "besides letters"),
        ("password1\0", "besides letters"),
        ("\ud800bcdefg1", "besides letters"),
    ],
)
def test_a_weak_password_is_refused_and_not_shown(password: str, why: str) -> None:
    with pytest.raises(PeopleError, match=why) as refused:
        check_password(password)
    assert not password or password not in str(refused.value)


def test_only_the_right_password_belongs_to_a_hash() -> None:
    stored = hash_of("correct1")
    assert is_hash(stored)
    assert hash_of("correct1") != stored  # each has a salt of its own
    assert is_password("correct1", stored)
    for wrong in ("correct2", "", "correct1 ", "correct1\0", "x" * 100_000, "\ud800"):
        assert not is_password(wrong, stored)


@cases("stored", ["", NO_PASSWORD, "correct1", "$argon2id$v=19$m=4194304,t=9,p=9$c2FsdHNhbHQ$aGFzaA"])
def test_nothing_belongs_to_what_is_no_hash(stored: str) -> None:
    for password in ("", "correct1", stored[:64]):
        assert not is_password(password, stored)


@cases("name", ["", "a b", "ann@home", "a" * 101, "änn", "ann\n", "../ann", "a-b"])
def test_what_is_no_user_name_is_refused(name: str) -> None:
    with pytest.raises(PeopleError, match="is no name of a user"):
        check_username(name)


@cases("name", ["", "1st", "-name", "a" * 257, "key\n", "a/b"])
def test_what_is_no_key_name_is_refused(name: str) -> None:
    with pytest.raises(PeopleError, match="is no name of an API key"):
        check_key_name(name)


def test_keys_and_secrets_look_as_those_of_emqx() -> None:
    assert len(api_key_of("exporter")) == 16
    assert int(api_key_of("exporter"), 16)
    first, second = new_secret(), new_secret()
    assert first != second
    assert first.isalnum()
    assert len(first) == 43
    assert secret_hash_of("s") == hashlib.sha256(b"s").digest()


def test_a_file_of_keys_is_read_up_to_its_first_mistake(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("\n one:secret1 \n\ntwo:secret2:viewer\nthree:secret3:king\nfour:secret4\n")
    taken: list[FileKey] = []
    with pytest.raises(PeopleError, match=r"keys:5: 'king' is no role; administrator,") as refused:
        taken.extend(file_keys(file))
    found = file_keys(file)
    assert [(key.api_key, key.role) for key in (next(found), next(found))] == [
        ("one", "administrator"),
        ("two", "viewer"),
    ]
    assert "secret" not in str(refused.value)


@cases(
    ("content", "why"),
    [
        (b"key", "this is no API key"),
        (b"a:b:viewer:c", "this is no API key"),
        (b"a:", "the secret has 0 characters"),
        (b":b", "it is no API key"),
        (b"a b:c", "it is no API key"),
        (b"\xff\xfe:x", "is no UTF-8"),
        (b"k:" + b"x" * (1 << 20), "has more than"),
    ],
)
def test_a_file_that_holds_no_keys_is_refused_without_its_secrets(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "keys"
    file.write_bytes(content)
    with pytest.raises(PeopleError, match=why):
        list(file_keys(file))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PeopleError, match="No such file"):
        list(file_keys(tmp_path / "none"))

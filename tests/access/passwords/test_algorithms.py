"""The algorithms of `password_hash_algorithm`, against values that other programs computed."""

import hashlib

import bcrypt
import pytest

from heliograph.access.passwords import hash_password, verify
from heliograph.access.passwords.algorithms import PasswordTooLongError
from heliograph.config.passwords import PasswordHashAlgorithm
from heliograph.settings.kinds import RefusedError
from support.cases import cases

SALT = b"ab12"
PASSWORD = b"public"
BCRYPT = bcrypt.hashpw(PASSWORD, bcrypt.gensalt(4))


@cases(("name", "function"), [("md5", "md5"), ("sha", "sha1"), ("sha256", "sha256"), ("sha512", "sha512")])
def test_digests_are_of_password_and_salt(name: str, function: str) -> None:
    for position, text in (
        ("prefix", SALT + PASSWORD),
        (None, SALT + PASSWORD),
        ("suffix", PASSWORD + SALT),
        ("disable", PASSWORD),
    ):
        algorithm = PasswordHashAlgorithm(name, position)
        stored = hashlib.new(function, text).hexdigest().encode()
        assert verify(algorithm, PASSWORD, stored, SALT)
        assert verify(algorithm, PASSWORD, stored.upper(), SALT)
        assert not verify(algorithm, PASSWORD + b" ", stored, SALT)
        assert not verify(algorithm, PASSWORD, stored[:-1], SALT)
        assert not verify(algorithm, PASSWORD, stored + b" ", SALT)
        assert verify(algorithm, PASSWORD, stored, b"other") is (position == "disable")


def test_plain_passwords_are_compared_exactly() -> None:
    assert verify(PasswordHashAlgorithm("plain", "suffix"), b"Secret", b"Secretsalt", b"salt")
    assert verify(PasswordHashAlgorithm("plain"), b"Secret", b"saltSecret", b"salt")
    assert not verify(PasswordHashAlgorithm("plain", "disable"), b"secret", b"Secret", b"")
    assert verify(PasswordHashAlgorithm("plain", "disable"), b"\xff\x00", b"\xff\x00", b"")
    assert verify(PasswordHashAlgorithm("plain"), b"", b"", b"")


def test_the_kinds_of_bcrypt_and_what_is_none() -> None:
    algorithm = PasswordHashAlgorithm("bcrypt")
    for prefix in (b"$2a$", b"$2b$", b"$2y$"):
        stored = prefix + BCRYPT[4:]
        assert verify(algorithm, PASSWORD, stored, b"a column that does not count")
        assert not verify(algorithm, b"Public", stored, b"")
    for bad in (
        b"",
        b"$2b$04$",
        BCRYPT[:-1],
        BCRYPT + b"a",
        b"$2x$" + BCRYPT[4:],
        b"$2b$03$" + BCRYPT[7:],
        b"\xff" * 60,
    ):
        assert not verify(algorithm, PASSWORD, bad, b"")
    assert not verify(algorithm, PASSWORD, b"$2b$31$" + BCRYPT[7:], b""), "it would take hours"
    long = b"x" * 80
    stored = bcrypt.hashpw(long[:72], bcrypt.gensalt(4))
    assert verify(algorithm, long, stored, b""), "as other programs, which hashed the first 72 bytes"
    assert not verify(algorithm, b"x" * 65_535, stored, b"")


@cases("function", ["sha", "sha224", "sha256", "sha384", "sha512"])
def test_pbkdf2_has_the_length_of_its_digest_or_of_dk_length(function: str) -> None:
    python = {"sha": "sha1"}.get(function, function)
    for length in (None, 16, 100):
        algorithm = PasswordHashAlgorithm("pbkdf2", mac_fun=function, iterations=3, dk_length=length)
        stored = hashlib.pbkdf2_hmac(python, PASSWORD, SALT, 3, length).hex().encode()
        assert verify(algorithm, PASSWORD, stored.upper(), SALT)
        assert not verify(algorithm, PASSWORD, stored, b"")
        assert not verify(algorithm, b"x" * 65_535, stored, SALT)


@cases(
    "wanted",
    [
        {"name": "pbkdf2", "iterations": 1},
        {"name": "pbkdf2", "mac_fun": "sha256"},
        {"name": "sha256", "iterations": 1},
        {"name": "bcrypt", "salt_position": "prefix"},
        {"name": "pbkdf2", "mac_fun": "sha256", "iterations": 1, "salt_position": "prefix"},
        {"name": "plain", "salt_rounds": 10},
    ],
)
def test_settings_that_do_not_go_together_are_refused(wanted: dict[str, object]) -> None:
    with pytest.raises(RefusedError):
        PasswordHashAlgorithm(**wanted)  # type: ignore[arg-type]  # what a file may say


@cases(
    "algorithm",
    [
        PasswordHashAlgorithm(),
        PasswordHashAlgorithm("plain"),
        PasswordHashAlgorithm("sha512", "suffix"),
        PasswordHashAlgorithm("md5", "disable"),
        PasswordHashAlgorithm("bcrypt", salt_rounds=4),
        PasswordHashAlgorithm("pbkdf2", mac_fun="sha256", iterations=2, dk_length=20),
    ],
)
def test_a_new_password_is_verified_with_what_is_stored_of_it(algorithm: PasswordHashAlgorithm) -> None:
    stored, salt = hash_password(algorithm, PASSWORD)
    assert verify(algorithm, PASSWORD, stored, salt)
    assert not verify(algorithm, b"another", stored, salt)
    assert len(salt) == (32 if algorithm.is_salted else 0)
    if algorithm.name == "bcrypt":
        assert stored.startswith(b"$2b$05$"), "fewer rounds than 5 are too few"


def test_what_an_algorithm_would_ignore_of_a_new_password_is_refused() -> None:
    with pytest.raises(PasswordTooLongError):
        hash_password(PasswordHashAlgorithm("bcrypt"), b"x" * 73)
    with pytest.raises(PasswordTooLongError):
        hash_password(PasswordHashAlgorithm("pbkdf2", mac_fun="sha256", iterations=1), b"x" * 5000)
    with pytest.raises(PasswordTooLongError, match="may have 65535 bytes"):
        hash_password(PasswordHashAlgorithm("sha256"), b"x" * 65536)

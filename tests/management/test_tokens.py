"""Tokens, codes of second factors and waits after failures, apart from a node."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from heliograph.management.people import totp
from heliograph.management.people.back_off import LOGINS, BackOff
from heliograph.management.people.login_file import LoginFile
from heliograph.management.people.tokens import TOKENS_OF_USER_MAX, TokenExpiredError, Tokens
from heliograph.management.web.roles import may


class Clock:
    """A time that a test moves, in seconds."""

    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s

    def us(self) -> int:
        return int(self.now_s * 1_000_000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "management" / "logins.sqlite3"


def test_each_use_begins_the_life_of_a_token_anew(file: Path, clock: Clock) -> None:
    tokens = Tokens(LoginFile(file), 60.0, clock)
    token = tokens.begin("ann", "1")
    for _ in range(5):
        clock.now_s += 50
        assert tokens.find(token) is not None
        tokens.use(token)
    clock.now_s += 61
    with pytest.raises(TokenExpiredError):
        tokens.find(token)
    clock.now_s += 100_000
    tokens.begin("ann", "1")
    assert tokens.find(token) is None
    tokens.close()


def test_tokens_outlast_their_process_and_are_not_in_its_file(file: Path, clock: Clock) -> None:
    tokens = Tokens(LoginFile(file), 60.0, clock)
    token, ended = tokens.begin("ann", "1"), tokens.begin("ann", "1")
    tokens.end(ended)
    clock.now_s += 50
    tokens.use(token)
    tokens.close()
    assert token.encode() not in file.read_bytes()
    assert file.stat().st_mode & 0o077 == 0
    clock.now_s += 50
    again = Tokens(LoginFile(file), 60.0, clock)
    found = again.find(token)
    assert found is not None
    assert (found.username, again.find(ended), len(again)) == ("ann", None, 1)
    assert again.end_all("ann") == 1
    again.close()
    last = Tokens(LoginFile(file), 60.0, clock)
    assert len(last) == 0
    last.close()


def test_a_file_that_is_damaged_or_full_costs_logins_only_their_restart(file: Path, clock: Clock) -> None:
    file.parent.mkdir()
    file.write_bytes(b"no database" * 1000)
    tokens = Tokens(LoginFile(file), 60.0, clock)
    token = tokens.begin("ann", "1")
    assert tokens.find(token) is not None
    with sqlite3.connect(file) as other:
        other.execute("DROP TABLE tokens")
    other.close()
    late = tokens.begin("ann", "1")
    assert tokens.find(late) is not None
    tokens.end(token)
    assert tokens.find(token) is None
    tokens.close()


def test_logins_of_a_file_that_another_process_has_are_there_the_next_time(file: Path, clock: Clock) -> None:
    tokens = Tokens(LoginFile(file), 60.0, clock)
    token = tokens.begin("ann", "1")
    tokens.close()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        without = Tokens(LoginFile(file), 60.0, clock)
        new = without.begin("bob", "1")
        assert (without.find(token), without.find(new) is None) == (None, False)
        without.close()
    again = Tokens(LoginFile(file), 60.0, clock)
    assert again.find(token) is not None
    again.close()


def test_a_user_has_so_many_logins_at_most(file: Path, clock: Clock) -> None:
    tokens = Tokens(LoginFile(file), 60.0, clock)
    bob = tokens.begin("bob", "1")
    made = [tokens.begin("ann", "1") for _ in range(TOKENS_OF_USER_MAX + 5)]
    assert [tokens.find(one) is None for one in made] == [True] * 5 + [False] * TOKENS_OF_USER_MAX
    assert tokens.find(bob) is not None
    tokens.close()


def test_codes_are_those_of_the_standard() -> None:
    secret = b"12345678901234567890"  # RFC 6238, appendix B
    for time_s, code in ((59, "287082"), (1111111109, "081804"), (1234567890, "005924"), (20000000000, "353130")):
        assert totp.code_at(secret, time_s // totp.STEP_S) == code
        assert totp.step_of(secret, code, time_s) == time_s // totp.STEP_S
        assert totp.step_of(secret, f" {code[:3]} {code[3:]}", time_s + 30) == time_s // totp.STEP_S
        assert totp.step_of(secret, code, time_s + 90) == 0
    for wrong in ("", "28708", "2870822", "abcdef", "\ud800", "２８７０８２"):
        assert totp.step_of(secret, wrong, 59) == 0


def test_failures_make_a_name_wait_at_its_address_and_longer_each_time(clock: Clock) -> None:
    back_off = BackOff(LOGINS, clock.us)
    for _ in range(LOGINS.max_failures):
        assert back_off.may_try("192.0.2.1", "ann")
        back_off.failed("192.0.2.1", "ann")
    assert not back_off.may_try("192.0.2.1", "ann")
    assert back_off.may_try("192.0.2.1", "bob")
    assert back_off.may_try("198.51.100.1", "ann")
    clock.now_s += 1.1
    assert back_off.may_try("192.0.2.1", "ann")
    assert not back_off.may_try("192.0.2.1", "ann")  # one try at a time
    back_off.failed("192.0.2.1", "ann")
    clock.now_s += 1.1
    assert not back_off.may_try("192.0.2.1", "ann")
    clock.now_s += 1.1
    assert back_off.may_try("192.0.2.1", "ann")
    back_off.succeeded("192.0.2.1", "ann")
    assert back_off.may_try("192.0.2.1", "ann")


def test_an_address_that_tries_many_names_waits_with_all_of_them(clock: Clock) -> None:
    back_off = BackOff(LOGINS, clock.us)
    back_off.succeeded("2001:db8::1", "ann")
    for number in range(LOGINS.max_failures_of_address):
        back_off.failed(f"2001:db8::{number:x}", f"name{number}")
    assert not back_off.may_try("2001:db8::ffff", "bob")  # the same network of 64 bits
    assert back_off.may_try("2001:db8::1", "ann")  # it logged in from there before
    assert back_off.may_try("2001:db8:0:1::1", "bob")


@pytest.mark.parametrize(
    ("role", "scope", "method", "allowed"),
    [
        ("administrator", "users:write", "DELETE", True),
        ("operator", "clients:write", "DELETE", True),
        ("operator", "users:read", "GET", True),
        ("operator", "users:write", "POST", False),
        ("operator", "config:write", "PUT", False),
        ("viewer", "clients:read", "GET", True),
        ("viewer", "rules:read", "POST", False),
        ("viewer", "own:write", "POST", True),
        ("viewer", "data:read", "GET", False),
        ("publisher", "publish", "POST", True),
        ("operator", "publish", "POST", True),
        ("viewer", "publish", "POST", False),
        ("publisher", "clients:read", "GET", False),
        ("", "clients:read", "GET", False),
        ("root", "clients:read", "GET", False),
    ],
)
def test_roles_are_sets_of_scopes(role: str, scope: str, method: str, *, allowed: bool) -> None:
    assert may(role, scope, method) is allowed

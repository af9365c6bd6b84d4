"""Many tries of one name at once are no more guesses than one after the other; who guessed codes waits."""

import asyncio
import base64
import time
from collections import Counter
from pathlib import Path

import pytest

from heliograph.access.people.api_keys import BOOTSTRAPPED, secret_hash_of
from heliograph.access.people.passwords import hash_of
from heliograph.control.proto_v1.people import ApiKeyRow, ApiKeySecrets, ManagementUserRow, ManagementUserSecrets
from heliograph.management.asking.nodes import Node, Nodes
from heliograph.management.people.back_off import CODES, EVERYWHERE, KEYS, LOGINS, BackOff
from heliograph.management.people.callers import KeyCheck
from heliograph.management.people.failures import FailuresSinceLogin
from heliograph.management.people.known import KnownPeople, People
from heliograph.management.people.login_file import LoginFile
from heliograph.management.people.logins import Logins
from heliograph.management.people.totp import STEP_S, code_at, new_totp_secret
from heliograph.management.web.errors import ApiError


class _Nobody(KnownPeople):
    """There is no user."""

    async def fresh(self) -> People:
        """None."""
        return People()


class _Keys(KnownPeople):
    """There are two keys, whose secret is `right`: one that was made here, and one of a file."""

    async def fresh(self) -> People:
        """Both."""
        keys = {
            key: ApiKeySecrets(
                ApiKeyRow(name, key, "viewer", "", enable=True, expired=False, expires=None, created_at=0),
                secret_hash_of("right"),
            )
            for key, name in (("made", "made"), ("of_file", f"{BOOTSTRAPPED}1"))
        }
        return People(1, {}, keys)


async def test_a_crowd_of_guesses_waits_as_each_would(tmp_path: Path) -> None:
    node: Node = Nodes("heliograph@127.0.0.1", tmp_path).own()
    logins = Logins(_Nobody(node), tmp_path / "logins.sqlite3", 60.0)

    async def guess(number: int) -> str:
        try:
            await logins.verified("ann", f"guess {number}", "192.0.2.1")
        except ApiError as error:
            return error.code
        return ""

    answers = Counter(await asyncio.gather(*(guess(number) for number in range(40))))
    logins.stop()
    assert answers.keys() == {"BAD_USERNAME_OR_PWD", "TOO_MANY_REQUESTS"}
    assert LOGINS.max_failures <= answers["BAD_USERNAME_OR_PWD"] < 2 * LOGINS.max_failures + 1


class _Ann(KnownPeople):
    """There is one user, whose version a test may change."""

    version = 1
    created_at = 0
    password_hash = hash_of("Tr0ub4dor")

    async def fresh(self) -> People:
        """That user."""
        row = ManagementUserRow("ann", "viewer", "", self.created_at, False, False)
        return People(1, {"ann": ManagementUserSecrets(row, self.version, self.password_hash, b"", 0, ())}, {})


async def test_guesses_from_its_own_address_do_not_lock_out_a_browser_that_is_known(tmp_path: Path) -> None:
    ann = _Ann(Nodes("heliograph@127.0.0.1", tmp_path).own())
    now_us = 0

    def begun() -> Logins:
        return Logins(ann, tmp_path / "logins.sqlite3", 60.0, clock=lambda: now_us)

    async def answer(password: str, cookie: str = "", name: str = "ann") -> str:
        try:
            await logins.verified(name, password, "192.0.2.1", cookie)
        except ApiError as error:
            return error.code
        return ""

    async def guesses() -> list[str]:
        return [await answer(f"guess {number}") for number in range(LOGINS.max_failures + 2)]

    logins = begun()
    cookie, of_bob = logins.devices.new("ann", 1), logins.devices.new("bob", 1)
    for restarted in (False, True):
        if restarted:
            logins.stop()
            logins = begun()
        assert (await guesses())[-2:] == ["TOO_MANY_REQUESTS"] * 2
        assert await answer("Tr0ub4dor") == "TOO_MANY_REQUESTS"
        assert await answer("Tr0ub4dor", of_bob) == "TOO_MANY_REQUESTS"  # a cookie is one user's
        assert await answer("Tr0ub4dor", cookie[:-1] + ("0" if cookie[-1] != "0" else "1")) == "TOO_MANY_REQUESTS"
        assert await answer("Tr0ub4dor", cookie) == ""
    # The cookie is worth a count of its own.
    found = [await answer(f"guess {number}", cookie) for number in range(LOGINS.max_failures + 1)]
    assert found == ["BAD_USERNAME_OR_PWD"] * LOGINS.max_failures + ["TOO_MANY_REQUESTS"]
    now_us += 3_600_000_000
    assert (await guesses())[-1] == "TOO_MANY_REQUESTS"
    ann.version += 1  # its password is another one: who had the old one gets no share for guessing it
    assert await answer("Tr0ub4dor", cookie) == "TOO_MANY_REQUESTS"
    logins.stop()


async def test_failures_since_the_last_login_outlast_a_restart(tmp_path: Path) -> None:
    def begun() -> tuple[LoginFile, FailuresSinceLogin]:
        file = LoginFile(tmp_path / "logins.sqlite3")
        return file, FailuresSinceLogin(file, lambda: 7.0)

    def end() -> None:
        failures.close()
        file.close()

    file, failures = begun()
    for _ in range(3):
        failures.add("ann", "password")
    failures.add("ann", "code")
    failures.add("bob", "code")
    assert failures.take("bob", "code").count == 1
    end()
    file, failures = begun()
    assert failures.take("bob", "code").count == 0
    found = failures.take("ann", "password")
    assert (found.count, found.since_s) == (3, 7.0)
    end()
    file, failures = begun()
    assert (failures.take("ann", "password").count, failures.take("ann", "code").count) == (0, 1)
    end()


async def test_a_user_does_not_hear_of_failed_logins_of_a_deleted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(*_: object, **_more: object) -> None:
        """The node takes every login."""

    monkeypatch.setattr(Node, "ask", ask)
    nodes = Nodes("heliograph@127.0.0.1", tmp_path)
    ann = _Ann(nodes.own())
    logins = Logins(ann, tmp_path / "logins.sqlite3", 60.0, clock=lambda: 0)

    async def failures(*, is_made_again: bool) -> int:
        with pytest.raises(ApiError):
            await logins.log_in("ann", "wrong", "", "192.0.2.1", nodes.own())
        ann.created_at += is_made_again
        return (await logins.log_in("ann", "Tr0ub4dor", "", "192.0.2.1", nodes.own())).failed.count

    assert await failures(is_made_again=False) == 1
    assert await failures(is_made_again=True) == 0
    logins.stop()


async def test_the_right_secret_of_a_key_does_not_wait_for_guesses_of_others(tmp_path: Path) -> None:
    check = KeyCheck(_Keys(Nodes("heliograph@127.0.0.1", tmp_path).own()))

    async def answer(key: str, secret: str) -> str:
        try:
            await check.check(base64.b64encode(f"{key}:{secret}".encode()).decode(), "192.0.2.1")
        except ApiError as error:
            return error.message
        return ""

    for number in range(KEYS.max_failures + 1):
        guesses = [await answer(key, f"guess {number}") for key in ("made", "of_file")]
    assert all("the next ones wait" in one for one in guesses)
    assert await answer("made", "right") == ""
    assert "the next ones wait" in await answer("of_file", "right")  # people choose such a secret, and may guess it


def test_wrong_codes_count_for_a_day(tmp_path: Path) -> None:
    now_us = [0]
    waits = BackOff(CODES, lambda: now_us[0])
    tried = 0
    for _ in range(24 * 60 * 6):
        now_us[0] += 10_000_000
        if waits.may_try(EVERYWHERE, "ann"):
            tried += 1
            waits.failed(EVERYWHERE, "ann")
    assert tried < 120
    waits.succeeded(EVERYWHERE, "ann")
    assert waits.may_try(EVERYWHERE, "ann")


async def test_after_guessed_codes_the_right_one_has_to_wait_too(tmp_path: Path) -> None:
    node: Node = Nodes("heliograph@127.0.0.1", tmp_path).own()
    logins = Logins(_Nobody(node), tmp_path / "logins.sqlite3", 60.0)
    secret = new_totp_secret()
    user = ManagementUserSecrets(ManagementUserRow("ann", "viewer", "", 0, False, True), 1, "", secret, 0, ())

    def answer(code: str) -> str:
        try:
            logins.check_code(user, code, "192.0.2.1")
        except ApiError as error:
            return error.code
        return ""

    assert answer(code_at(secret, int(time.time()) // STEP_S)) == ""
    assert {answer("0000000") for _ in range(CODES.max_failures)} == {"BAD_MFA_TOKEN"}
    assert answer(code_at(secret, int(time.time()) // STEP_S)) == "TOO_MANY_REQUESTS"
    logins.stop()

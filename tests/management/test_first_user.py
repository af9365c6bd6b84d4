"""The first user is made with the set-up token of the log, once; then a second factor is enrolled and asked for."""

import hashlib
import re
import time
from base64 import b32decode
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from heliograph.management.people.totp import STEP_S, code_at
from support.api_node import ApiNode
from support.management import Served
from support.waiting import wait_until

PASSWORD = "Tr0ub4dor"
USER = {"username": "ann", "password": PASSWORD}
NOW_S = time.time()  # for all of the tests: no code is out of date because they are slow


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A node without users, whose API has a wall clock that stands."""
    with ApiNode(tmp_path_factory.mktemp("first"), "durable_storage.flight.enable = false", lambda: NOW_S) as node:
        yield node


def token_of(managed: Served) -> str:
    """The set-up token that stands in the log."""

    def found() -> list[str]:
        return re.findall(r"set-up token (\S+)\n", managed.log_text)

    wait_until(found, "the set-up token is in the log")
    return str(found()[-1])


@pytest.fixture(scope="module")
def ann(managed: Served) -> dict[str, Any]:
    """The answer to the set-up."""
    token = token_of(managed)
    with managed.client() as stranger:
        assert stranger.get("/heliograph/set_up").json() == {"needed": True}
        for wrong in ("", "x", token[:-1], token + "x"):
            assert stranger.post("/heliograph/set_up", json={"token": wrong, **USER}).json()["code"] == "BAD_TOKEN"
        weak = stranger.post("/heliograph/set_up", json={"token": token, **USER, "password": "weak"})
        assert (weak.status_code, weak.json()["code"]) == (400, "BAD_REQUEST")
        assert weak.json()["message"].startswith("password: ")
        made = stranger.post("/heliograph/set_up", json={"token": token, **USER})
        assert made.status_code == 200
        answer: dict[str, Any] = made.json()
        return answer


def bearer(managed: Served, token: str) -> httpx.Client:
    return managed.client(headers={"authorization": f"Bearer {token}"})


def test_the_set_up_token_counts_once(managed: Served, ann: dict[str, Any]) -> None:
    assert ann["role"] == "administrator"
    with managed.client() as stranger:
        assert stranger.get("/heliograph/set_up").json() == {"needed": False}
        again = stranger.post("/heliograph/set_up", json={"token": token_of(managed), **USER, "username": "eve"})
        assert (again.status_code, again.json()["code"]) == (401, "BAD_TOKEN")
    with bearer(managed, ann["token"]) as client:
        assert [user["username"] for user in client.get("/users").json()] == ["ann"]


def test_a_browser_that_is_known_logs_in_while_others_guess_and_hears_of_it(
    managed: Served, ann: dict[str, Any]
) -> None:
    bob = {"username": "bob", "password": PASSWORD}
    with bearer(managed, ann["token"]) as client:
        assert client.post("/users", json={**bob, "role": "viewer", "description": ""}).status_code == 200
    with managed.client(headers={"sec-fetch-site": "same-origin"}) as browser, managed.client() as stranger:
        first = browser.post("/login", json=bob)
        assert "failed_logins" not in first.json()
        device = next(one for one in first.headers.get_list("set-cookie") if one.startswith("heliograph_device_"))
        assert all(part in device for part in ("HttpOnly", "SameSite=strict", "Max-Age=15552000", "Path=/api/v5"))
        assert "heliograph_device" not in str(stranger.post("/login", json=bob).headers)
        guess = {**bob, "password": "Wr0ng-one"}
        codes: list[str] = []
        while codes[-1:] != ["TOO_MANY_REQUESTS"]:
            codes.append(stranger.post("/login", json=guess).json()["code"])
        again = browser.post("/login", json=bob)
        assert again.status_code == 200
        assert again.json()["failed_logins"]["count"] == codes.count("BAD_USERNAME_OR_PWD")
        assert "failed_logins" not in browser.post("/login", json=bob).json()


def test_a_second_factor_is_enrolled_asked_for_and_taken_away(managed: Served, ann: dict[str, Any]) -> None:
    with bearer(managed, ann["token"]) as client:
        path = "/heliograph/second_factor"
        assert client.post(path, json={"password": "Wr0ng-one"}).status_code == 400
        assert client.post(f"{path}/confirm", json={"code": "123456"}).status_code == 400
        begun = client.post(path, json={"password": PASSWORD}).json()
        assert begun["secret"] in begun["uri"]
        assert begun["qr_svg"].startswith("<svg")
        secret = b32decode(begun["secret"])
        step = int(NOW_S) // STEP_S
        assert client.post(f"{path}/confirm", json={"code": "12345"}).status_code == 400
        confirmed = client.post(f"{path}/confirm", json={"code": code_at(secret, step)})
        recovery = confirmed.json()["recovery_codes"]
        assert client.get("/nodes").json()["code"] == "BAD_TOKEN"  # what was got with the password alone has ended

    def log_in(code: str = "") -> httpx.Response:
        with managed.client() as stranger:
            return stranger.post("/login", json={**USER, **({"mfa_token": code} if code else {})})

    assert (log_in().status_code, log_in().json()["code"]) == (401, "BAD_MFA_TOKEN")
    assert log_in(code_at(secret, step)).json()["code"] == "BAD_MFA_TOKEN"  # it was used for the enrolment
    code = code_at(secret, step + 1)
    assert log_in(code).status_code == 200
    assert log_in(code).json()["code"] == "BAD_MFA_TOKEN"
    assert log_in(recovery[0].upper()).status_code == 200
    assert log_in(recovery[0]).json()["code"] == "BAD_MFA_TOKEN"
    login = log_in(recovery[1]).json()
    assert login["wrong_codes"]["count"] == 1  # the recovery code that was used before
    assert "wrong_codes" not in log_in(recovery[3]).json()
    token = login["token"]
    with bearer(managed, token) as client:
        assert client.get("/users").json()[0]["mfa"] == "totp"
        assert client.post(path, json={"password": PASSWORD}).status_code == 400
        removal = {"password": PASSWORD, "code": recovery[2]}
        assert client.post(f"{path}/remove", json=removal | {"code": "000000"}).status_code == 400
        assert client.post(f"{path}/remove", json=removal).status_code == 204
    assert log_in().status_code == 200
    told = managed.log_text + (managed.data_dir / "audit.log").read_text()
    assert begun["secret"] not in told
    assert hashlib.sha256(recovery[4].replace("-", "").encode()).hexdigest() not in told


def test_codes_of_a_second_factor_cannot_be_guessed(managed: Served, ann: dict[str, Any]) -> None:
    with managed.client() as stranger:
        token = stranger.post("/login", json=USER).json()["token"]
        with bearer(managed, token) as client:
            begun = client.post("/heliograph/second_factor", json={"password": PASSWORD}).json()
            secret = b32decode(begun["secret"])
            code = code_at(secret, int(NOW_S) // STEP_S)
            assert client.post("/heliograph/second_factor/confirm", json={"code": code}).status_code == 200
        guesses = (stranger.post("/login", json={**USER, "mfa_token": "0000000"}).json()["code"] for _ in range(60))
        assert next(guesses) == "BAD_MFA_TOKEN"
        assert "TOO_MANY_REQUESTS" in guesses

"""Users whom a provider of OpenID Connect knows log in there, over TLS; the default user is that of the file."""

import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from support.api_node import ApiNode
from support.certificates import Authority
from support.identity_provider import CLIENT, SECRET, IdentityProvider
from support.management import Served
from support.waiting import wait_until

_CALLBACK = "/api/v5/sso/oidc/callback"


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as running:
        yield running


@pytest.fixture(autouse=True)
def honest(provider: IdentityProvider) -> None:
    """The provider is as it should be, and ann is an operator."""
    provider.claims = {"preferred_username": "ann", "realm_access": {"roles": ["staff", "operator"]}}
    provider.algorithm, provider.signing_key = "RS256", None


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def managed(
    tmp_path_factory: pytest.TempPathFactory, provider: IdentityProvider, authority: Authority
) -> Iterator[Served]:
    directory: Path = tmp_path_factory.mktemp("sso")
    settings = f"""
    durable_storage.flight.enable = false
    dashboard {{
      listeners.https {{ bind = "127.0.0.1:0", ssl_options.certfile = "{authority.server()}" }}
      default_username = root, default_password = public
      sso.oidc {{
        enable = true, issuer = "{provider.issuer}", clientid = {CLIENT}, secret = "{SECRET}"
        role_claim = realm_access.roles
      }}
    }}
    """
    with ApiNode(directory, settings) as node:
        yield node


@pytest.fixture
def browser(managed: Served) -> Iterator[httpx.Client]:
    with managed.client() as client:
        yield client


def test_a_weak_password_of_the_configuration_is_told(managed: Served) -> None:
    told = "change it with `heliograph ctl admins passwd root`"
    wait_until(lambda: told in managed.log_text, "the log tells of the password")


def at_provider(browser: httpx.Client) -> httpx.URL:
    """Where the provider sends a browser back to, on the node that really serves."""
    begun = browser.get("/sso/login/oidc")
    assert begun.status_code == 302
    with httpx.Client() as outside:
        back = httpx.URL(outside.get(begun.headers["location"]).headers["location"])
    assert (back.host, back.port, back.path) == ("127.0.0.1", 18083, _CALLBACK)
    return browser.base_url.copy_with(path=_CALLBACK, query=back.query)


def test_a_user_of_the_provider_is_logged_in_with_the_role_of_its_claim(managed: Served, browser: httpx.Client) -> None:
    assert browser.get("/sso/running").json() == ["oidc"]
    back = at_provider(browser)
    answer = browser.get(back)
    assert (answer.status_code, answer.headers["location"]) == (302, "/")
    assert browser.get("/nodes").status_code == 200
    page = {"sec-fetch-site": "same-origin"}
    assert browser.post("/users", json={}, headers=page).json()["code"] == "UNAUTHORIZED_ROLE"
    (line, *_) = managed.api.get("/audit", params={"operation_id": "people.sso_logged_in"}).json()["data"]
    assert (line["args"]["username"], line["args"]["role"]) == ("ann", "operator")
    assert (line["source"], line["from"]) == ("ann", "dashboard")
    again = browser.get(back)
    assert again.status_code == 401
    assert browser.post("/logout", json={"username": "ann"}, headers=page).status_code == 204
    assert browser.get("/nodes").status_code == 401


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another"},
        {"aud": [CLIENT, "another"], "azp": "another"},
        {"iss": "https://another.example"},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"sub": None},
    ],
)
def test_an_id_token_that_is_not_for_this_login_is_refused(
    browser: httpx.Client, provider: IdentityProvider, claims: dict[str, object]
) -> None:
    provider.claims |= claims
    answer = browser.get(at_provider(browser))
    assert (answer.status_code, answer.json()["code"]) == (401, "BAD_TOKEN")
    assert browser.get("/nodes").status_code == 401


@pytest.mark.parametrize("algorithm", ["RS256", "HS256", "none"])
def test_an_id_token_that_the_provider_has_not_signed_is_refused(
    browser: httpx.Client, provider: IdentityProvider, algorithm: str
) -> None:
    provider.algorithm = algorithm
    stolen = jwt.algorithms.RSAAlgorithm.to_jwk(provider.key.public_key(), as_dict=True)["n"]
    provider.signing_key = {
        "RS256": rsa.generate_private_key(65537, 2048),
        "HS256": stolen,
        "none": "",
    }[algorithm]
    answer = browser.get(at_provider(browser))
    assert (answer.status_code, answer.json()["code"]) == (401, "BAD_TOKEN")


def test_who_has_no_role_is_refused(browser: httpx.Client, provider: IdentityProvider) -> None:
    for roles in ([], ["staff"], "admin", {"operator": True}, None):
        provider.claims |= {"realm_access": {"roles": roles}}
        answer = browser.get(at_provider(browser))
        assert (answer.status_code, answer.json()["code"]) == (403, "UNAUTHORIZED_ROLE")


def test_a_login_is_finished_only_in_the_browser_that_began_it(
    managed: Served, browser: httpx.Client, provider: IdentityProvider
) -> None:
    back = at_provider(browser)
    asked = provider.asked
    with managed.client() as other:
        assert other.get(back).status_code == 401
        at_provider(other)  # another login has begun there
        assert other.get(back).status_code == 401
    sealed = browser.cookies["heliograph_sso"]
    with managed.client(cookies={"heliograph_sso": sealed[:-1] + ("0" if sealed[-1] != "0" else "1")}) as forged:
        assert forged.get(back).status_code == 401
    assert provider.asked == asked
    assert browser.get(back.copy_merge_params({"state": "another"})).status_code == 401
    assert browser.get("/sso/oidc/callback", params={"error": "access_denied"}).status_code == 400
    assert browser.get(back).status_code == 302


def test_the_keys_of_a_provider_may_change(browser: httpx.Client, provider: IdentityProvider) -> None:
    assert browser.get(at_provider(browser)).status_code == 302
    provider.key, provider.key_id = rsa.generate_private_key(65537, 2048), "two"
    assert browser.get(at_provider(browser)).status_code == 302


def test_the_default_user_of_the_file_logs_in_and_stays(managed: Served) -> None:
    with managed.client() as stranger:
        login = stranger.post("/login", json={"username": "root", "password": "public"})
    with managed.client(headers={"authorization": f"Bearer {login.json()['token']}"}) as root:
        added = {"username": "second", "password": "Tr0ub4dor", "description": ""}
        assert root.post("/users", json=added).status_code == 200
        refused = root.delete("/users/root")
        assert (refused.status_code, refused.json()["code"]) == (400, "NOT_ALLOWED")
    told = managed.log_text
    assert "set-up token" not in told
    assert SECRET not in told


def test_the_api_is_served_over_tls(managed: Served, authority: Authority) -> None:
    (url,) = re.findall(r"(https://[^\s,]+)", managed.log_text)
    context = ssl.create_default_context(cafile=authority.cafile)
    with httpx.Client(base_url=f"{url}/api/v5", verify=context, headers={"sec-fetch-site": "same-origin"}) as page:
        login = page.post("/login", json={"username": "root", "password": "public"})
        assert login.status_code == 200
        assert "; Secure" in login.headers["set-cookie"]
        assert page.get("/nodes").status_code == 200

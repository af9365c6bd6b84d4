"""Who may call the API: keys, users with their tokens and cookies, roles; and how all others are refused."""

import base64
import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

import httpx
import pytest

from heliograph.cli.main import main
from support.api_node import ApiNode
from support.management import KEY, SECRET, Served
from support.waiting import wait_until

PASSWORD = "Tr0ub4dor"
CHALLENGE = 'Basic Realm="emqx-dashboard"'


def ctl(node: Served, *words: str) -> str:
    """What `heliograph ctl` prints."""
    with redirect_stdout(io.StringIO()) as out:
        assert main(["ctl", *words, "--data-dir", str(node.data_dir)]) == 0
    return out.getvalue()


def code_of(answer: httpx.Response) -> tuple[int, str]:
    """The status and the code of an error."""
    body = answer.json()
    assert body["message"]
    return answer.status_code, body["code"]


def log_in(node: Served, username: str, password: str = PASSWORD, **more: str) -> httpx.Response:
    with node.client() as stranger:
        return stranger.post("/login", json={"username": username, "password": password, **more})


def bearer(node: Served, token: str) -> httpx.Client:
    return node.client(headers={"authorization": f"Bearer {token}"})


@pytest.fixture(scope="module", autouse=True)
def people(managed: Served) -> None:
    """An administrator `ann`, an operator `olga` and a viewer `vera`."""
    for name, role in (("ann", "administrator"), ("olga", "operator"), ("vera", "viewer")):
        ctl(managed, "admins", "add", name, PASSWORD, "--role", role)


@pytest.fixture
def ann(managed: Served) -> Iterator[httpx.Client]:
    with bearer(managed, log_in(managed, "ann").json()["token"]) as client:
        yield client


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, "AUTHORIZATION_HEADER_ERROR"),
        ("", "AUTHORIZATION_HEADER_ERROR"),
        ("Digest abc", "AUTHORIZATION_HEADER_ERROR"),
        ("Basic", "BAD_API_KEY_OR_SECRET"),
        ("Basic %%%", "BAD_API_KEY_OR_SECRET"),
        (f"Basic {base64.b64encode(b'first-key').decode()}", "BAD_API_KEY_OR_SECRET"),
        (f"Basic {base64.b64encode(b'first-key:').decode()}", "BAD_API_KEY_OR_SECRET"),
        (f"Basic {base64.b64encode(b'first-key:wrong').decode()}", "BAD_API_KEY_OR_SECRET"),
        (f"Basic {base64.b64encode(b'no-key:first-secret').decode()}", "BAD_API_KEY_OR_SECRET"),
        (f"Basic {base64.b64encode(f'ann:{PASSWORD}'.encode()).decode()}", "BAD_API_KEY_OR_SECRET"),
        (f"Basic {'A' * 5000}", "BAD_API_KEY_OR_SECRET"),
        (f"Basic {base64.b64encode(bytes([255, 254, 58, 255])).decode()}", "BAD_API_KEY_OR_SECRET"),
        ("Bearer", "BAD_TOKEN"),
        ("Bearer wrong", "BAD_TOKEN"),
        (f"Bearer {'x' * 5000}", "BAD_TOKEN"),
    ],
)
def test_who_proves_nothing_is_refused(managed: Served, header: str | None, code: str) -> None:
    with managed.client(headers={} if header is None else {"authorization": header}) as stranger:
        for answer in (stranger.get("/nodes"), stranger.post("/users", content=b"{not json")):
            assert code_of(answer) == (401, code)
            if "TOKEN" not in code:
                assert answer.headers["www-authenticate"] == CHALLENGE


def test_a_key_made_by_the_command_counts_at_once_and_until_it_is_disabled_expired_or_deleted(
    managed: Served,
) -> None:
    made = ctl(managed, "api_keys", "add", "exporter", "--role", "viewer", "--json")
    secret = httpx.Response(200, text=made).json()
    with managed.client((secret["key"]["api_key"], secret["secret"])) as exporter:
        assert exporter.get("/nodes").status_code == 200
        ctl(managed, "api_keys", "set", "exporter", "--disable")
        assert code_of(exporter.get("/nodes")) == (401, "BAD_API_KEY_OR_SECRET")
        ctl(managed, "api_keys", "set", "exporter", "--enable", "--for", "1d")
        assert exporter.get("/nodes").status_code == 200
        ctl(managed, "api_keys", "del", "exporter")
        assert code_of(exporter.get("/nodes")) == (401, "BAD_API_KEY_OR_SECRET")


def test_guesses_at_a_key_are_refused_unseen_after_a_hundred(managed: Served) -> None:
    with managed.client(("flooded", "wrong")) as guesser:
        answers = [guesser.get("/nodes")]
        while "retry-after" not in answers[-1].headers:  # after the wait one is checked, and the next wait is longer
            answers.append(guesser.get("/nodes"))
    assert {code_of(answer) for answer in answers} == {(401, "BAD_API_KEY_OR_SECRET")}
    assert len(answers) > 100
    assert managed.api.get("/nodes").status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/users"),
        ("POST", "/users"),
        ("PUT", "/users/ann"),
        ("DELETE", "/users/ann"),
        ("POST", "/logout"),
        ("GET", "/api_key"),
        ("POST", "/api_key"),
        ("GET", "/api_key/x"),
        ("PUT", "/api_key/x"),
        ("DELETE", "/api_key/x"),
        ("POST", "/users/ann/change_pwd"),
        ("POST", "/users/nobody/change_pwd"),
        ("DELETE", "/heliograph/users/ann/second_factor"),
    ],
)
def test_keys_never_reach_users_and_keys(managed: Served, method: str, path: str) -> None:
    assert code_of(managed.api.request(method, path, json={})) == (401, "API_KEY_NOT_ALLOW")


@pytest.mark.parametrize(
    "change",
    [
        'api_key.bootstrap_file = "/tmp/keys"',
        "api_key = {bootstrap_file = x}",
        'dashboard.sso.oidc {enable = true, issuer = "https://evil.example", clientid = x}',
        "dashboard.default_username = mallory",
        "dashboard.default_password = Tr0ub4dor",
        "dashboard {cors = true, default_username = mallory}",
    ],
)
def test_keys_change_no_setting_that_makes_users_or_keys(managed: Served, ann: httpx.Client, change: str) -> None:
    before = managed.api.get("/configs").text
    for mode in ("merge", "replace"):
        answer = managed.api.put(f"/configs?mode={mode}", content=change)
        assert (answer.status_code, "API keys do not change" in answer.text) == (400, True), answer.text
    assert managed.api.get("/configs").text == before


def test_keys_go_back_to_no_revision_that_makes_users(managed: Served, ann: httpx.Client) -> None:
    assert managed.api.put("/configs", content="dashboard.cors = false").status_code == 200
    root = ann.get("/configs/dashboard").json()
    assert ann.put("/configs/dashboard", json={**root, "default_username": "mallory"}).status_code == 200
    taken = managed.api.put("/configs/dashboard", json={**root, "default_username": "eve"})
    assert code_of(taken)[0] in (400, 401)
    assert managed.api.post("/configs_reset/dashboard").status_code == 400
    assert ann.get("/configs/dashboard").json()["default_username"] == "mallory"
    assert ann.put("/configs/dashboard", json=root).status_code == 200


def test_a_login_gives_a_token_that_ends_with_logout(managed: Served) -> None:
    answer = log_in(managed, "vera")
    assert answer.status_code == 200
    assert answer.json().keys() >= {"token", "version", "license", "role"}
    assert "set-cookie" not in answer.headers
    with (
        bearer(managed, answer.json()["token"]) as vera,
        bearer(managed, log_in(managed, "vera").json()["token"]) as two,
    ):
        assert vera.get("/nodes").status_code == 200
        assert code_of(vera.post("/logout", json={"username": "ann"})) == (401, "WRONG_TOKEN_OR_USERNAME")
        assert vera.post("/logout", json={"username": "vera"}).status_code == 204
        assert code_of(vera.get("/nodes")) == (401, "BAD_TOKEN")
        assert two.get("/nodes").status_code == 200


def test_a_wrong_name_and_a_wrong_password_are_refused_alike(managed: Served) -> None:
    answers = [log_in(managed, name, "Wr0ng-password") for name in ("vera", "nobody", "' OR 1=1 --", "\0", "VERA")]
    assert {code_of(answer) for answer in answers} == {(401, "BAD_USERNAME_OR_PWD")}
    assert len({answer.content for answer in answers}) == 1
    assert {frozenset(answer.headers) for answer in answers} == {frozenset(answers[0].headers)}


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"username": "ann"},
        {"username": "ann", "password": None},
        {"username": "ann", "password": ["Tr0ub4dor"]},
        {"username": {"$ne": ""}, "password": {"$ne": ""}},
        {"username": "ann", "password": "x" * 2000},
        {"username": "ann", "password": "x", "role": "administrator"},
    ],
)
def test_a_login_that_is_none_is_a_bad_request(managed: Served, body: Any) -> None:
    with managed.client() as stranger:
        assert code_of(stranger.post("/login", json=body)) == (400, "BAD_REQUEST")


def test_guesses_at_one_name_have_to_wait_and_others_do_not(managed: Served) -> None:
    guesses = [log_in(managed, "target", "Wr0ng-one")]
    while guesses[-1].status_code == 401:  # after the wait one is checked, and the next wait is longer
        guesses.append(log_in(managed, "target", "Wr0ng-one"))
    assert {code_of(guess) for guess in guesses[:-1]} == {(401, "BAD_USERNAME_OR_PWD")}
    assert code_of(guesses[-1]) == (429, "TOO_MANY_REQUESTS")
    assert int(guesses[-1].headers["retry-after"])
    assert len(guesses) > 5
    assert log_in(managed, "olga").status_code == 200


def test_what_changes_a_user_ends_its_tokens(managed: Served, ann: httpx.Client) -> None:
    ctl(managed, "admins", "add", "temp", PASSWORD)
    changes = (
        lambda: ctl(managed, "admins", "passwd", "temp", PASSWORD),
        lambda: ann.put("/users/temp", json={"description": "other"}),
        lambda: ann.delete("/users/temp"),
    )
    for change in changes:
        with bearer(managed, log_in(managed, "temp").json()["token"]) as temp:
            assert temp.get("/nodes").status_code == 200
            change()
            assert code_of(temp.get("/nodes")) == (401, "BAD_TOKEN")


def test_a_token_outlasts_the_management_process(managed: ApiNode) -> None:
    token = log_in(managed, "vera").json()["token"]
    before = managed.url
    ctl(managed, "conf", "set", "management.enable=false")
    ctl(managed, "conf", "set", "management.enable=true")
    managed.again(before)
    with bearer(managed, token) as vera:
        assert vera.get("/nodes").status_code == 200


def test_users_are_added_changed_listed_and_deleted(managed: Served, ann: httpx.Client) -> None:
    body = {"username": "bob_1", "password": PASSWORD, "description": "Bob", "role": "viewer"}
    bob = {"username": "bob_1", "description": "Bob", "role": "viewer", "backend": "local", "mfa": "none"}
    assert ann.post("/users", json=body).json() == bob
    assert bob in ann.get("/users").json()
    assert code_of(ann.post("/users", json=body)) == (400, "BAD_REQUEST")
    changed = ann.put("/users/bob_1", json={"description": "Robert", "role": "operator"})
    assert changed.json() == bob | {"description": "Robert", "role": "operator"}
    assert ann.delete("/users/bob_1").status_code == 204
    assert code_of(ann.delete("/users/bob_1")) == (404, "USER_NOT_FOUND")
    assert code_of(ann.put("/users/bob_1", json={"description": ""})) == (404, "USER_NOT_FOUND")
    assert code_of(ann.delete("/users/ann")) == (400, "NOT_ALLOWED")
    assert code_of(ann.put("/users/ann", json={"role": "viewer"})) == (400, "NOT_ALLOWED")


@pytest.mark.parametrize(
    "wrong",
    [
        {"password": "short1"},
        {"password": "onlyletters"},
        {"password": "1234567890"},
        {"password": "x1" * 33},
        {"password": "pässwörd1"},
        {"username": ""},
        {"username": "a b"},
        {"username": "x" * 101},
        {"username": "../../etc"},
        {"username": 7},
        {"role": "root"},
        {"role": "publisher"},
        {"more": 1},
        {"description": "x" * 2000},
    ],
)
def test_what_no_user_can_be_is_refused(ann: httpx.Client, wrong: dict[str, object]) -> None:
    body = {"username": "carl", "password": PASSWORD, "description": "", **wrong}
    answer = ann.post("/users", json=body)
    assert code_of(answer) == (400, "BAD_REQUEST")
    assert str(wrong.get("password", "\0")) not in answer.text
    assert "carl" not in ann.get("/users").text


def test_a_password_is_changed_by_who_knows_the_old_one(managed: Served, ann: httpx.Client) -> None:
    ctl(managed, "admins", "add", "pat", PASSWORD, "--role", "viewer")
    with bearer(managed, log_in(managed, "pat").json()["token"]) as pat:
        path, new = "/users/pat/change_pwd", "An0ther-one"
        wrong = pat.post(path, json={"old_pwd": "Wr0ng-one", "new_pwd": new})
        assert code_of(wrong) == (400, "ERROR_PWD_NOT_MATCH")
        weak = pat.post(path, json={"old_pwd": PASSWORD, "new_pwd": "weak"})
        assert code_of(weak) == (400, "BAD_REQUEST")
        other = pat.post("/users/ann/change_pwd", json={"old_pwd": PASSWORD, "new_pwd": new})
        assert code_of(other) == (403, "UNAUTHORIZED_ROLE")
        assert pat.post(path, json={"old_pwd": PASSWORD, "new_pwd": new}).status_code == 204
        assert code_of(pat.get("/nodes")) == (401, "BAD_TOKEN")
    assert code_of(log_in(managed, "pat")) == (401, "BAD_USERNAME_OR_PWD")
    assert log_in(managed, "pat", new).status_code == 200
    missing = ann.post("/users/nobody/change_pwd", json={"old_pwd": PASSWORD, "new_pwd": new})
    assert code_of(missing) == (404, "USER_NOT_FOUND")


def test_api_keys_are_made_shown_without_secret_changed_and_deleted(managed: Served, ann: httpx.Client) -> None:
    made = ann.post("/api_key", json={"name": "tool", "desc": "a tool", "enable": True, "role": "publisher"}).json()
    assert len(made["api_key"]) == 16
    assert (made["expired"], made["expired_at"], made["role"]) == (False, "infinity", "publisher")
    shown = ann.get("/api_key/tool").json()
    assert shown == {name: value for name, value in made.items() if name != "api_secret"}
    assert shown in ann.get("/api_key").json()
    assert made["api_secret"] not in ann.get("/api_key").text
    with managed.client((made["api_key"], made["api_secret"])) as tool:
        assert code_of(tool.get("/nodes")) == (403, "UNAUTHORIZED_ROLE")
        ended = {"desc": "", "enable": True, "expired_at": "2001-01-01T00:00:00Z", "role": "viewer"}
        assert ann.put("/api_key/tool", json=ended).json()["expired"] is True
        assert code_of(tool.get("/nodes")) == (401, "BAD_API_KEY_OR_SECRET")
        assert ann.put("/api_key/tool", json={"expired_at": "infinity"}).json()["expired_at"] == "infinity"
        assert tool.get("/nodes").status_code == 200
        assert ann.delete("/api_key/tool").status_code == 204
        assert code_of(tool.get("/nodes")) == (401, "BAD_API_KEY_OR_SECRET")
    for answer in (ann.get("/api_key/tool"), ann.put("/api_key/tool", json={}), ann.delete("/api_key/tool")):
        assert code_of(answer) == (404, "NOT_FOUND")
    for wrong in ({"name": "1st"}, {"name": "ok", "role": "root"}, {"name": "ok", "expired_at": "soon"}, {}):
        assert ann.post("/api_key", json={"desc": "", "enable": True, **wrong}).status_code == 400


def test_roles_allow_what_they_say(managed: Served) -> None:
    with bearer(managed, log_in(managed, "vera").json()["token"]) as vera:
        assert vera.get("/users").status_code == 200
        assert code_of(vera.post("/users", json={})) == (403, "UNAUTHORIZED_ROLE")
        assert code_of(vera.delete("/api_key/x")) == (403, "UNAUTHORIZED_ROLE")
    with bearer(managed, log_in(managed, "olga").json()["token"]) as olga:
        assert olga.get("/nodes").status_code == 200
        assert code_of(olga.delete("/users/ann")) == (403, "UNAUTHORIZED_ROLE")


@pytest.fixture
def page(managed: Served) -> Iterator[httpx.Client]:
    """A page in a browser where `ann` has logged in: its requests have the headers that a browser adds."""
    with managed.client(headers={"sec-fetch-site": "same-origin"}) as client:
        login = client.post("/login", json={"username": "ann", "password": PASSWORD})
        cookie = login.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/api/v5"))
        yield client


def test_a_page_is_logged_in_by_a_cookie_until_it_logs_out(page: httpx.Client) -> None:
    assert page.get("/nodes").status_code == 200
    assert code_of(page.post("/users", json={})) == (400, "BAD_REQUEST")  # who calls is known, the body is not
    assert "www-authenticate" not in page.get("/nodes", headers={"cookie": ""}).headers
    assert page.post("/logout", json={"username": "ann"}).status_code == 204
    assert code_of(page.get("/nodes")) == (401, "AUTHORIZATION_HEADER_ERROR")


def test_a_cookie_is_for_tls_where_a_proxy_speaks_it(managed: Served) -> None:
    for origin, is_secure in (("https://broker.example", True), ("http://broker.example", False)):
        with managed.client(headers={"sec-fetch-site": "same-origin", "origin": origin}) as client:
            login = client.post("/login", json={"username": "ann", "password": PASSWORD})
            assert ("; Secure" in login.headers["set-cookie"]) is is_secure


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", ""])
def test_other_sites_change_nothing_with_the_cookie(page: httpx.Client, site: str) -> None:
    headers = {"sec-fetch-site": site, "origin": str(page.base_url).removesuffix("/api/v5/")}
    for method, path in (("POST", "/users"), ("DELETE", "/users/vera"), ("POST", "/logout")):
        assert code_of(page.request(method, path, json={"username": "ann"}, headers=headers)) == (403, "FORBIDDEN")


def test_a_browser_that_says_no_site_is_known_by_its_origin(managed: Served, page: httpx.Client) -> None:
    own = {"cookie": f"heliograph_login={page.cookies['heliograph_login']}", "origin": managed.url}
    with managed.client() as old:
        assert code_of(old.post("/users", json={}, headers=own)) == (400, "BAD_REQUEST")
        for headers in (
            own | {"origin": "http://evil.example"},
            own | {"origin": "null"},
            own | {"origin": managed.url.replace("http", "https")},
            {"cookie": own["cookie"]},
        ):
            assert code_of(old.post("/users", json={}, headers=headers)) == (403, "FORBIDDEN")
        assert code_of(old.post("/users", data={"username": "x"}, headers=own)) == (403, "FORBIDDEN")


def test_nothing_secret_is_in_the_log_or_the_audit(managed: Served) -> None:
    assert log_in(managed, "vera").status_code == 200
    log_in(managed, "vera", "S3cret-of-nobody")
    found = managed.api.get("/audit", params={"operation_id": "people.user_logged_in"})  # all before it is in the file
    assert found.json()["data"]
    told = managed.log_text + (managed.data_dir / "audit.log").read_text()
    for secret in (PASSWORD, SECRET, "S3cret-of-nobody", "$argon2id"):
        assert secret not in told
    assert "people.user_logged_in" in told
    assert KEY not in told


def _let_a_minute_pass(managed: ApiNode) -> None:
    """In steps: a node whose loop is late by seconds refuses what is not vital."""
    for _ in range(122):
        managed.advance(0.5)


def _refusals(managed: Served) -> list[dict[str, Any]]:
    found = managed.api.get("/audit", params={"operation_id": "api.refused", "limit": 100}).json()["data"]
    return [line for line in found if isinstance(line, dict)]


def test_the_audit_has_what_roles_refuse_and_who_failed_to_log_in(managed: ApiNode) -> None:
    _let_a_minute_pass(managed)
    with bearer(managed, log_in(managed, "vera").json()["token"]) as vera:
        assert vera.post("/banned", json={"as": "clientid", "who": "x"}).status_code == 403
    assert log_in(managed, "olga", "Wr0ng-password").status_code == 401
    with managed.client((KEY, "Wr0ng-secret")) as stranger:
        assert stranger.get("/nodes").status_code == 401
    with managed.client(headers={"authorization": "Bearer Wr0ng-token"}) as stranger:
        assert stranger.get("/nodes").status_code == 401
    assert managed.api.get("/users").status_code == 401
    lines = _refusals(managed)[:5]
    assert lines[0]["failure"].startswith("This API Key")
    assert [(line["source"], line["operation_result"], line["args"]["request"]) for line in lines[1:]] == [
        ("-", "failure", "GET /api/v5/nodes"),
        (KEY, "failure", "GET /api/v5/nodes"),
        ("olga", "failure", "POST /api/v5/login"),
        ("vera", "failure", "POST /api/v5/banned"),
    ]
    assert {line["source_ip"] for line in lines} == {"127.0.0.1"}
    assert "Wr0ng" not in str(lines)


def test_a_stranger_who_guesses_is_counted_in_the_audit(managed: ApiNode) -> None:
    _let_a_minute_pass(managed)
    before = len(_refusals(managed))
    for number in range(25):
        with managed.client((f"guessed-{number}", "wrong")) as stranger:
            assert stranger.get("/nodes").status_code == 401
    _let_a_minute_pass(managed)
    newest, *lines = _refusals(managed)
    assert len(lines) - before == 10
    assert (newest["args"]["count"], newest["args"]["addresses"]) == (15, ["127.0.0.1"])


def test_the_audit_says_who_changed_what_in_which_request(managed: Served, ann: httpx.Client) -> None:
    made = ann.post("/users", json={"username": "audited", "password": PASSWORD, "description": "", "role": "viewer"})
    ann.post("/users", json={"username": "audited", "password": PASSWORD, "description": ""})
    ann.delete("/users/audited")
    assert (made.headers["cache-control"], made.headers["x-content-type-options"]) == ("no-store", "nosniff")
    request_id = made.headers["x-request-id"]
    found = managed.api.get("/audit", params={"request_id": request_id})
    assert found.status_code == 200, found.text
    (line,) = found.json()["data"]
    assert (line["source"], line["source_ip"], line["from"]) == ("ann", "127.0.0.1", "dashboard")
    assert (line["operation_id"], line["operation_result"]) == ("people.user_add", "success")
    assert (line["args"]["username"], line["args"]["password_hash"]) == ("audited", "******")
    own = managed.api.get("/audit", params={"source": "user ann", "operation_type": "people"}).json()["data"]
    assert [row["operation_id"] for row in own[:3]] == ["people.user_delete", "people.user_add", "people.user_add"]
    failed = {"source": "user ann", "operation_id": "people.user_add", "operation_result": "failure"}
    (refused, *_) = managed.api.get("/audit", params=failed).json()["data"]
    assert "already" in refused["failure"]
    page = managed.api.get("/audit", params={"limit": 2, "page": 2, "source": "user ann"}).json()
    assert len(page["data"]) == 2
    late = {"gte_created_at": "2100-01-01T00:00:00Z"}
    assert managed.api.get("/audit", params=late).json()["data"] == []
    assert code_of(managed.api.get("/audit", params={"gte_created_at": "yesterday"}))[0] == 400


def test_other_origins_may_call_only_where_cors_is_on(managed: Served) -> None:
    origin = {"origin": "http://page.example", "access-control-request-method": "PUT"}
    assert not [name for name in managed.api.get("/nodes", headers=origin).headers if name.startswith("access-control")]
    assert managed.api.options("/nodes", headers=origin).status_code == 405
    ctl(managed, "conf", "set", "dashboard.cors=true")
    try:
        wait_until(lambda: managed.api.options("/nodes", headers=origin).status_code == 200, "other origins may call")
        answer = managed.api.get("/nodes", headers=origin)
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers
    finally:
        ctl(managed, "conf", "set", "dashboard.cors=false")


@pytest.mark.parametrize(("header", "prefix"), [("X-Forwarded-For", ""), ("Forwarded", "for=")])
def test_behind_a_trusted_proxy_callers_have_their_own_addresses(managed: Served, header: str, prefix: str) -> None:
    def guess(*hops: str) -> str:
        with managed.client(headers={header: ", ".join(prefix + hop for hop in hops)}) as stranger:
            return code_of(stranger.post("/login", json={"username": "nn", "password": "Wr0ng-one"}))[1]

    def trust(networks: str, name: str = header) -> None:
        proxies, named = f"dashboard.trusted_proxies=[{networks}]", f"dashboard.proxy_address_header={name}"
        ctl(managed, "conf", "set", proxies, named)

    def noted(address: str) -> bool:
        found = managed.api.get("/audit", params={"operation_id": "api.refused", "limit": 100}).json()["data"]
        return address in [row["source_ip"] for row in found]

    attacker, victim = (f"203.0.113.{len(header) + n}" for n in (1, 2))
    trust('"127.0.0.1", "10.0.0.0/8"')
    try:
        # Whatever the caller has written before what the proxies add is its own affair.
        wait_until(lambda: guess(victim, f"{attacker}:4711", "10.0.0.2") == "TOO_MANY_REQUESTS", "it has to wait")
        wait_until(lambda: noted(attacker), "the audit has its address")
        assert not noted(victim)
        assert guess(victim) == "BAD_USERNAME_OR_PWD"
        trust('"10.0.0.0/8"')
        wait_until(lambda: guess(victim) == "TOO_MANY_REQUESTS", "who is no trusted proxy says nothing of its address")
    finally:
        trust("", "X-Forwarded-For")

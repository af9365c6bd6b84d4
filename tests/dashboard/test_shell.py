"""The dashboard as somebody meets it first: logging in, the menu, colours, a lost login, a server that is away."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from support.browser import PASSWORD, USER, Dashboard, expect
from support.managed_clients import Peers
from support.management import ManagedNode

if TYPE_CHECKING:
    from playwright.sync_api import Route

pytestmark = pytest.mark.service

# Types into a field as soon as it is there: before what the page does when it has been drawn.
_TYPE_AT_ONCE = """([selector, text]) => new MutationObserver((_, observer) => {
  const field = document.querySelector(selector);
  if (!field) return;
  observer.disconnect();
  field.focus();
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}).observe(document, { childList: true, subtree: true })"""
# Behind what the page does when it has been drawn, which waits for the same two things.
_DRAWN = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


def test_who_logs_in_is_told_what_is_wrong_and_sees_the_overview(guest: Dashboard) -> None:
    page = guest.open().page
    guest.check_access("body")
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill("wrong-password-1")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("User name")).to_have_value("admin")
    guest.expected_errors.append("401")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_focused()
    page.reload()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


def test_a_login_that_ends_leaves_the_page_as_it_is(guest: Dashboard) -> None:
    guest.expected_errors.append("401")
    page = guest.log_in().open("clients").page
    page.get_by_label("Client id").fill("what I typed")
    page.context.clear_cookies()
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_role("dialog", name="Log in again")).to_be_visible()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("dialog").get_by_role("button", name="Log in", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_label("Client id")).to_have_value("what I typed")


def test_who_logs_in_behind_another_user_finds_nothing_of_theirs(guest: Dashboard, managed: ManagedNode) -> None:
    second = {"username": "second", "password": "second-password-1", "role": "viewer", "description": ""}
    with managed.client() as api:
        token = api.post("/login", json={"username": USER, "password": PASSWORD}).json()["token"]
        made = api.post("/users", json=second, headers={"authorization": f"Bearer {token}"})
    assert made.status_code == 200, made.text
    guest.expected_errors.append("401")
    page = guest.log_in().open("clients").page
    page.get_by_label("Client id").fill("what I typed")
    page.context.clear_cookies()
    page.get_by_role("button", name="Refresh").click()
    page.get_by_label("User name").fill("second")
    page.get_by_label("Password").fill("second-password-1")
    page.get_by_role("dialog").get_by_role("button", name="Log in", exact=True).click()
    expect(page.get_by_label("Client id")).to_have_value("")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_slow_answer_is_waited_for_and_a_late_one_is_dropped(admin: Dashboard, peers: Peers) -> None:
    held: list[Route] = []
    peers.connect("first-1")
    peers.connect("other-1")
    page = admin.page
    page.route("**/heliograph/clients?*first*", lambda route: held.append(route))
    admin.open("clients?text=first")
    expect(page.get_by_text("Loading …")).to_be_visible()
    page.get_by_label("Client id").fill("other")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("row").filter(has_text="other-1")).to_be_visible()
    assert held
    for route in held:
        route.abort()  # what the page no longer waits for
    expect(page.get_by_role("row").filter(has_text="first-1")).to_have_count(0)
    expect(page.get_by_role("alert")).to_have_count(0)
    admin.expected_errors.append("ERR_FAILED")


def test_names_that_every_object_has_are_names_like_others(admin: Dashboard) -> None:
    admin.expected_errors.append("404")  # there is no such client
    page = admin.page
    for address, heading in (
        ("__proto__", "No such page"),
        ("constructor/x", "No such page"),
        ("clients?by=constructor&sort=__proto__", "Clients"),
        ("clients/constructor?tab=constructor", "constructor"),
        ("authorization/rules/constructor", "Authorization"),
        ("history?span=constructor", "History"),
        ("traces?tab=live&type=constructor", "Traces"),
        ("configuration/constructor", "Configuration"),
    ):
        admin.open(address)
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        expect(page.get_by_text("Loading …")).to_have_count(0)
    expect(page.get_by_text("There is no section constructor.")).to_be_visible()


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("topics", "main [role=search] input"),
        ("retained", "main [role=search] input"),
        ("authorization/settings", "[data-path='cache.max_size'] input"),
    ],
)
def test_what_is_typed_in_the_first_moment_of_a_page_stays(admin: Dashboard, address: str, field: str) -> None:
    page = admin.page
    page.evaluate(_TYPE_AT_ONCE, [field, "1234"])
    admin.open(address)
    expect(page.locator(field)).to_be_focused()
    expect(page.get_by_text("Loading …")).to_have_count(0)
    page.evaluate(_DRAWN)
    expect(page.locator(field)).to_have_value("1234")
    expect(page.locator(field)).to_be_focused()


def test_the_page_is_kept_by_browsers_and_its_policy_is_strict(managed: ManagedNode) -> None:
    page = managed.api.get(managed.url + "/")
    assert "unsafe" not in page.headers["content-security-policy"]
    assert (page.headers["x-frame-options"], page.headers["cache-control"]) == ("DENY", "no-cache")
    again = managed.api.get(managed.url + "/", headers={"if-none-match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    main = re.search(r'src="(assets/[^"]+/main\.js)"', page.text)
    assert main is not None
    script = managed.api.get(f"{managed.url}/{main[1]}")
    assert "immutable" in script.headers["cache-control"]
    assert (script.headers["content-type"], script.headers["content-encoding"]) == (
        "text/javascript; charset=utf-8",
        "gzip",
    )
    version = main[1].split("/")[1]
    for name in ("../page.py", "%2e%2e/page.py", "vendor", "nothing.js", "index.html"):
        assert managed.api.get(f"{managed.url}/assets/{version}/{name}").status_code == 404
    assert managed.api.get(f"{managed.url}/assets/other/main.js").status_code == 404

"""The pages of access: who is added, banned or given rules there, is let in, refused and heard as an MQTT client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.browser import Dashboard, expect
from support.managed_clients import Peers
from support.management import ManagedNode

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.service

NOT_AUTHORIZED, BANNED = 0x87, 0x8A


@pytest.fixture
def as_before(admin: Dashboard, managed: ManagedNode) -> Iterator[None]:
    """What a test makes of authenticators and sources is gone after it."""
    yield
    admin.leave()
    api = managed.api
    for authenticator in api.get("/authentication").json():
        api.delete(f"/authentication/{authenticator['id']}")
    source = "/authorization/sources/built_in_database"
    if api.get(source).status_code == 200:
        for one in api.get(f"{source}/rules/users").json()["data"]:
            api.delete(f"{source}/rules/users/{one['username']}")
        api.delete(source)


@pytest.mark.usefixtures("as_before")
def test_a_user_who_is_added_may_publish_to_own_topics_and_nothing_else(
    admin: Dashboard, managed: ManagedNode, peers: Peers
) -> None:
    watcher = peers.connect("watcher")
    watcher.subscribe("#")
    page = admin.open("authentication").page
    page.get_by_role("link", name="Add a user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("User name").fill("ann")
    dialog.get_by_label("Password").fill("secret-of-ann")
    expect(dialog.get_by_label("Publish to own topics")).to_be_checked()
    expect(dialog).to_contain_text("allow publish ${username}/#; deny all #; deny all $SYS/#")
    admin.check_access()
    dialog.get_by_role("button", name="Add a user").click()
    expect(page.get_by_role("row").filter(has_text="ann")).to_be_visible()
    assert peers.refused("stranger") != 0
    assert peers.refused("stranger", "ann", "wrong") != 0
    ann = peers.connect("meter-of-ann", username="ann", password="secret-of-ann")
    assert ann.publish("ann/power", b"12", 1) == 0
    assert ann.publish("bob/power", b"13", 1) == NOT_AUTHORIZED
    assert [ann.subscribe(one) for one in ("ann/#", "#", "$SYS/#")] == [NOT_AUTHORIZED] * 3
    assert watcher.messages(1) == [("ann/power", b"12")]
    assert watcher.got == []

    admin.open("explain?clientid=meter-of-ann&topic=bob/power")
    expect(page.get_by_text("No, it may not.")).to_be_visible()
    decides = page.get_by_role("row").filter(has_text="decides")
    expect(decides).to_contain_text("built_in_database")
    expect(decides).to_contain_text("username ann, rule 2")
    page.get_by_label("Topic or filter").fill("ann/power")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_text("Yes, it may.")).to_be_visible()
    admin.check_access()

    admin.open("authorization/rules")
    page.get_by_role("button", name="Change ann").click()
    dialog.get_by_label("Topic filter").first.fill("up/${username}/#")
    admin.check_access()
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="up/${username}/#")).to_be_visible()
    assert ann.publish("ann/power", b"14", 1) == NOT_AUTHORIZED
    assert ann.publish("up/ann/power", b"15", 1) == 0

    admin.open("authentication")
    row = page.get_by_role("row").filter(has_text="password_based:built_in_database")
    expect(row).to_contain_text("works")
    row.get_by_role("link", name="Users").click()
    page.get_by_role("button", name="Change ann").click()
    dialog.get_by_label("New password").fill("another-of-ann")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    assert peers.refused("second", "ann", "secret-of-ann") != 0
    assert peers.refused("second", "ann", "another-of-ann") == 0
    page.get_by_role("button", name="Delete ann").click()
    dialog.get_by_role("button", name="Delete ann").click()
    expect(page.get_by_text("No user here.")).to_be_visible()
    assert peers.refused("second", "ann", "another-of-ann") != 0


@pytest.mark.usefixtures("as_before")
def test_authenticators_and_sources_are_made_ordered_and_changed(admin: Dashboard, managed: ManagedNode) -> None:
    page = admin.open("authentication").page
    dialog = page.get_by_role("dialog")
    admin.expected_errors.append("400")
    page.get_by_role("button", name="New authenticator").click()
    dialog.get_by_label("Kind").select_option("password_based:mysql")
    dialog.get_by_role("button", name="New authenticator").click()
    expect(dialog.locator("[data-path=server] .wrong")).to_contain_text("is missing")
    dialog.get_by_label("Kind").select_option("jwt")
    dialog.get_by_label("secret", exact=True).fill("a-secret-of-tokens")
    admin.check_access()
    dialog.get_by_role("button", name="New authenticator").click()
    expect(page.get_by_role("row").filter(has_text="jwt")).to_be_visible()
    page.get_by_role("button", name="Change jwt").click()
    expect(dialog.get_by_label("secret", exact=True)).to_have_value("")
    dialog.get_by_label("enable", exact=True).first.uncheck()
    theirs = {**managed.api.get("/authentication/jwt").json(), "from": "username"}
    assert managed.api.put("/authentication/jwt", json=theirs).status_code == 204
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Another user has changed from")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="jwt")).to_contain_text("switched off")
    held = managed.api.get("/authentication/jwt").json()
    assert (held["enable"], held["secret"]) == (False, "******")
    _see_it_deleted_while_it_is_listed(admin, page)
    page.get_by_role("button", name="Delete jwt").click()
    dialog.get_by_label("Type jwt to confirm").fill("jwt")
    dialog.get_by_role("button", name="Delete jwt").click()
    expect(page.get_by_text("No authenticator: everybody may connect.")).to_be_visible()

    admin.open("authorization/rules")
    page.get_by_role("button", name="Let the node keep rules").click()
    expect(page.get_by_text("No rules here.")).to_be_visible()
    page.locator("main").get_by_role("link", name="Sources").click()
    page.get_by_role("button", name="Move built_in_database down").click()
    expect(page.get_by_role("row").nth(2)).to_contain_text("built_in_database")
    order = [one["type"] for one in managed.api.get("/authorization/sources").json()["sources"]]
    assert order == ["file", "built_in_database"]
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("max_size", exact=True).fill("nonsense")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("[data-path='cache.max_size'] .wrong")).to_contain_text("expected an integer")
    page.get_by_label("max_size", exact=True).fill("33")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("The settings of authorization are changed.")).to_be_visible()
    assert managed.api.get("/authorization/settings").json()["cache"]["max_size"] == 33
    managed.api.put("/authorization/settings", json={"cache": {"max_size": None}})


def _see_it_deleted_while_it_is_listed(admin: Dashboard, page: Page) -> None:
    gone = {"code": "NOT_FOUND", "message": "there is no authenticator jwt"}
    page.route("**/authentication/jwt/status", lambda route: route.fulfill(status=404, json=gone))
    admin.expected_errors.append("404")
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_text("No authenticator: everybody may connect.")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.unroute_all()
    page.get_by_role("button", name="Refresh").click()


def test_a_ban_holds_until_it_is_lifted(admin: Dashboard, peers: Peers) -> None:
    page = admin.open("bans").page
    page.get_by_role("button", name="New ban").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Who").fill("meter-9")
    dialog.get_by_label("Reason").fill("sends <b>too much</b>")
    dialog.get_by_role("button", name="New ban").click()
    expect(page.get_by_role("row").filter(has_text="meter-9")).to_contain_text("sends <b>too much</b>")
    assert peers.refused("meter-9") == BANNED
    page.get_by_role("button", name="Lift the ban of meter-9").click()
    dialog.get_by_role("button", name="Lift the ban of meter-9").click()
    expect(page.get_by_text("There are no bans.")).to_be_visible()
    assert peers.refused("meter-9") == 0

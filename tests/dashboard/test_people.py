"""People in the dashboard: users, API keys, one's own login and second factor, and who changed what."""

from __future__ import annotations

import base64
import time

import httpx
import pytest

from heliograph.management.people.totp import STEP_S, code_at
from support.browser import Dashboard, expect
from support.management import ManagedNode

pytestmark = pytest.mark.service

_VIEWER = "looks-1-only"


def test_a_viewer_is_added_and_sees_no_button_that_changes_anything(guest: Dashboard, admin: Dashboard) -> None:
    page = admin.open("users").page
    page.get_by_role("button", name="Add a user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("User name").fill("vera")
    dialog.get_by_label("Password").fill("short")
    dialog.get_by_role("button", name="Add a user").click()
    expect(dialog.get_by_role("alert").or_(dialog.locator(".wrong"))).to_be_visible()
    admin.expected_errors.append("400")
    expect(dialog.get_by_label("User name")).to_have_value("vera")
    admin.check_access()
    dialog.get_by_label("Password").fill(_VIEWER)
    dialog.get_by_role("button", name="Add a user").click()
    expect(page.get_by_role("row").filter(has_text="vera")).to_contain_text("viewer")
    admin.check_access()
    shown = guest.log_in("vera", _VIEWER).open("users").page
    expect(shown.get_by_role("row").filter(has_text="vera")).to_be_visible()
    expect(shown.get_by_role("button", name="Add a user")).to_have_count(0)
    expect(shown.get_by_role("button", name="Delete")).to_have_count(0)
    guest.forget()
    page.get_by_role("button", name="Delete vera").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete vera").click()
    expect(page.get_by_role("row").filter(has_text="vera")).to_have_count(0)


def test_the_secret_of_a_key_is_shown_once_and_counts(managed: ManagedNode, admin: Dashboard) -> None:
    page = admin.open("api_keys").page
    page.get_by_role("button", name="Make a key").click()
    page.get_by_role("dialog").get_by_label("Name").fill("grafana")
    page.get_by_role("dialog").get_by_role("button", name="Make a key").click()
    made = page.get_by_role("dialog", name="The key grafana")
    expect(made.locator("dd")).to_have_count(2)
    key, secret = made.locator("dd").all_inner_texts()
    admin.check_access()
    assert httpx.get(f"{managed.url}/api/v5/stats", auth=(key, secret)).status_code == 200
    assert httpx.post(f"{managed.url}/api/v5/publish", auth=(key, secret), json={"topic": "a"}).status_code == 403
    made.get_by_role("button", name="I have kept it").click()
    page.get_by_role("button", name="Change grafana").click()
    page.get_by_role("dialog").get_by_label("Enabled").uncheck()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="grafana")).to_contain_text("disabled")
    assert httpx.get(f"{managed.url}/api/v5/stats", auth=(key, secret)).status_code == 401
    page.get_by_role("button", name="Delete grafana").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete grafana").click()
    expect(
        page.get_by_text("There is no API key.").or_(page.get_by_role("row").filter(has_text="first-key"))
    ).to_be_visible()
    admin.open("audit")
    expect(page.get_by_role("row").filter(has_text="people.key_delete").first).to_contain_text("admin")
    admin.check_access()


def test_a_second_factor_is_set_up_and_asked_for(guest: Dashboard, admin: Dashboard) -> None:
    page = admin.open("users").page
    page.get_by_role("button", name="Add a user").click()
    page.get_by_role("dialog").get_by_label("User name").fill("otto")
    page.get_by_role("dialog").get_by_label("Password").fill(_VIEWER)
    page.get_by_role("dialog").get_by_role("button", name="Add a user").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    own = guest.log_in("otto", _VIEWER)
    shown = own.open("account").page
    shown.get_by_role("button", name="Set up a second factor").click()
    shown.get_by_role("dialog").get_by_label("Password").fill(_VIEWER)
    shown.get_by_role("button", name="Go on").click()
    secret = shown.get_by_role("dialog").locator("code").inner_text()
    drawn = "image => image.decode().then(() => image.naturalWidth)"  # browsers decode images by and by
    assert shown.get_by_role("img", name="QR code").evaluate(drawn) > 0
    own.check_access()
    shown.get_by_label("Code").fill(code_of(secret))
    shown.get_by_role("button", name="Confirm").click()
    expect(shown.get_by_role("dialog", name="Recovery codes")).to_be_visible()
    recovery = shown.get_by_role("dialog").locator("pre").inner_text().split()[0]
    own.expected_errors.append("401")  # the page's stream ends with the login, and has the page ask for another
    again = shown.get_by_role("dialog", name="Log in again")
    again.get_by_label("Password").fill("Wr0ng-one")
    again.get_by_role("button", name="Log in", exact=True).click()
    expect(again.get_by_role("alert")).to_be_visible()
    again.get_by_label("Password").fill(_VIEWER)
    again.get_by_role("button", name="Log in", exact=True).click()
    again.get_by_label("Code").fill("0000000")
    again.get_by_role("button", name="Log in", exact=True).click()
    expect(again.get_by_role("alert")).to_contain_text("wrong")
    again.get_by_label("Code").fill(recovery)
    again.get_by_role("button", name="Log in", exact=True).click()
    expect(again).to_have_count(0)
    notices = shown.locator(".notices")
    expect(notices).to_contain_text("If they were not yours, another person tries to log in as you.")
    expect(notices).to_contain_text(": 1. If they were not yours, change your password")
    shown.get_by_role("button", name="I have kept them").click()
    notices.get_by_role("button", name="Close").click()
    expect(notices).not_to_contain_text("Wrong codes since")
    expect(shown.get_by_text("At login you are asked for a code")).to_be_visible()
    guest.forget()
    page.get_by_role("button", name="Delete otto").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete otto").click()
    expect(page.get_by_role("row").filter(has_text="otto")).to_have_count(0)


def code_of(secret: str) -> str:
    """What an authenticator app shows now."""
    return code_at(base64.b32decode(secret), int(time.time()) // STEP_S)

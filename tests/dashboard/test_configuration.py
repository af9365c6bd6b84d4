"""The page of the configuration: changes are planned, tried, taken back; what hides one is named; two people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from support.browser import Dashboard, expect
from support.managed_clients import Peers
from support.management import ManagedNode

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.service

LONG_ID = "a-client-id-of-more-than-23-bytes"


def review(page: Page) -> None:
    page.get_by_role("button", name="Review and apply").click()


def revision_of(managed: ManagedNode) -> int:
    return int(managed.api.get("/heliograph/configuration/state").json()["revision"])


def test_a_limit_on_trial_holds_for_clients_and_no_more_when_it_is_taken_back(
    admin: Dashboard, managed: ManagedNode, peers: Peers
) -> None:
    page = admin.open("configuration/mqtt").page
    assert peers.refused(LONG_ID) == 0
    page.get_by_label("max_clientid_len", exact=True).fill("nonsense")
    review(page)
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("mqtt.max_clientid_len")
    page.get_by_role("button", name="Cancel").click()
    field = page.locator("[data-path='mqtt.max_clientid_len']")
    expect(field.locator(".wrong")).to_contain_text("expected an integer from 23")
    admin.expected_errors.append("400")
    page.get_by_label("max_clientid_len", exact=True).fill("23")
    review(page)
    dialog = page.get_by_role("dialog")
    row = dialog.get_by_role("row").filter(has_text="mqtt.max_clientid_len")
    expect(row).to_contain_text("65535")
    expect(row).to_contain_text("for new connections")
    dialog.get_by_label("On trial").check()
    dialog.get_by_label("Seconds to confirm it in").fill("3600")  # a test is not that slow
    admin.check_access()
    dialog.get_by_role("button", name="Apply", exact=True).click()
    trial = page.get_by_role("region", name=re.compile("is on trial"))
    expect(trial).to_be_visible()
    assert peers.refused(LONG_ID) != 0
    page.reload()
    expect(trial.get_by_role("timer")).to_contain_text("It goes back in")
    _see_the_trial_elsewhere(admin, page, trial)
    trial.get_by_role("button", name="Go back now").click()
    expect(trial).to_have_count(0)
    admin.open("configuration/mqtt")
    expect(page.get_by_label("max_clientid_len", exact=True)).to_have_value("65535")
    assert peers.refused(LONG_ID) == 0


def _see_the_trial_elsewhere(admin: Dashboard, page: Page, trial: Locator) -> None:
    admin.open("diagnose")
    expect(trial.get_by_role("timer")).to_contain_text("It goes back in")
    admin.check_access()
    page.get_by_role("button", name="Look for slow subscriptions").click()
    expect(page.get_by_role("alert")).to_contain_text("is on trial")
    expect(page.get_by_role("link", name="See what is on trial")).to_be_visible()
    trial.get_by_role("link", name="What it changes").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row").filter(has_text="mqtt.max_clientid_len")).to_be_visible()
    dialog.get_by_role("button", name="Close").click()


def test_a_change_that_a_higher_layer_hides_is_refused_with_the_line(admin: Dashboard, managed: ManagedNode) -> None:
    admin.look("dark", 360)
    page = admin.open("configuration").page
    page.get_by_label("Search all settings").fill("topics")
    expect(page.locator("[data-path]").first).to_have_attribute("data-path", re.compile(r"\.topics$"))
    others = page.get_by_role("region", name="In descriptions")
    expect(others.locator("[data-path='mqtt.mqueue_priorities']")).to_be_visible()
    expect(others.locator("[data-path*='topics']")).to_have_count(0)
    page.get_by_label("Search all settings").fill("tcp.default.bind")
    bind = page.get_by_label("bind", exact=True)
    expect(page.locator("[data-path='listeners.tcp.default.bind']")).to_contain_text("heliograph.conf:1")
    admin.check_access()
    admin.check_width()
    bind.fill("127.0.0.1:1")
    review(page)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row").filter(has_text="hidden by node: ")).to_contain_text("heliograph.conf:1")
    expect(dialog.get_by_role("button", name="Apply", exact=True)).to_be_disabled()
    dialog.get_by_role("button", name="Leave out what is hidden").click()
    expect(dialog).to_have_count(0)
    expect(bind).to_have_value(f"127.0.0.1:{managed.node.port}")


def test_a_zone_shows_what_it_inherits(admin: Dashboard, managed: ManagedNode) -> None:
    values = {"zones.certs.mqtt.max_inflight": "7"}
    assert managed.api.post("/heliograph/configuration/change", json={"values": values}).status_code == 200
    page = admin.open("configuration/zones").page
    page.reload()
    field = page.locator("[data-path='zones.certs.mqtt.mqueue_store_qos0']")
    expect(field).to_contain_text("Inherited from mqtt.mqueue_store_qos0: true")
    expect(field.get_by_role("checkbox")).to_be_checked()
    own = page.locator("[data-path='zones.certs.mqtt.max_inflight']")
    expect(own.get_by_role("textbox")).to_have_value("7")
    expect(own).to_contain_text("set by cluster")
    expect(page.locator("[data-path='zones.certs.mqtt.max_mqueue_len'] input")).to_have_attribute("placeholder", "1000")
    expect(page.get_by_role("button", name="Review and apply")).to_have_count(0)
    undone = managed.api.post("/heliograph/configuration/change", json={"values": {"zones.certs": "null"}})
    assert undone.status_code == 200


def test_of_two_people_the_second_is_told_and_loses_nothing(
    admin: Dashboard, guest: Dashboard, managed: ManagedNode
) -> None:
    before = revision_of(managed)
    page = admin.open("configuration/mqtt").page
    page.reload()
    page.get_by_label("max_inflight", exact=True).fill("40")
    second = guest.log_in().open("configuration/mqtt").page
    second.get_by_label("max_inflight", exact=True).fill("41")
    review(second)
    second.get_by_label("Comment").fill("for the new devices")
    second.get_by_role("button", name="Apply", exact=True).click()
    expect(second.get_by_role("dialog")).to_have_count(0)
    admin.expected_errors.append("409")
    review(page)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_contain_text("for the new devices")
    dialog.get_by_role("button", name="Compare with what holds now").click()
    row = dialog.get_by_role("row").filter(has_text="mqtt.max_inflight")
    expect(row.get_by_role("cell").first).to_have_text("41")
    expect(row.get_by_role("cell").nth(1)).to_have_text("40")
    dialog.get_by_role("button", name="Apply", exact=True).click()
    expect(dialog).to_have_count(0)
    shown = managed.api.get("/heliograph/configuration", params={"path": "mqtt.max_inflight"}).json()
    assert [one["plain"] for one in shown] == [40]
    page.get_by_role("link", name="Revisions").click()
    first = page.get_by_role("row").filter(has_text="for the new devices").get_by_role("link")
    first.click()
    expect(dialog.get_by_role("row").filter(has_text="mqtt.max_inflight")).to_contain_text("41")
    dialog.get_by_role("button", name="Go back to revision").click()
    plan = dialog.get_by_role("table", name="What the change does").get_by_role("row").nth(1)
    expect(plan).to_contain_text("mqtt.max_inflight")
    expect(plan.get_by_role("cell").nth(1)).to_have_text("41")
    dialog.get_by_label("For good").check()
    dialog.get_by_role("button", name="Go back to revision").click()
    expect(dialog).to_have_count(0)
    assert managed.api.get("/heliograph/configuration", params={"path": "mqtt.max_inflight"}).json()[0]["plain"] == 41
    undone = managed.api.post("/heliograph/configuration/change", json={"values": {"mqtt.max_inflight": "null"}})
    assert undone.json()["revision"] > before

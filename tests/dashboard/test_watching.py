"""The pages that watch: overview, node, alarms, diagnose. What they show is what clients do and the API says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from support.browser import Dashboard, expect
from support.managed_clients import Peers
from support.management import ManagedNode

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.service

NODE = "heliograph@127.0.0.1"
ALARM = "high_system_memory_usage"


@pytest.fixture
def sysmon(managed: ManagedNode) -> Iterator[dict[str, Any]]:
    """The thresholds of the node, which are as before after the test."""
    before = managed.api.get("/configs/sysmon").json()
    yield before
    assert managed.api.put("/configs/sysmon", json=before).status_code == 200


def number(page: Page, name: str) -> Locator:
    """One of the large numbers."""
    return page.locator("dl.numbers > div").filter(has=page.get_by_text(name, exact=True)).locator("dd")


def chart(page: Page, name: str) -> Locator:
    """A chart, whose name says what it shows."""
    return page.get_by_role("img", name=name)


def test_the_overview_shows_what_clients_do(admin: Dashboard, peers: Peers) -> None:
    page = admin.open("overview").page
    expect(number(page, "Connected")).to_contain_text("0")
    quiet, loud = peers.connect("watched/1"), peers.connect("watched/2")
    quiet.subscribe("watched/#", 1)
    loud.publish("watched/kept", b"x", 1, retain=True)
    expect(number(page, "Connected")).to_contain_text("2")
    expect(number(page, "Subscriptions")).to_contain_text("1")
    expect(chart(page, "Messages. In: now")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Live")).to_be_visible()
    page.get_by_role("button", name="24 h").click()
    expect(page.get_by_role("button", name="24 h")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Connections").click()
    expect(chart(page, "Connections. Connected: now")).to_be_visible()
    page.get_by_text("As a table").last.click()
    expect(page.get_by_role("table", name="Connections")).to_be_visible()
    row = page.get_by_role("row").filter(has_text=NODE)
    expect(row).to_contain_text("running")
    admin.check_access()
    loud.publish("watched/kept", b"", 1, retain=True)
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", name=NODE)).to_be_focused()


def test_a_node_shows_its_storage_memory_listeners_and_settings(admin: Dashboard, managed: ManagedNode) -> None:
    page = admin.open(f"node/{NODE}").page
    databases = managed.api.get("/heliograph/storage").json()
    assert databases
    expect(page.get_by_role("table", name="Storage").get_by_role("row").filter(has_text="messages")).to_contain_text(
        "works"
    )
    expect(page.get_by_role("table", name="Listeners")).to_contain_text("tcp:default")
    expect(page.get_by_role("meter", name="Interpreter and libraries")).to_be_visible()
    settings = page.get_by_role("table", name="Settings that differ")
    expect(settings).to_contain_text("dashboard.default_username")
    expect(settings).not_to_contain_text("first-password")
    admin.check_access()
    admin.open("node/nobody")
    expect(page.get_by_text("There is no node of that name.")).to_be_visible()


def test_an_alarm_is_seen_and_ended_and_the_log_tells_of_it(
    admin: Dashboard, managed: ManagedNode, sysmon: dict[str, Any]
) -> None:
    page = admin.open("diagnose?tab=log").page
    entries = page.get_by_role("list", name="Log")
    page.get_by_label("Contains").fill(ALARM)
    # Looked at once, when the settings change: an alarm that is ended by hand does not come again.
    limits = {"mem_check_interval": "1h", "sysmem_high_watermark": "1%", "procmem_high_watermark": "100%"}
    assert managed.api.put("/configs/sysmon", json={**sysmon, "os": {**sysmon["os"], **limits}}).status_code == 200
    expect(entries).to_contain_text(f"alarm {ALARM} has begun")
    admin.check_access()
    admin.open("alarms")
    alarm = page.get_by_role("listitem").filter(has_text=ALARM)
    expect(alarm).to_contain_text("of the machine's memory are used")
    admin.check_access()
    alarm.get_by_role("button", name=f"End {ALARM}").click()
    page.get_by_role("dialog").get_by_role("button", name=f"End {ALARM}").click()
    expect(alarm).to_have_count(0)
    assert ALARM not in [one["name"] for one in managed.api.get("/alarms").json()["data"]]
    ended = page.get_by_role("row").filter(has_text=ALARM)
    expect(ended.first).to_be_visible()
    page.get_by_role("button", name="Forget those that ended").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget those that ended").click()
    expect(ended).to_have_count(0)


def test_what_counts_as_slow_is_set_and_wrong_durations_are_told(admin: Dashboard, managed: ManagedNode) -> None:
    page = admin.open("diagnose").page
    expect(page.get_by_text("the search for slow subscriptions is off")).to_be_visible()
    page.get_by_role("button", name="Look for slow subscriptions").click()
    expect(page.get_by_text("longer than 500ms")).to_be_visible()
    page.get_by_role("button", name="Settings").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Look for slow subscriptions")).to_be_checked()
    dialog.get_by_label("Slow is what takes longer than").fill("soon")
    dialog.get_by_role("button", name="Save").click()
    admin.expected_errors.append("400")
    expect(dialog.get_by_text("slow_subs.threshold")).to_be_visible()
    expect(dialog.get_by_label("Slow is what takes longer than")).to_have_value("soon")
    dialog.get_by_label("Slow is what takes longer than").fill("2s")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("longer than 2000ms")).to_be_visible()
    assert managed.api.get("/slow_subscriptions/settings").json()["enable"] is True
    assert managed.api.put("/slow_subscriptions/settings", json={}).status_code == 200
    page.get_by_role("link", name="Long turns").click()
    expect(page.get_by_text("all clients wait")).to_be_visible()
    admin.check_access()
    page.get_by_role("link", name="Memory").click()
    expect(page.get_by_role("meter").first).to_be_visible()

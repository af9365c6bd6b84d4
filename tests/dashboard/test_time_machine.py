"""The page of the time machine: what it shows is what the rule makes of stored messages; it ends what it has begun."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.browser import Dashboard, expect
from support.managed_clients import Peers
from support.management import ManagedNode
from support.sessions_of_processes import below
from support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Request, Route

pytestmark = pytest.mark.service

WARM = 'SELECT payload.temp AS temp, clientid FROM "machine/+/climate" WHERE payload.temp > 30'
EDITED = WARM.replace("30", "40 OR payload.temp < 2")
SLOW = "SELECT jq('def f: f; f', payload) AS x FROM \"machine/#\""  # it takes as long as jq may take, for each message
ALERT = {"function": "republish", "args": {"topic": "machine_alerts/${clientid}"}}


@pytest.fixture(scope="module")
def past(managed: ManagedNode) -> Iterator[ManagedNode]:
    """A node that has stored sixty temperatures, and one payload that is no JSON; and rules about them."""
    with Peers(managed) as peers:
        station = peers.connect("past-station")
        for temperature in range(60):
            station.publish(f"machine/{temperature % 4}/climate", b'{"temp": %d}' % temperature, 1)
        station.publish("machine/1/climate", b"cold", 1)
    for name, sql in (("past_warm", WARM), ("past_slow", SLOW)):
        made = managed.api.post("/rules", json={"id": name, "sql": sql, "actions": [ALERT], "enable": False})
        assert made.status_code == 201, made.text
    path, query = "/heliograph/messages", {"topic": "machine/#", "payload": "none", "limit": "1000"}
    wait_until(lambda: len(managed.api.get(path, params=query).json()["data"]) == 61, "the reader has all of them")
    yield managed
    for name in ("past_warm", "past_slow"):
        managed.api.delete(f"/rules/{name}")


def test_a_rule_is_run_over_the_past_and_compared(admin: Dashboard, past: ManagedNode) -> None:
    page = admin.open("rule/past_warm").page
    page.get_by_role("link", name="Run it over the past").click()
    expect(page.get_by_role("heading", name="Time machine")).to_be_focused()
    expect(page.get_by_label("SQL")).to_have_value(WARM)
    page.get_by_role("button", name="Run it").click()
    expect(_number(page, "Rows")).to_contain_text("29")
    expect(_number(page, "Failed")).to_contain_text("1")
    expect(page.get_by_role("cell", name='{"temp":31,"clientid":"past-station"}')).to_be_visible()
    expect(page.get_by_text("29 rows would be published to machine_alerts/${clientid}")).to_be_visible()
    expect(page.get_by_text("it cannot be started from the past")).to_be_visible()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="machine/3/climate").first.click()
    expect(opened.value.get_by_role("row").filter(has_text="machine/3/climate").first).to_be_visible()
    opened.value.close()
    page.get_by_role("button", name="Failures (1)").click()
    expect(page.get_by_role("cell", name="not valid JSON")).to_be_visible()
    page.get_by_label("SQL").fill(EDITED)
    page.get_by_label("Compare with").select_option("The rule as it runs now")
    page.get_by_role("button", name="At any time").click()
    page.get_by_role("button", name="Run it").click()
    for name, count in (("Added", "2"), ("Gone", "10"), ("Changed", "0"), ("Equal", "19")):
        expect(_number(page, name)).to_contain_text(count)
    expect(page.get_by_role("cell", name='{"temp":0,"clientid":"past-station"}')).to_be_visible()
    admin.check_access()
    admin.check_width()
    page.get_by_role("button", name="From … to …").click()
    page.get_by_label("From", exact=True).fill("2001-01-01T00:00:00")
    page.get_by_label("To", exact=True).fill("2001-01-02T00:00:00")
    page.get_by_role("button", name="Run it").click()
    expect(page.get_by_text("No message of these topics was stored")).to_be_visible()


def test_what_is_wrong_stands_beside_its_field_and_a_replay_ends(admin: Dashboard, past: ManagedNode) -> None:
    admin.look("dark", 390)
    admin.expected_errors.append("400")
    page = admin.open("time_machine").page
    rule = page.get_by_label("Rule", exact=True)
    rule.fill("none")
    page.get_by_role("button", name="Run it").click()
    expect(page.get_by_text("there is no rule 'none'")).to_be_visible()
    expect(rule).to_have_attribute("aria-invalid", "true")
    expect(rule).to_have_value("none")
    rule.fill("past_slow")
    expect(page.get_by_label("SQL")).to_have_value(SLOW)
    rule.fill("past_warm")
    expect(page.get_by_label("SQL")).to_have_value(WARM)
    rule.fill("past_slow")
    expect(page.get_by_label("SQL")).to_have_value(SLOW)
    page.get_by_role("button", name="Run it").click()
    expect(page.get_by_text("of the stretch")).to_be_visible()
    wait_until(lambda: len(_replays()) == 1, "it runs")
    admin.check_access()
    admin.check_width()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("The replay is cancelled.")).to_be_visible()
    assert _replays() == []
    page.get_by_role("button", name="Run it").click()
    wait_until(lambda: len(_replays()) == 1, "it runs")
    admin.open("rules")
    wait_until(lambda: not _replays(), "it has ended with its page")


def test_a_page_that_is_left_while_the_replay_before_ends_begins_no_other(admin: Dashboard, past: ManagedNode) -> None:
    held: list[Route] = []
    begun: list[str] = []
    page = admin.open("time_machine?rule=past_warm").page
    expect(page.get_by_label("SQL")).to_have_value(WARM)
    page.get_by_role("button", name="Run it").click()
    expect(_number(page, "Rows")).to_contain_text("29")
    page.route("**/rule_replays/*", lambda route: held.append(route))
    page.on("request", lambda asked: begun.append(asked.url) if _begins(asked) else None)
    with page.expect_request("**/rule_replays/*"):
        page.get_by_role("button", name="Run it").click()
    admin.open("rules")
    with page.expect_response("**/rule_replays/*"):
        for route in held:
            route.continue_()
    admin.leave()
    assert begun == []


def _begins(asked: Request) -> bool:
    return asked.method == "POST" and asked.url.endswith("/rule_replays")


def _number(page: Page, name: str) -> Locator:
    return page.locator(".number").filter(has=page.get_by_text(name, exact=True))


def _replays() -> list[int]:
    return below(os.getpid(), "heliograph.pipeline.replay")  # not below the node, whose programs are copies

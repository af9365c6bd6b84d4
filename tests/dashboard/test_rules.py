"""The pages of rules: what is made in them happens to messages; a wrong text shows its place and is not lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.browser import Dashboard, expect
from support.managed_clients import Peers
from support.management import ManagedNode

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.service


@pytest.fixture
def peers(admin: Dashboard, managed: ManagedNode) -> Iterator[Peers]:
    with Peers(managed) as made:
        yield made
    admin.leave()
    managed.api.delete("/rules/warm")


def test_a_rule_is_written_tried_made_and_changed(admin: Dashboard, managed: ManagedNode, peers: Peers) -> None:
    listener, station = peers.connect("listener"), peers.connect("station")
    listener.subscribe("hall_alerts/#")
    page = admin.open("rules").page
    expect(page.get_by_role("heading", name="Rules", exact=True)).to_be_focused()
    page.get_by_role("link", name="New rule").click()
    page.get_by_label("Id", exact=True).fill("warm")
    _write_wrong_and_right(page)
    _try(page)
    page.get_by_role("button", name="Add an action").click()
    page.get_by_label("Topic", exact=True).fill("hall_alerts/#")
    page.get_by_label("Payload", exact=True).fill("${t} ${c}")
    admin.check_access()
    admin.check_width()
    page.get_by_role("button", name="Make the rule").click()
    expect(page.get_by_text("holds a wildcard")).to_be_visible()
    admin.expected_errors.append("400")
    page.get_by_label("Topic", exact=True).fill("hall_alerts/${c}")
    page.get_by_role("button", name="Make the rule").click()
    expect(page.get_by_role("heading", name="Rule warm")).to_be_focused()
    station.publish("halls/1/climate", b'{"temp": 31}', 1)
    assert listener.messages(1) == [("hall_alerts/station", b"31 station")]
    station.publish("halls/1/climate", b'{"temp": 3}', 1)
    station.publish("halls/1/climate", b"cold", 1)
    expect(_number(page, "Matched")).to_contain_text("3")
    expect(_number(page, "Gave none")).to_contain_text("1")
    expect(page.get_by_text("not valid JSON")).to_be_visible()
    theirs = managed.api.get("/rules/warm").json()
    assert managed.api.put("/rules/warm", json={**theirs, "description": "theirs"}).status_code == 200
    page.get_by_label("SQL").fill('SELECT payload.temp * 10 AS t, clientid AS c FROM "halls/+/climate"')
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Another user has changed description")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("The rule warm is saved.")).to_be_visible()
    station.publish("halls/1/climate", b'{"temp": 2}', 1)
    assert listener.messages(1) == [("hall_alerts/station", b"20 station")]
    page.get_by_role("button", name="On a stored message").click()
    page.get_by_role("button", name="Search").click()
    page.get_by_role("row").filter(has_text='{"temp": 31}').get_by_role("button", name="Try on it").click()
    expect(page.locator(".outcome")).to_contain_text('"t": 310')
    _switch_and_delete(admin, managed, page)


def _write_wrong_and_right(page: Page) -> None:
    sql = page.get_by_label("SQL")
    expect(page.get_by_label("clientid")).to_be_visible()  # the node has told its functions and events
    sql.fill('SELECT payload.temp AS t\nFROM FROM "halls/+/climate"')
    expect(page.get_by_text("Line 2, column 6: unexpected FROM")).to_be_visible()
    expect(page.locator("mark")).to_have_text("FROM")
    sql.fill("SELECT payload.temp AS t, clie")
    sql.press("End")
    sql.press_sequentially("n")
    expect(page.get_by_role("option").first).to_contain_text("clientid")
    sql.press("Tab")
    expect(sql).to_have_value("SELECT payload.temp AS t, clientid")
    sql.press_sequentially(' AS c\nFROM "halls/+/climate"\nWHERE payload.temp > 30')
    expect(page.get_by_text("payload.temp has the kind that each payload gives it").first).to_be_visible()


def _try(page: Page) -> None:
    page.get_by_label("payload", exact=True).fill('{"temp": 31}')
    page.get_by_role("button", name="Try the rule").click()
    expect(page.get_by_text('"c": "rule-test"')).to_be_visible()


def _number(page: Page, name: str) -> Locator:
    return page.locator(".number").filter(has_text=name)


def _switch_and_delete(admin: Dashboard, managed: ManagedNode, page: Page) -> None:
    admin.open("rules")
    row = page.get_by_role("row").filter(has_text="warm")
    expect(row).to_contain_text("enabled")
    admin.check_access()
    page.get_by_role("button", name="Disable warm").click()
    expect(row).to_contain_text("disabled")
    assert managed.api.get("/rules/warm").json()["enable"] is False
    page.get_by_role("button", name="Delete warm").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete warm").click()
    expect(page.get_by_text("The rule warm is deleted.")).to_be_visible()
    expect(row).to_have_count(0)
    assert managed.api.get("/rules/warm").status_code == 404

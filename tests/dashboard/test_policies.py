"""Schemas, validations and transformations in the dashboard: what is made there happens to messages."""

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

_SCHEMA = '{"type": "object", "required": ["temp"]}'


@pytest.fixture
def peers(admin: Dashboard, managed: ManagedNode) -> Iterator[Peers]:
    with Peers(managed) as made:
        yield made
    admin.leave()
    for name in ("has_temp", "cold"):
        managed.api.delete(f"/schema_validations/validation/{name}")
    managed.api.delete("/message_transformations/transformation/by_room")
    managed.api.delete("/schema_registry/climate")


def test_a_schema_checks_payloads_and_a_validation_messages(
    admin: Dashboard, managed: ManagedNode, peers: Peers
) -> None:
    listener, station = peers.connect("listener"), peers.connect("station")
    listener.subscribe("cellars/#")
    page = admin.open("schemas").page
    _make_schema(admin, page)
    admin.open("schema_validations")
    page.get_by_role("link", name="New validation").click()
    page.get_by_label("Name", exact=True).fill("has_temp")
    page.get_by_label("Topic filters").fill("cellars/+/climate")
    page.get_by_label("Check 1", exact=True).select_option("json")
    page.get_by_label("Schema", exact=True).select_option("climate")
    page.get_by_role("button", name="Add a check").click()
    page.get_by_label("Check 2", exact=True).select_option("sql")
    page.get_by_label("SQL without FROM").fill("SELECT payload.temp AS t WHERE")
    page.get_by_role("button", name="Make the validation").click()
    expect(page.get_by_text("the rule ends too early")).to_be_visible()
    page.get_by_label("SQL without FROM").fill("SELECT payload.temp AS t WHERE t < 100")
    admin.check_access()
    page.get_by_role("button", name="Make the validation").click()
    expect(page.get_by_role("heading", name="Validation has_temp")).to_be_focused()
    theirs = managed.api.get("/schema_validations/validation/has_temp").json()
    assert managed.api.put("/schema_validations", json={**theirs, "description": "theirs"}).status_code == 200
    page.get_by_label("Description").fill("ours")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Another user has changed description")
    with page.expect_response(lambda answer: answer.request.method == "PUT") as saved:
        page.get_by_role("button", name="Save").click()
    assert saved.value.ok
    assert managed.api.get("/schema_validations/validation/has_temp").json()["description"] == "ours"
    for payload in (b'{"hum": 1}', b'{"temp": 200}', b'{"temp": 20}'):
        station.publish("cellars/1/climate", payload, 1)
    assert listener.messages(1) == [("cellars/1/climate", b'{"temp": 20}')]
    _try_validation(admin, managed, page)
    second = {"name": "cold", "topics": ["x/#"], "checks": [{"type": "sql", "sql": "SELECT * WHERE qos < 3"}]}
    assert managed.api.post("/schema_validations", json=second).status_code == 201
    _reorder_and_delete(admin, managed, page)


def _make_schema(admin: Dashboard, page: Page) -> None:
    admin.expected_errors.append("400")
    page.get_by_role("link", name="New schema").click()
    page.get_by_label("Name", exact=True).fill("climate")
    page.get_by_label("Source").fill("{")
    page.get_by_role("button", name="Make the schema").click()
    expect(page.get_by_text("not valid JSON")).to_be_visible()
    page.get_by_label("Source").fill(_SCHEMA)
    page.get_by_role("button", name="Make the schema").click()
    expect(page.get_by_role("heading", name="Schema climate")).to_be_focused()
    page.get_by_label("Payload", exact=True).fill('{"hum": 1}')
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("It does not fit.")).to_be_visible()
    page.get_by_label("Payload", exact=True).fill('{"temp": 1}')
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("It fits.")).to_be_visible()
    admin.check_access()


def _try_validation(admin: Dashboard, managed: ManagedNode, page: Page) -> None:
    """Try what is edited and not saved on a message that is typed, and on stored ones."""
    sql, outcome = page.get_by_label("SQL without FROM"), page.locator(".outcome")
    sql.fill("SELECT payload.temp AS t WHERE t < 100 AND")
    page.get_by_label("Topic", exact=True).fill("cellars/1/climate")
    page.get_by_label("Payload", exact=True).fill('{"hum": 1}')
    page.get_by_role("button", name="Try it").click()
    expect(outcome.get_by_role("alert")).to_contain_text("checks.2.sql: ")
    expect(page.locator("form .wrong")).to_contain_text("the rule ends too early")
    sql.fill("SELECT payload.temp AS t WHERE t < 100 AND pub_props.'User-Property'.site = 'north'")
    page.get_by_role("button", name="Try it").click()
    expect(outcome).to_contain_text("It fails. The message is dropped.")
    expect(outcome.get_by_role("row").nth(1)).to_contain_text('"temp" is a required property')
    expect(page.locator("form .wrong")).to_have_text("")
    admin.check_access()
    admin.check_width()
    properties = {"user_properties": {"site": "north"}}
    message = {"topic": "cellars/2/climate", "payload": '{"temp": 5}', "qos": 1, "properties": properties}
    assert managed.api.post("/publish", json=message).status_code == 200
    page.get_by_role("button", name="On a stored message").click()
    page.get_by_role("button", name="Search").click()
    for payload, said in (('{"temp": 5}', "It passes. The message goes on."), ('{"temp": 20}', "It fails.")):
        row = page.get_by_role("region", name="Stored messages").get_by_role("row").filter(has_text=payload)
        row.get_by_role("button", name="Try on it").click()
        expect(outcome).to_contain_text(said)
    expect(outcome.get_by_role("row").nth(2)).to_contain_text("the SQL selects nothing")


def _reorder_and_delete(admin: Dashboard, managed: ManagedNode, page: Page) -> None:
    admin.open("schema_validations")
    row = page.get_by_role("row").filter(has_text="has_temp")
    expect(row.get_by_role("cell").nth(5)).to_have_text("2")  # and no trial
    page.get_by_role("button", name="Move down has_temp").click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("cold")
    assert [one["name"] for one in managed.api.get("/schema_validations").json()] == ["cold", "has_temp"]
    page.get_by_role("button", name="Disable has_temp").click()
    expect(row).to_contain_text("disabled")
    admin.open("schemas")
    page.get_by_role("button", name="Delete climate").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete climate").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("climate")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    admin.open("schema_validations")
    page.get_by_role("button", name="Delete has_temp").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete has_temp").click()
    expect(page.get_by_text("has_temp is deleted.")).to_be_visible()


def test_a_transformation_is_tried_and_changes_messages(admin: Dashboard, managed: ManagedNode, peers: Peers) -> None:
    listener, station = peers.connect("listener"), peers.connect("station")
    listener.subscribe("cellars/#")
    page = admin.open("message_transformations").page
    page.get_by_role("link", name="New transformation").click()
    page.get_by_label("Name", exact=True).fill("by_room")
    page.get_by_label("Topic filters").fill("raw/#")
    page.get_by_label("Set (1)").fill("topic")
    page.get_by_label("To (1)").fill("concat(['cellars/', clientid")
    page.get_by_role("button", name="Make the transformation").click()
    expect(page.get_by_text("the expression ends too early")).to_be_visible()
    admin.expected_errors.append("400")
    page.get_by_label("To (1)").fill("concat(['cellars/', clientid])")
    page.get_by_label("Topic", exact=True).fill("raw/1")
    page.get_by_label("Client id").fill("kitchen")
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_text("cellars/kitchen")).to_be_visible()
    admin.check_access()
    admin.check_width()
    page.get_by_role("button", name="Make the transformation").click()
    expect(page.get_by_role("heading", name="Transformation by_room")).to_be_focused()
    station.publish("raw/1", b"warm", 1)
    assert listener.messages(1) == [("cellars/station", b"warm")]
    expect(page.locator(".number").filter(has_text="Succeeded")).to_contain_text("1")
    assert managed.api.get("/message_transformations/transformation/by_room").json()["topics"] == ["raw/#"]
    page.get_by_label("To (1)").fill("concat(['halls/', clientid])")
    page.get_by_role("button", name="On a stored message").click()
    page.get_by_label("Topic filter", exact=True).fill("cellars/station")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("row").filter(has_text="warm").get_by_role("button", name="Try on it").click()
    expect(page.locator(".outcome")).to_contain_text("halls/station")

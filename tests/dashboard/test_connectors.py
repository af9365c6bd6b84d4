"""Connectors and actions in the dashboard: tested before they are saved, shown with their state, deleted by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.browser import Dashboard, expect
from support.managed_clients import Peers
from support.management import ManagedNode
from support.webhook import Answer, Webhook, webhook

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.service


@pytest.fixture
def service(admin: Dashboard, managed: ManagedNode) -> Iterator[Webhook]:
    with webhook() as started:
        yield started
    admin.leave()
    managed.api.delete("/rules/to_web")
    for name in ("web", "spare"):
        managed.api.delete(f"/connectors/http:{name}", params={"also_delete_dep_actions": True})


def test_a_connector_and_an_action_are_tested_made_and_deleted_by_name(
    admin: Dashboard, managed: ManagedNode, service: Webhook
) -> None:
    page = admin.open("connectors").page
    page.get_by_role("link", name="New connector").click()
    expect(page.get_by_role("heading", name="New connector")).to_be_focused()
    page.get_by_label("Name", exact=True).fill("web")
    page.get_by_role("button", name="Test").click()
    expect(page.get_by_text("is missing, expected a URL")).to_be_visible()
    admin.expected_errors.append("400")
    page.get_by_label("url", exact=True).fill("http://127.0.0.1:1")
    page.get_by_role("button", name="Test").click()
    expect(page.get_by_text("127.0.0.1:1: Connection refused")).to_be_visible()
    page.get_by_label("url", exact=True).fill(service.url)
    page.get_by_role("button", name="Test").click()
    expect(page.get_by_text("The test succeeded")).to_be_visible()
    admin.check_access()
    admin.check_width()
    page.get_by_role("button", name="Make the connector").click()
    expect(page.get_by_role("heading", name="Connector http:web")).to_be_focused()
    _save_behind_another(admin, managed, page)
    _make_action(admin, managed, service, page)
    _follow_the_data(admin, managed, service, page)
    _replay_its_letters(admin, service, page)
    _delete_both(admin, managed, page)


def _save_behind_another(admin: Dashboard, managed: ManagedNode, page: Page) -> None:
    url = page.get_by_label("url", exact=True)
    ours = f"{url.input_value()}/ours"
    settings = {"url": url.input_value(), "description": "theirs"}
    assert managed.api.put("/connectors/http:web", json=settings).status_code == 200
    url.fill(ours)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Another user has changed description")
    assert managed.api.get("/connectors/http:web").json()["description"] == "theirs"
    with page.expect_response(lambda answer: answer.request.method == "PUT") as saved:
        page.get_by_role("button", name="Save").click()
    assert saved.value.ok
    assert managed.api.get("/connectors/http:web").json()["url"] == ours


def _make_action(admin: Dashboard, managed: ManagedNode, service: Webhook, page: Page) -> None:
    """In three steps, with another connector, columns of a new rule, a row, and a name that is refused first."""
    admin.open("actions").page.get_by_role("link", name="New action").click()
    name, make = page.get_by_label("Name", exact=True).first, page.get_by_role("button", name="Make the action")
    name.fill("a hook")
    page.get_by_text("A new connector of type http").click()
    page.get_by_label("Name", exact=True).last.fill("spare")
    page.get_by_label("url", exact=True).fill(service.url)
    page.get_by_role("button", name="Make the connector").click()
    expect(page.get_by_label("Connector", exact=True)).to_have_value("spare")
    page.get_by_label("Connector", exact=True).select_option("web")
    admin.check_access()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("heading", name="Parameters")).to_be_focused()
    page.get_by_label("Rows of").select_option("new")
    page.get_by_label("Id", exact=True).fill("to_web")
    page.get_by_label("SQL").fill('SELECT payload.msg AS words, clientid FROM "w/#"')
    path = page.get_by_label("path", exact=True)
    path.fill("/rows/")
    page.get_by_role("button", name="Put ${clientid} into the field").click()
    expect(path).to_have_value("/rows/${clientid}")
    admin.check_access()
    admin.check_width()
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="A row of the rule's sample message").click()
    sent = page.get_by_role("region", name="What the templates make of it")
    expect(sent).to_contain_text("/rows/rule-test")
    page.get_by_role("button", name="Test").click()
    expect(page.get_by_text("The test succeeded")).to_be_visible()
    admin.check_access()
    admin.check_phone()
    make.click()
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text('"a hook" is no valid name')).to_be_visible()
    name.fill("hook")
    page.get_by_role("button", name="3. A row, and the rule").click()
    make.click()
    expect(page.get_by_role("heading", name="Action http:hook")).to_be_focused()
    assert managed.api.get("/rules/to_web").json()["actions"] == ["http:hook"]
    expect(page.get_by_label("path", exact=True)).to_have_value("/rows/${clientid}")
    expect(page.get_by_role("region").or_(page.locator(".number")).filter(has_text="Written").first).to_be_visible()
    admin.check_access()


def _follow_the_data(admin: Dashboard, managed: ManagedNode, service: Webhook, page: Page) -> None:
    """From the topic to the target, by the keyboard; what fails says so, and leaves the picture when it works."""
    admin.open("data_flow")
    for name in ("Topic w/#", "Rule to_web", "Action hook", "Connector web", "Target 127.0.0.1"):
        expect(page.get_by_role("link", name=name).first).to_be_visible()
    action = page.get_by_role("link", name="Action hook")
    expect(action).to_contain_text("connected")
    service.answer = lambda request: Answer(400)
    with Peers(managed) as peers:
        peers.connect("station").publish("w/1", b'{"msg": "hello"}', 1)
        expect(action).to_contain_text("has failed")
    admin.check_access()
    admin.check_width()
    page.get_by_label("Only what fails").check()
    expect(action).to_be_visible()
    managed.api.put("/actions/http:hook/enable/false")
    expect(page.get_by_text("Nothing fits the search.")).to_be_visible()  # the stream has brought it
    managed.api.put("/actions/http:hook/enable/true")
    page.get_by_label("Search").fill("no such name")
    page.get_by_label("Search").press("Enter")
    expect(action).to_have_count(0)
    page.get_by_label("Search").fill("TO_W")
    page.get_by_label("Search").press("Enter")
    action.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Action http:hook")).to_be_focused()


def _replay_its_letters(admin: Dashboard, service: Webhook, page: Page) -> None:
    """From its page, on a node that runs no pipeline."""
    page.get_by_role("link", name="Show its dead letters").click()
    expect(page.get_by_role("row").filter(has_text="hello")).to_be_visible()
    admin.check_access()
    service.answer = lambda request: Answer()
    page.get_by_role("button", name="Replay http:hook").click()
    page.get_by_role("dialog").get_by_role("button", name="Replay http:hook").click()
    expect(page.get_by_text("1 letter replayed, 1 row written, 0 letters stay.")).to_be_visible()
    assert service.requests[-1].path == "/ours/rows/station"


def _delete_both(admin: Dashboard, managed: ManagedNode, page: Page) -> None:
    admin.open("actions")
    row = page.get_by_role("row").filter(has_text="hook")
    expect(row).to_contain_text("to_web")
    page.get_by_role("button", name="Disable hook").click()
    expect(row).to_contain_text("disabled")
    assert managed.api.get("/actions/http:hook").json()["enable"] is False
    managed.api.put("/actions/http:hook/enable/true")
    expect(row).not_to_contain_text("disabled")  # the stream has brought it
    admin.open("connectors")
    page.get_by_role("button", name="Delete web").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("http:hook")
    expect(dialog.get_by_role("button", name="Delete http:web")).to_be_disabled()
    dialog.get_by_label("Type web to confirm").fill("web")
    dialog.get_by_role("button", name="Delete http:web").click()
    expect(page.get_by_text("http:web is deleted.")).to_be_visible()
    assert managed.api.get("/actions/http:hook").status_code == 404


def test_a_source_is_made_and_drawn_where_its_messages_come_from(admin: Dashboard, managed: ManagedNode) -> None:
    """Of this node itself, which is an MQTT broker as any other."""
    server = f"127.0.0.1:{managed.node.port}"
    managed.api.post("/connectors", json={"type": "mqtt", "name": "origin", "server": server})
    page = admin.open("sources").page
    page.get_by_role("link", name="New source").click()
    page.get_by_label("Type").select_option("mqtt")
    page.get_by_label("Name", exact=True).fill("in")
    page.get_by_label("Connector", exact=True).select_option("origin")
    page.get_by_role("button", name="Make the source").click()
    admin.expected_errors.append("400")
    expect(page.locator('[data-path="parameters.topic"]')).to_contain_text("is missing")
    page.locator('[data-path="parameters.topic"] input').fill("origin/#")
    page.get_by_role("button", name="Make the source").click()
    expect(page.get_by_role("heading", name="Source mqtt:in")).to_be_focused()
    expect(page.get_by_text("connected", exact=True)).to_be_visible()
    admin.check_access()
    rule = {"id": "of_source", "sql": 'SELECT * FROM "$sources/mqtt:in"', "actions": [{"function": "console"}]}
    assert managed.api.post("/rules", json=rule).is_success
    admin.open("data_flow")
    expect(page.get_by_role("link", name="Source mqtt:in: connected")).to_be_visible()
    expect(page.get_by_role("link", name="Rule of_source")).to_be_visible()
    managed.api.delete("/rules/of_source")
    admin.open("sources")
    page.get_by_role("button", name="Delete in").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete mqtt:in").click()
    expect(page.get_by_text("mqtt:in is deleted.")).to_be_visible()
    managed.api.delete("/connectors/mqtt:origin")

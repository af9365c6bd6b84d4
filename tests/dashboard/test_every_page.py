"""Each page: opens once, without errors, with its heading and its data; can be read; asks what its user may."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from heliograph.management.dashboard.page import ROOT
from support.browser import Dashboard, expect
from support.managed_clients import Peers
from support.management import ManagedNode

# Some forty pages, each looked through.
pytestmark = [pytest.mark.service, pytest.mark.timeout(600)]

NODE = "heliograph@127.0.0.1"
# By its address: the heading of a page, and what it shows of the scene.
PAGES = {
    "overview": ("Overview", NODE),
    f"node/{NODE}": (NODE, "tcp:default"),
    "clients": ("Clients", "meter-1"),
    "subscriptions": ("Subscriptions", "commands/meter-1/#"),
    "message_way": ("Follow a message", "Begin to record"),
    "alarms": ("Alarms", "No alarm is open."),
    "diagnose": ("Diagnose", "the search for slow subscriptions is off"),
    "topics": ("Topics", "meters"),
    "topics/tail": ("Topics", "Not watching"),
    "retained": ("Retained messages", "meters/1/power"),
    "delayed": ("Delayed messages", "No message waits."),
    "history?span=all": ("History", "meters/1/power"),
    "history/storage": ("History", "What messages holds"),
    "data_flow": ("Data flow", "There is no rule, action or connector yet."),
    "rules": ("Rules", "New rule"),
    "rule": ("New rule", "Make the rule"),
    "time_machine": ("Time machine", "Run it"),
    "connectors": ("Connectors", "There is no connector yet."),
    "connector": ("New connector", "Make the connector"),
    "actions": ("Actions", "There is no action yet."),
    "action": ("New action", "Type and target"),
    "sources": ("Sources", "There is no source yet."),
    "source": ("New source", "Make the source"),
    "pipeline": ("Pipeline", "pipeline"),
    "schemas": ("Schemas", "There is no schema yet."),
    "schema": ("New schema", "Make the schema"),
    "schema_validations": ("Schema validation", "There is no validation yet."),
    "schema_validation": ("New validation", "Make the validation"),
    "message_transformations": ("Message transformation", "There is no transformation yet."),
    "message_transformation": ("New transformation", "Make the transformation"),
    "authentication": ("Authentication", "No authenticator: everybody may connect."),
    "mqtt_users": ("MQTT users", "The node keeps no users yet."),
    "authorization": ("Authorization", "file"),
    "explain": ("May a client …", "Ask"),
    "bans": ("Bans", "There are no bans."),
    "listeners": ("Listeners", "tcp:default"),
    "configuration": ("Configuration", "Search all settings"),
    "backups": ("Backups", "none: set backup.place"),
    "mqtt_client": ("MQTT client", "Connect"),
    "traces": ("Traces", "There is no trace."),
    "api": ("API", "operations"),
    "users": ("Users", "admin"),
    "api_keys": ("API keys", "first-key"),
    "account": ("My login", "admin"),
    "audit": ("Audit log", "admin"),
}
_NAMES = re.findall(r'\{ path: "(\w+)"', (ROOT / "pages" / "map.js").read_text())
_VIEWER, _PASSWORD = "vincent", "looks-1-only"


@pytest.fixture(scope="module")
def scene(managed: ManagedNode) -> Iterator[None]:
    """Something that pages can show."""
    with Peers(managed) as peers:
        meter = peers.connect("meter-1", username="ann")
        meter.subscribe("commands/meter-1/#", 1)
        meter.publish("meters/1/power", b'{"watts": 12}', 1, retain=True)
        yield
        meter.publish("meters/1/power", b"", 1, retain=True)


@pytest.fixture
def viewer(managed: ManagedNode, guest: Dashboard) -> Iterator[Dashboard]:
    """The dashboard, with a user who may look logged in."""
    users = f"{managed.url}/api/v5/users"
    with managed.client() as client:
        token = client.post("/login", json={"username": "admin", "password": "first-password-1"}).json()["token"]
        client.headers["authorization"] = f"Bearer {token}"
        made = client.post(users, json={"username": _VIEWER, "password": _PASSWORD, "role": "viewer"})
        assert made.status_code == 200, made.text
        yield guest.log_in(_VIEWER, _PASSWORD)
        guest.forget()
        client.delete(f"{users}/{_VIEWER}")


def test_every_page_is_named_here() -> None:
    assert list(dict.fromkeys(re.split(r"[/?]", address)[0] for address in PAGES)) == _NAMES


def test_every_page_shows_its_data_and_can_be_read(admin: Dashboard, scene: None) -> None:
    """On a wide screen in the light, and on a phone in the dark, with axe."""
    for address, (title, data) in PAGES.items():
        page = admin.open(address).page
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        expect(page.locator("main")).to_contain_text(data)
        admin.is_loaded()
        if address == "api":  # the one page with hundreds of like things
            page.get_by_label("Search").fill("banned")
            expect(page.get_by_text("/rule_engine", exact=True)).to_have_count(0)
        admin.check_access("body")
        admin.check_width()
        admin.check_phone()


def test_a_viewer_is_offered_what_viewers_may_see(viewer: Dashboard, scene: None) -> None:
    page = viewer.page
    menu = page.get_by_role("navigation", name="Menu").get_by_role("link")
    expect(menu.first).to_be_visible()
    links = [link.get_attribute("href") or "" for link in menu.all()]
    assert len(links) > len(_NAMES) / 2
    for link in links:
        viewer.open(link.removeprefix("#/")).is_loaded()
    for address in ("clients/meter-1", "clients?text=meter", "traces"):
        viewer.open(address).is_loaded()
        expect(page.get_by_role("button", name="Refresh")).to_be_visible()
        expect(page.get_by_role("button", name=re.compile("^(Kick|Ban|New trace)"))).to_have_count(0)

"""Each page of the menu: is readable in both colour schemes, fits a phone and a wide screen, asks what its user may."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from heliograph.management.dashboard.files import ROOT
from support.browser import Dashboard
from support.managed_clients import Peers
from support.management import ManagedNode

# Some forty pages, each looked through.
pytestmark = [pytest.mark.service, pytest.mark.timeout(600)]

PAGES = re.findall(r'\{ path: "(\w+)"', (ROOT / "pages" / "map.js").read_text())
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


@pytest.fixture(scope="module")
def viewer(managed: ManagedNode) -> Iterator[tuple[str, str]]:
    """A user who may look."""
    users = f"{managed.url}/api/v5/users"
    with managed.client() as client:
        token = client.post("/login", json={"username": "admin", "password": "first-password-1"}).json()["token"]
        client.headers["authorization"] = f"Bearer {token}"
        made = client.post(users, json={"username": _VIEWER, "password": _PASSWORD, "role": "viewer"})
        assert made.status_code == 200, made.text
        yield _VIEWER, _PASSWORD
        client.delete(f"{users}/{_VIEWER}")


@pytest.mark.parametrize(
    ("scheme", "width", "every"),
    [
        ("light", 1400, 1),
        ("dark", 360, 4),
        pytest.param("dark", 360, 1, marks=pytest.mark.long),
    ],
)
def test_every_page_can_be_read(
    browser: Browser, managed: ManagedNode, scene: None, scheme: str, width: int, every: int
) -> None:
    """Axe looks at each page, or at every fourth one where it looks at all of them in another test."""
    with Dashboard(browser, managed, scheme, width) as dashboard:
        page = dashboard.log_in().page
        for number, name in enumerate(PAGES):
            dashboard.open(name)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            expect(page.get_by_text("Loading …")).to_have_count(0)
            if number % every == 0:
                dashboard.check_access()
            dashboard.check_width()
            assert page.get_by_role("alert").all_inner_texts() == [], name


def test_a_viewer_is_offered_what_viewers_may_see(
    browser: Browser, managed: ManagedNode, scene: None, viewer: tuple[str, str]
) -> None:
    with Dashboard(browser, managed).log_in(*viewer) as dashboard:
        page = dashboard.page
        menu = page.get_by_role("navigation", name="Menu").get_by_role("link")
        for link in [link.get_attribute("href") or "" for link in menu.all()]:
            dashboard.open(link.removeprefix("#/"))
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            expect(page.get_by_text("Loading …")).to_have_count(0)
            assert page.get_by_role("alert").all_inner_texts() == [], link
        for address in ("clients/meter-1", "clients?text=meter", "traces"):
            dashboard.open(address)
            expect(page.get_by_text("Loading …")).to_have_count(0)
            expect(page.get_by_role("button", name="Refresh")).to_be_visible()
            expect(page.get_by_role("button", name=re.compile("^(Kick|Ban|New trace)"))).to_have_count(0)

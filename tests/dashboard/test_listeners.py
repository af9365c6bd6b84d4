"""The page of listeners: one is made, changed, stopped, started and deleted, and clients notice."""

from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from support.browser import Dashboard, expect
from support.certificates import Authority
from support.management import ManagedNode
from support.waiting import wait_until

pytestmark = pytest.mark.service

LISTENER = "ssl:secure"


@pytest.fixture
def as_before(admin: Dashboard, managed: ManagedNode) -> Iterator[None]:
    """The listener of the test is gone after it."""
    yield
    admin.leave()
    managed.api.delete(f"/listeners/{LISTENER}")


@pytest.mark.usefixtures("as_before")
def test_a_listener_begins_changes_and_ends(admin: Dashboard, managed: ManagedNode, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = str(authority.server())
    page = admin.open("listeners").page
    dialog = page.get_by_role("dialog")
    admin.expected_errors.append("400")
    page.get_by_role("button", name="New listener").click()
    dialog.get_by_label("Type", exact=True).select_option("ssl")
    dialog.get_by_label("Name", exact=True).fill("secure")
    dialog.get_by_label("bind", exact=True).fill("127.0.0.1:0")
    dialog.get_by_role("button", name="New listener").click()
    expect(dialog.locator("[data-path='ssl_options.certfile'] .wrong")).to_contain_text("needs a certificate")
    dialog.get_by_label("certfile", exact=True).fill(certificate)
    dialog.get_by_label("keyfile", exact=True).fill(certificate)
    admin.check_access()
    dialog.get_by_role("button", name="New listener").click()
    row = page.get_by_role("row").filter(has_text=LISTENER)
    expect(row).to_contain_text("accepting")
    expect(row).to_contain_text("until ")

    shown = next(one for one in managed.api.get("/listeners").json() if one["id"] == LISTENER)
    client = paho.Client(CallbackAPIVersion.VERSION2, "secure-1", reconnect_on_failure=False)
    client.tls_set_context(authority.context())
    client.connect("127.0.0.1", int(shown["address"].rpartition(":")[2]))
    client.loop_start()
    try:
        wait_until(client.is_connected, "the client is let in")
        page.get_by_role("button", name=f"Change {LISTENER}").click()
        dialog.get_by_label("max_connections", exact=True).fill("5")
        dialog.get_by_role("button", name="Save").click()
        expect(row).to_contain_text("1 of 5")
        page.get_by_role("button", name=f"Stop {LISTENER}").click()
        dialog.get_by_role("button", name=f"Stop {LISTENER}").click()
        expect(row).to_contain_text("switched off")
        wait_until(lambda: not client.is_connected(), "the connection is ended")
    finally:
        client.disconnect()
        client.loop_stop()
    page.get_by_role("button", name=f"Start {LISTENER}").click()
    expect(row).to_contain_text("accepting")
    page.get_by_role("button", name=f"Delete {LISTENER}").click()
    dialog.get_by_label(f"Type {LISTENER} to confirm").fill(LISTENER)
    dialog.get_by_role("button", name=f"Delete {LISTENER}").click()
    expect(row).to_have_count(0)
    assert LISTENER not in [one["id"] for one in managed.api.get("/listeners").json()]

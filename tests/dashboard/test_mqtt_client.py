"""The MQTT client of the dashboard: what it sends other clients get, and what they publish it shows."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from heliograph.management.asking.websockets import WebSocketPlace
from heliograph.management.dashboard.page import policy_of
from support.browser import Dashboard, expect
from support.managed_clients import Peers
from support.management import ManagedNode

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.service


def connect(page: Page, clientid: str) -> None:
    page.get_by_label("Client id").fill(clientid)
    page.get_by_role("button", name="Connect", exact=True).click()


def subscribe(page: Page, topic: str, name: str = "") -> None:
    card = page.get_by_role("region", name="Subscriptions").first
    card.get_by_label("Topic filter").fill(topic)
    card.get_by_label("Name").fill(name)
    card.get_by_role("button", name="Subscribe", exact=True).click()


def test_it_speaks_mqtt_with_other_clients(admin: Dashboard, managed: ManagedNode, peers: Peers) -> None:
    page = admin.open("mqtt_client").page
    expect(page.get_by_label("Address")).to_have_value(re.compile(r"^ws://127\.0\.0\.1:\d+/mqtt$"))
    peer = peers.connect("mqtt-page-peer")
    peer.subscribe("mqtt-page/#", 1)
    connect(page, "mqtt-page")
    expect(page.get_by_text("Connected as mqtt-page to ws:")).to_be_visible()
    assert managed.api.get("/clients/mqtt-page").json()["proto_ver"] == 5
    subscribe(page, "from-peer/+", "his <b>answers</b>")
    expect(page.get_by_text("granted with QoS 1")).to_be_visible()

    card = page.get_by_role("region", name="Publish")
    card.get_by_label("Topic", exact=True).fill("mqtt-page/a")
    card.get_by_label("Payload", exact=True).fill("{1}")
    card.get_by_label("Format").select_option("json")
    card.get_by_role("button", name="Publish").click()
    expect(card.get_by_role("alert")).to_contain_text("This is no JSON")
    card.get_by_label("Payload", exact=True).fill('{"a": 1}')
    card.get_by_text("Properties of MQTT 5").click()
    card.get_by_label("Content type").fill("application/json")
    card.get_by_label("User properties").fill("site: north")
    card.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Published to mqtt-page/a")).to_be_visible()
    (message,) = peer.packets(1)
    assert (message.topic, json.loads(message.payload)) == ("mqtt-page/a", {"a": 1})
    assert (message.properties.ContentType, message.properties.UserProperty) == (
        "application/json",
        [("site", "north")],
    )

    peer.publish("from-peer/x", b"<b>bold</b>", 1)
    peer.publish("from-peer/y", b"\x00\xff", 1)
    shown = page.get_by_role("region", name="Messages").get_by_role("listitem")
    expect(shown.filter(has_text="from-peer/x")).to_contain_text("<b>bold</b>")
    expect(shown.filter(has_text="from-peer/y")).to_contain_text("00 ff")
    expect(shown.filter(has_text="from-peer/y")).to_contain_text("his <b>answers</b>")
    page.get_by_role("button", name="Pause").click()
    peer.publish("from-peer/z", b"while it stands still", 1)
    expect(page.get_by_text("1 more came since the pause")).to_be_visible()
    page.get_by_role("button", name="Go on").click()
    expect(shown.filter(has_text="while it stands still")).to_be_visible()
    page.get_by_label("Topic or payload has").fill("bold")
    expect(shown).to_have_count(1)
    page.get_by_label("Topic or payload has").fill("")
    admin.check_access()

    managed.api.delete("/clients/mqtt-page")
    expect(page.get_by_role("alert")).to_contain_text("The broker ended the connection: Administrative action (0x98)")


def test_examples_are_kept_in_the_browser_without_passwords(admin: Dashboard) -> None:
    page = admin.open("mqtt_client").page
    page.reload()
    page.get_by_label("Client id").fill("kept-id")
    page.get_by_label("Password").fill("kept-secret")
    subscribe(page, "kept/#")
    page.get_by_label("Save as").fill("my example")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved as my example")).to_be_visible()
    assert "kept-secret" not in page.evaluate("JSON.stringify(localStorage)")
    page.reload()
    page.get_by_role("button", name="Load my example").click()
    expect(page.get_by_label("Client id")).to_have_value("kept-id")
    expect(page.get_by_role("row").filter(has_text="kept/#")).to_be_visible()
    expect(page.get_by_label("Password")).to_have_value("")
    page.get_by_role("button", name="Delete my example").click()
    expect(page.get_by_role("button", name="Load my example")).to_have_count(0)


def test_it_says_why_it_cannot_connect(admin: Dashboard, managed: ManagedNode) -> None:
    admin.expected_errors += ["WebSocket", "Content Security Policy"]
    page = admin.open("mqtt_client").page
    page.reload()
    expect(page.get_by_label("Address")).not_to_have_value("")
    assert managed.api.post("/banned", json={"as": "clientid", "who": "mqtt-page-banned"}).is_success
    connect(page, "mqtt-page-banned")
    expect(page.get_by_role("alert")).to_contain_text("The broker refused the connection: Banned (0x8a)")
    managed.api.delete("/banned/clientid/mqtt-page-banned")
    listener = page.get_by_label("Address").input_value()
    page.get_by_label("Address").fill(listener.replace("/mqtt", "/elsewhere"))
    connect(page, "mqtt-page-lost")
    expect(page.get_by_role("alert")).to_contain_text("No answer from")
    page.get_by_label("Address").fill("ws://127.0.0.1:1/mqtt")
    connect(page, "mqtt-page-lost")
    expect(page.get_by_role("alert")).to_contain_text("only to WebSocket listeners of the node")


def test_the_policy_of_the_page_names_its_listeners_and_no_more(managed: ManagedNode) -> None:
    (place,) = managed.api.get("/heliograph/websockets").json()
    assert (place["id"], place["scheme"], place["path"]) == ("ws:default", "ws", "/mqtt")
    page = managed.api.get(managed.url + "/")
    port, host = place["port"], urlsplit(managed.url).hostname
    assert f"connect-src 'self' ws://{host}:{port};" in page.headers["content-security-policy"]


@pytest.mark.parametrize("host", ["", "a b", "a;script-src *", "[::1]:1", "x" * 300, "a\tb", "-a"])
def test_what_is_no_name_of_a_host_stands_in_no_policy(host: str) -> None:
    places = [WebSocketPlace("wss:a", "wss", "0.0.0.0", 8084, "/mqtt")]
    assert "connect-src 'self';" in policy_of(host, places)
    assert "connect-src 'self' wss://example.org:8084;" in policy_of("example.org:18083", places)

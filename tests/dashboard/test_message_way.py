"""The page "Follow a message": recording is switched on in it, and what it tells of messages is what clients saw."""

from collections.abc import Iterator

import pytest

from support.browser import Dashboard, expect
from support.managed_clients import Peers
from support.management import ManagedNode
from support.waiting import wait_until

pytestmark = pytest.mark.service

STRICT = {
    "name": "at_least_once",
    "topics": ["strict/#"],
    "checks": [{"type": "sql", "sql": "SELECT * WHERE qos = 2"}],
    "failure_action": "drop",
}


@pytest.fixture
def peers(managed: ManagedNode) -> Iterator[Peers]:
    with Peers(managed) as made:
        yield made
    text = {"values": {"diagnose.messages.enable": "false"}}
    managed.api.post("/heliograph/configuration/change", json=text)
    managed.api.delete("/schema_validations/validation/at_least_once")


def test_a_message_is_followed_to_its_receivers(admin: Dashboard, managed: ManagedNode, peers: Peers) -> None:
    page = admin.open("message_way").page
    expect(page.get_by_role("heading", name="Follow a message")).to_be_focused()
    page.get_by_role("button", name="Begin to record").click()
    expect(page.get_by_text("Recorded are messages to #")).to_be_visible()
    lamp, sensor = peers.connect("lamp-4"), peers.connect("sensor-7", username="ann")
    slow = peers.connect("slow-1", acknowledges=False)
    slow.subscribe("slow/#", 1)
    sensor.publish("slow/1", b"x", 1)
    lamp.subscribe("followed/#", 1)
    sensor.publish("followed/1", b"21.5", 1)
    lamp.packets(1)
    wait_until(lambda: managed.api.get("/clients/lamp-4").json()["inflight_cnt"] == 0, "it is acknowledged")
    sensor.publish("unheard/1", b"x", 1)
    page.get_by_label("Topic filter").fill("followed/#/1")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("'followed/#/1' is no topic filter")).to_be_visible()
    expect(page.get_by_label("Topic filter")).to_have_value("followed/#/1")
    admin.expected_errors.append("400")
    page.get_by_label("Topic filter").fill("followed/#")
    page.get_by_role("button", name="Search").click()
    row = page.get_by_role("row").filter(has_text="followed/1")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("delivered")
    expect(page.get_by_text("unheard/1")).to_have_count(0)
    admin.check_access()
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Message to followed/1")).to_be_focused()
    expect(page.get_by_text("Delivered to 1 receiver.")).to_be_visible()
    stages = page.get_by_role("region", name="Its way through the broker")
    for text in ("by sensor-7 (user ann)", "1 subscribed topic filter matches", "1 of 1 have it"):
        expect(stages.get_by_text(text)).to_be_visible()
    receiver = page.get_by_role("row").filter(has_text="lamp-4")
    expect(receiver).to_contain_text("followed/#")
    page.get_by_label("Why did this client not get it?").fill("sensor-7")
    page.get_by_role("button", name="Ask").click()
    expect(
        page.get_by_text("sensor-7 was not among its receivers: it has no subscription that matches")
    ).to_be_visible()
    admin.check_access()
    admin.check_width()
    page.get_by_role("link", name="All messages").click()
    page.get_by_label("Client", exact=True).fill("sensor-7")
    page.get_by_role("button", name="Search").click()
    row = page.get_by_role("row").filter(has_text="unheard/1")
    expect(row).to_contain_text(
        "no subscription matches its topic, neither of a session that was there nor of one that is away"
    )
    admin.look(width=390)
    box = row.bounding_box()
    assert box is not None
    assert box["height"] < 120  # some lines, not one a word
    admin.look()
    assert managed.api.post("/schema_validations", json=STRICT).status_code == 201
    sensor.publish("strict/1", b"x", 1)
    page.get_by_role("button", name="Search").click()
    page.get_by_role("row").filter(has_text="strict/1").get_by_role("link").first.click()
    expect(page.get_by_text("refused by at_least_once").first).to_be_visible()
    page.get_by_role("link", name="The validation at_least_once").click()
    expect(page.get_by_role("heading", name="Validation at_least_once")).to_be_focused()
    admin.open("message_way?topic=slow/%23")
    row = page.get_by_role("row").filter(has_text="slow/1")
    expect(row).to_contain_text("in flight")
    row.get_by_role("link").first.click()
    expect(page.get_by_text("Sent, and acknowledged by 0 of 1 receiver")).to_be_visible()
    admin.open("message_way")
    page.get_by_label("Message id").fill("0" * 32)
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing is recorded of message")
    admin.expected_errors.append("404")
    admin.open("message_way")
    page.get_by_role("button", name="Stop recording").click()
    expect(page.get_by_role("button", name="Begin to record")).to_be_visible()


def test_the_api_lists_them_page_after_page(managed: ManagedNode, peers: Peers) -> None:
    api = managed.api
    turned_on = api.post("/heliograph/configuration/change", json={"values": {"diagnose.messages.enable": "true"}})
    assert turned_on.status_code == 200, turned_on.text
    sensor = peers.connect("sensor-8")
    for number in range(3):
        sensor.publish(f"paged/{number}", b"x", 1)
    query = {"topic": "paged/#", "limit": "2"}
    page = api.get("/heliograph/message_ways", params=query).json()
    assert [row["topic"] for row in page["data"]] == ["paged/2", "paged/1"]
    assert page["meta"]["recording"]["is_recording"] is True
    page = api.get("/heliograph/message_ways", params={**query, "cursor": page["meta"]["cursor"]}).json()
    assert [row["topic"] for row in page["data"]] == ["paged/0"]
    assert "cursor" not in page["meta"]
    way = api.get(f"/heliograph/message_ways/{page['data'][0]['id'].upper()}").json()
    assert (way["topic"], way["clientid"], way["steps"][-1]["stage"]) == ("paged/0", "sensor-8", "answer")
    for where, params, status, code in (
        ("", {"since": "yesterday"}, 400, "INVALID_PARAMETER"),
        ("", {"cursor": "x"}, 400, "BAD_REQUEST"),
        ("/nothing", {}, 400, "BAD_REQUEST"),
        (f"/{'0' * 32}", {}, 404, "NOT_FOUND"),
    ):
        answer = api.get(f"/heliograph/message_ways{where}", params=params)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text

"""The pages of clients, subscriptions and traces: they show what clients see, and what is done there clients feel."""

from __future__ import annotations

import csv
import io
import json
import re
import socket
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.browser import Dashboard, expect
from support.managed_clients import Peers
from support.management import ManagedNode
from support.waiting import wait_until
from support.wire import wire

if TYPE_CHECKING:
    from playwright.sync_api import Download, Locator, Page

pytestmark = pytest.mark.service


def ids(page: Page) -> Locator:
    """What the first column of the list says."""
    return page.locator("tbody th[scope=row]")


def cell(page: Page, row: str, column: str) -> Locator:
    """The cell of a row below the head of a column."""
    heads = [head.strip(" ↕▾▴") for head in page.locator("thead th").all_inner_texts()]
    return page.get_by_role("row").filter(has_text=row).locator("th, td").nth(heads.index(column))


def text_of(download: Download) -> str:
    return Path(download.path()).read_text()


def test_clients_are_found_sorted_and_saved(managed: ManagedNode, admin: Dashboard, peers: Peers) -> None:
    slow = peers.connect("slow/<b>1", username="ann", receive_maximum=1, acknowledges=False)
    slow.subscribe("news", 1)
    peers.connect("=quick", username="bob", version=4)
    away = peers.connect("away", expiry_s=600)
    for _ in range(3):
        managed.api.post("/publish", json={"topic": "news", "payload": "x", "qos": 1})
    away.client.disconnect()
    wait_until(lambda: not managed.api.get("/clients/away").json()["connected"], "it is away")
    page = admin.open("clients").page
    expect(ids(page)).to_have_text(["away", "=quick", "slow/<b>1"])
    expect(cell(page, "slow/<b>1", "Backlog")).to_have_text("2")
    expect(cell(page, "=quick", "MQTT")).to_have_text("3.1.1")
    expect(cell(page, "away", "State")).to_have_text("away")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.DictReader(io.StringIO(text_of(saved.value))))
    assert [row["clientid"] for row in rows] == ["away", "'=quick", "slow/<b>1"]
    assert [row["mqueue_len"] for row in rows] == ["0", "0", "2"]
    page.get_by_role("button", name="Backlog").click()
    expect(ids(page)).to_have_text(["slow/<b>1"])
    expect(page.get_by_text("Those with most first: backlog")).to_be_visible()
    page.get_by_role("button", name="Newest first").click()
    for by, text, found in (("User name", "bo", "=quick"), ("Client id", "<b>", "slow/<b>1")):
        page.get_by_label("Search by").select_option(by)
        page.get_by_label(re.compile("contains")).fill(text)
        page.get_by_role("button", name="Search").click()
        expect(ids(page)).to_have_text([found])
    page.get_by_label("Client id contains").fill("")
    page.get_by_label("State").select_option("away")
    page.get_by_role("button", name="Search").click()
    expect(ids(page)).to_have_text(["away"])
    page.reload()
    expect(ids(page)).to_have_text(["away"])
    page.get_by_label("Search by").select_option("Address")
    page.get_by_label("IP address is").fill("nowhere")
    page.get_by_role("button", name="Search").click()
    admin.expected_errors.append("400")
    expect(page.get_by_role("alert")).to_contain_text("ip_address: found 'nowhere'")
    expect(page.get_by_label("IP address is")).to_have_value("nowhere")


def test_the_list_fits_a_window_a_client_a_line(admin: Dashboard, peers: Peers) -> None:
    peers.connect("dev-03099", username="dev-03099-of-hall-7")
    page = admin.open("clients").page
    admin.look(width=1400)
    expect(ids(page)).to_have_text(["dev-03099"])
    table = page.get_by_role("region", name="Clients")
    assert table.evaluate("part => part.scrollWidth - part.clientWidth") <= 0
    user = cell(page, "dev-03099", "User").locator("span")
    assert user.evaluate("part => part.getClientRects().length") == 1


def test_a_long_list_goes_on_with_cursors_and_begins_anew_after_a_restart(
    managed: ManagedNode, admin: Dashboard, peers: Peers
) -> None:
    for number in range(130):  # sessions whose clients are away
        with socket.create_connection(("127.0.0.1", managed.node.port)) as client:
            client.sendall(wire(f'10 # "MQTT" 05 02 003c {{ 11 00000e10 }} "away-{number:03}"'))
            client.sendall(wire('82 # 0001 00 "news" 01'))
            answer = b""
            while not answer.endswith(wire("90 04 0001 00 01")):
                answer += client.recv(1000)
            assert answer[0] == 0x20
    page = admin.open("clients").page
    expect(ids(page)).to_have_count(100)
    expect(page.get_by_text("130 found")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(ids(page)).to_have_count(30)
    expect(ids(page).last).to_have_text("away-000")
    page.get_by_role("button", name="Previous").click()
    expect(ids(page).first).to_have_text("away-129")
    page.get_by_role("button", name="Subscriptions").click()
    expect(page.get_by_text("Those with most first: subscriptions")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(ids(page)).to_have_count(30)
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    assert len(list(csv.DictReader(io.StringIO(text_of(saved.value))))) == 130
    page.get_by_role("button", name="Previous").click()
    expect(ids(page).first).to_have_text("away-129")
    managed.api.post("/publish", json={"topic": "news", "payload": "x", "qos": 1})
    page.get_by_role("button", name="Behind").click()
    expect(page.get_by_text("Those with most first: behind")).to_be_visible()
    expect(ids(page)).to_have_count(100)
    expect(cell(page, "away-000", "Backlog")).to_have_text("–")
    expect(page.get_by_text("they would have to be read for that")).to_be_visible()
    page.get_by_role("button", name="Newest first").click()
    expect(page.get_by_text("130 found")).to_be_visible()
    refusal = {"code": "INVALID_PARAMETER", "message": "cursor: it is of another start of the node"}
    page.route("**/heliograph/clients?*cursor=*", lambda route: route.fulfill(status=400, json=refusal))
    admin.expected_errors.append("400")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("the list begins again")).to_be_visible()
    expect(ids(page)).to_have_count(100)
    page.unroute_all()


def test_many_clients_are_kicked_and_banned_as_planned(managed: ManagedNode, admin: Dashboard, peers: Peers) -> None:
    many = [peers.connect(f"many-{number}") for number in range(4)]
    page = admin.open("clients").page
    for number in (1, 2):
        page.get_by_role("checkbox", name=f"Choose many-{number}").check()
    expect(page.get_by_text("2 chosen")).to_be_visible()
    page.get_by_role("button", name="Kick the chosen").click()
    dialog = page.get_by_role("dialog", name="Kick clients")
    expect(dialog.get_by_role("listitem")).to_have_text(["many-1", "many-2"])
    admin.check_access()
    dialog.get_by_role("button", name="Kick 2 clients").click()
    expect(dialog).to_have_count(0)
    assert [many[number].closed() for number in (1, 2)] == [0x98, 0x98]
    expect(ids(page)).to_have_text(["many-3", "many-0"])
    expect(page.get_by_role("button", name="Ban all found")).to_have_count(0)
    admin.open("clients?text=many-")
    page.get_by_role("button", name="Ban all found").click()
    dialog = page.get_by_role("dialog", name="Ban clients")
    dialog.get_by_label("Reason").fill("too loud")
    dialog.get_by_label("Until").select_option("1 hour")
    dialog.get_by_role("button", name="Ban 2 clients").click()
    expect(page.get_by_text("No client matches.")).to_be_visible()
    assert [many[number].closed() for number in (0, 3)] == [0x98, 0x98]
    assert peers.refused("many-0") == 0x8A
    bans = managed.api.get("/banned").json()["data"]
    assert [(ban["reason"], ban["until"] == "infinity") for ban in bans] == [("too loud", False)] * 2
    managed.api.delete("/banned")


def test_one_client_is_shown_subscribed_and_kicked(managed: ManagedNode, admin: Dashboard, peers: Peers) -> None:
    peers.connect("a/b c").client.disconnect()
    wait_until(lambda: managed.api.get("/clients/a%2Fb%20c").status_code == 404, "it has left")
    peer = peers.connect("a/b c", username="ann")
    page = admin.open("clients").page
    page.get_by_role("link", name="a/b c").click()
    expect(page.get_by_role("heading", name="a/b c")).to_be_focused()
    fact = page.locator("dt", has_text=re.compile("^User$")).locator("+ dd")
    expect(fact).to_have_text("ann")
    parts = page.get_by_role("navigation", name="Parts of this client")
    parts.get_by_role("link", name="Subscriptions").click()
    page.get_by_role("button", name="Add a subscription").click()
    dialog = page.get_by_role("dialog", name="Subscribe a/b c")
    dialog.get_by_label("Topic filter").fill("room/#/x")
    dialog.get_by_role("button", name="Subscribe").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    admin.expected_errors.append("400")
    expect(dialog.get_by_label("Topic filter")).to_have_value("room/#/x")
    dialog.get_by_label("Topic filter").fill("room/+")
    dialog.get_by_label("QoS").select_option("1")
    dialog.get_by_role("button", name="Subscribe").click()
    expect(ids(page)).to_have_text(["room/+"])
    managed.api.post("/publish", json={"topic": "room/1", "payload": "for it", "qos": 1})
    assert peer.messages(1) == [("room/1", b"for it")]
    page.get_by_role("button", name="Remove room/+").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove room/+").click()
    expect(page.get_by_text("The client has no subscription.")).to_be_visible()
    assert managed.api.get("/clients/a%2Fb%20c/subscriptions").json() == []
    parts.get_by_role("link", name="Access cache").click()
    page.get_by_role("button", name="Forget, and ask again").click()
    expect(page.get_by_text("The rights of the client are asked for again.")).to_be_visible()
    page.get_by_role("button", name="Kick …").click()
    page.get_by_role("dialog").get_by_role("button", name="Kick a/b c").click()
    assert peer.closed() == 0x98
    admin.expected_errors.append("404")
    expect(page.get_by_text("There is no session of this client now.")).to_be_visible()
    expect(page.get_by_role("row").nth(1)).to_contain_text("kicked")
    expect(page.get_by_role("row").nth(2)).to_contain_text("normal")
    managed.api.post("/banned", json={"as": "clientid", "who": "a/b c", "by": "ann"})
    admin.expected_errors.append("404")
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_text("it is banned as clientid 'a/b c' since")).to_be_visible()
    managed.api.delete("/banned/clientid/a%2Fb%20c")


@pytest.mark.parametrize("clientid", ["..", "."])
def test_a_client_that_is_called_as_a_folder_is_one(admin: Dashboard, peers: Peers, clientid: str) -> None:
    peer = peers.connect(clientid)
    page = admin.open(f"clients/{clientid}").page
    page.get_by_role("button", name="Kick …").click()
    page.get_by_role("dialog").get_by_role("button", name=f"Kick {clientid}").click()
    assert peer.closed() == 0x98
    admin.expected_errors.append("404")
    expect(page.get_by_text("There is no session of this client now.")).to_be_visible()


def test_what_waits_for_a_client_is_shown_with_its_payload(
    managed: ManagedNode, admin: Dashboard, peers: Peers
) -> None:
    peers.connect("waits", receive_maximum=1, acknowledges=False).subscribe("q/#", 1)
    big, small = "x" * 600_000, '{"watts": [1, 2]}'
    waiting = ["in flight", big, big, small, "<b>bold</b>"]
    for topic, payload in [(f"q/{number}", payload) for number, payload in enumerate(waiting)]:
        managed.api.post("/publish", json={"topic": topic, "payload": payload, "qos": 1})
    page = admin.open("clients/waits?tab=inflight").page
    expect(ids(page)).to_have_text(["q/0"])
    expect(cell(page, "q/0", "Payload")).to_have_text("in flight")
    admin.open("clients/waits?tab=queue")
    expect(ids(page)).to_have_text(["q/1"])  # of a page with 1 MiB; it hides nothing
    page.get_by_role("button", name="Next").click()
    expect(ids(page)).to_have_text(["q/2", "q/3", "q/4"])
    expect(cell(page, "q/4", "Payload")).to_have_text("<b>bold</b>")
    page.get_by_role("row").filter(has_text="q/3").get_by_role("button", name="Show").click()
    dialog = page.get_by_role("dialog", name="q/3")
    expect(dialog.locator("pre")).to_contain_text('"watts": [')
    admin.check_access()


def test_ten_thousand_subscriptions_of_a_client_are_looked_through(
    managed: ManagedNode, admin: Dashboard, peers: Peers
) -> None:
    peer = peers.connect("wide")
    for begin in range(0, 10_000, 1_000):
        peer.client.subscribe([(f"t/{number}/s", 0) for number in range(begin, begin + 1_000)])
    wait_until(lambda: managed.api.get("/clients/wide").json()["subscriptions_cnt"] == 10_000, "all are there")
    page = admin.open("clients/wide?tab=subscriptions").page
    expect(page.get_by_text("10,000 found")).to_be_visible()
    expect(ids(page)).to_have_count(100)
    page.get_by_role("button", name="Next").click()
    expect(ids(page).first).to_have_text("t/100/s")
    page.get_by_label("Topic filter").fill("t/7777/+")
    page.get_by_role("button", name="Search").click()
    expect(ids(page)).to_have_text(["t/7777/s"])


def test_subscriptions_are_found_by_filter_group_client_and_by_what_they_get(admin: Dashboard, peers: Peers) -> None:
    one, two = peers.connect("one"), peers.connect("two")
    for peer, filters in ((one, ["t/1", "t/+"]), (two, ["t/#", "$share/g/t/2"])):
        for topic_filter in filters:
            peer.subscribe(topic_filter, 1)
    page = admin.open("subscriptions").page
    expect(ids(page)).to_have_count(4)
    for fields, found in (
        ({"Filter or topic": "t/1"}, {"t/1"}),
        ({"Filter or topic": "t/+"}, {"t/1", "t/+", "$share/g/t/2"}),
        ({"Filter or topic": "", "Shared group": "g"}, {"$share/g/t/2"}),
        ({"Shared group": "", "Client id": "one"}, {"t/1", "t/+"}),
    ):
        for label, text in fields.items():
            page.get_by_label(label).fill(text)
        page.get_by_role("button", name="Search").click()
        expect(ids(page)).to_have_count(len(found))
        for name in found:
            expect(ids(page).get_by_text(name, exact=True)).to_be_visible()
    page.get_by_label("Client id").fill("")
    page.get_by_label("Look for").select_option("Gets what is published to topic")
    page.get_by_label("Filter or topic").fill("t/2")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("row").filter(has_text="t/1")).to_have_count(0)
    expect(ids(page)).to_have_count(3)
    page.get_by_role("link", name="two").first.click()
    expect(page.get_by_role("heading", name="two")).to_be_visible()


def test_traces_are_recorded_and_watched(managed: ManagedNode, admin: Dashboard, peers: Peers) -> None:
    peer = peers.connect("traced")
    peer.subscribe("t/#", 1)
    page = admin.open("traces").page
    page.get_by_role("button", name="New trace").click()
    dialog = page.get_by_role("dialog", name="New trace")
    dialog.get_by_label("Name").fill("1st")
    dialog.get_by_label("Client id").fill("traced")
    dialog.get_by_label("Lines").select_option("JSON")
    dialog.get_by_role("button", name="Begin").click()
    admin.expected_errors.append("400")
    expect(dialog.get_by_label("Name")).to_have_attribute("aria-invalid", "true")
    dialog.get_by_label("Name").fill("first")
    dialog.get_by_role("button", name="Begin").click()
    expect(ids(page)).to_have_text(["first"])
    expect(cell(page, "first", "State")).to_have_text("running")
    peer.publish("t/1", b"x", 1)
    page.get_by_role("button", name="Stop first").click()
    expect(cell(page, "first", "State")).to_have_text("ended")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download first").click()
    with zipfile.ZipFile(saved.value.path()) as archive:
        lines = archive.read(archive.namelist()[0]).decode().splitlines()
    assert "delivery" in {json.loads(line)["event"] for line in lines}
    page.get_by_role("link", name="first", exact=True).click()
    expect(page.locator("pre")).to_contain_text('"event":"delivery"')
    page.get_by_role("link", name="All traces").click()
    page.get_by_role("button", name="Delete first").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete first").click()
    expect(page.get_by_text("There is no trace.")).to_be_visible()

    admin.open("clients/traced")
    page.get_by_role("link", name="Trace it").click()
    page.get_by_role("button", name="Watch", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="trace_started")).to_be_visible()
    peer.publish("t/1", b"x", 1)
    expect(page.get_by_role("row").filter(has_text="delivery")).to_contain_text("to=traced")
    admin.check_access()
    page.get_by_role("button", name="Stop watching").click()
    expect(page.get_by_text("It has ended: you stopped it.")).to_be_visible()
    wait_until(lambda: managed.api.get("/trace").json() == [], "the trace has gone")

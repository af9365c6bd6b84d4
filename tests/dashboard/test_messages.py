"""Pages of topics and messages: the tree, the live tail, retained and delayed messages, what is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.browser import Dashboard, expect
from support.managed_clients import Peer, Peers
from support.management import ManagedNode

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.service

_BIG = 1_000_000


@pytest.fixture(scope="module")
def station(managed: ManagedNode) -> Iterator[Peer]:
    """A client that has published to some topics, and is there."""
    with Peers(managed) as peers:
        peer = peers.connect("station-7", username="ann")
        for room in ("attic", "hall"):
            for number in range(3):
                peer.publish(f"pages/{room}/temp", json.dumps({"temp": number, "room": room}).encode(), 1)
        peer.publish("pages/binary", bytes(range(40)), 1)
        yield peer


def opened(dashboard: Dashboard, address: str, title: str) -> Page:
    """A page, when it has taken the place of the one before."""
    page = dashboard.open(address).page
    expect(page.get_by_role("heading", level=1, name=title, exact=True)).to_be_visible()
    return page


def dialog(page: Page, name: str) -> None:
    expect(page.get_by_role("dialog", name=name)).to_be_visible()


def test_the_tree_of_topics_is_walked_with_keys(managed: ManagedNode, admin: Dashboard, station: Peer) -> None:
    page = opened(admin, "topics", "Topics")
    tree = page.get_by_role("tree")
    item = tree.get_by_role("treeitem").filter(has_text="pages")
    expect(item).to_contain_text("messages")
    item.focus()
    item.click()
    page.keyboard.press("ArrowRight")
    hall = tree.get_by_role("treeitem").filter(has_text="hall")
    expect(hall).to_contain_text("3 messages")
    page.keyboard.press("ArrowDown")
    expect(tree.get_by_role("treeitem").filter(has_text="attic")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(tree.get_by_role("treeitem").filter(has_text="temp")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    chosen = page.get_by_role("region", name="Chosen topic")
    expect(chosen.get_by_role("definition").first).to_have_text("pages/attic/temp")
    admin.check_access()
    chosen.get_by_role("button", name="Count its messages").click()
    expect(page.get_by_text("Messages of pages/attic/temp are counted.")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    page.get_by_role("link", name="Counted topics").click()
    station.publish("pages/attic/temp", b"counted", 1)
    page.get_by_role("button", name="Refresh").click()
    row = page.get_by_role("row").filter(has_text="pages/attic/temp")
    expect(row.get_by_role("cell").first).to_have_text("1")
    row.get_by_role("button", name="Do not count pages/attic/temp any more").click()
    page.get_by_role("dialog").get_by_role("button", name="End").click()
    expect(page.get_by_text("No topic is counted.")).to_be_visible()
    admin.check_access()
    assert managed.api.get("/mqtt/topic_metrics").json() == []


def test_large_figures_of_the_tree_stand_apart(admin: Dashboard, station: Peer) -> None:
    page = admin.page

    def as_of_a_large_node(route: Route) -> None:
        answer = route.fetch()
        levels = answer.json()
        for level in levels["data"]:
            level.update(messages=12_345_678, messages_per_second=599.8)
        route.fulfill(response=answer, json=levels)

    page.route("**/heliograph/topic_tree*", as_of_a_large_node)
    try:
        opened(admin, "topics", "Topics")
        admin.look(width=1400)
        expect(page.get_by_text("12,345,678 messages").first).to_be_visible()
        for figure in page.locator(".tree .figure").all():
            assert figure.evaluate("part => part.scrollWidth - part.clientWidth") <= 0, figure.inner_text()
    finally:
        page.unroute("**/heliograph/topic_tree*")


def test_names_that_are_too_many_to_be_learned_come_page_by_page(admin: Dashboard, station: Peer) -> None:
    for number in range(120):
        station.publish(f"pages/fleet/t{number:03}/at", b"", 1)
    page = opened(admin, "topics", "Topics")
    tree = page.get_by_role("tree")
    tree.get_by_role("treeitem").filter(has_text="pages").click()
    page.keyboard.press("ArrowRight")
    tree.get_by_role("treeitem").filter(has_text="fleet").click()
    page.keyboard.press("ArrowRight")
    tree.get_by_role("treeitem", level=3).filter(has_text="many names").click()
    page.keyboard.press("ArrowRight")
    more = tree.get_by_role("treeitem").filter(has_text="Show more names")
    expect(more).to_have_count(1)
    more.click()
    expect(tree.get_by_role("treeitem", level=4)).to_have_count(120)
    expect(tree.get_by_role("treeitem").filter(has_text="t119")).to_be_visible()


def test_topics_are_searched(admin: Dashboard, station: Peer) -> None:
    page = opened(admin, "topics", "Topics")
    page.get_by_label("Find topics").fill("PAGES/HALL")
    page.keyboard.press("Enter")
    row = page.get_by_role("row").filter(has_text="pages/hall/temp")
    expect(row).to_contain_text("3")
    admin.check_access()
    row.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="Stored messages").click()
    expect(page.get_by_role("heading", level=1, name="History")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="pages/hall/temp")).to_have_count(3)


def test_a_tail_shows_what_is_published_until_it_pauses(admin: Dashboard, station: Peer) -> None:
    page = opened(admin, "topics/tail?topic=tailed/%23", "Topics")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_text("Watching tailed/#")).to_be_visible()
    station.publish("tailed/first", b"1", 1)
    expect(page.get_by_role("row").filter(has_text="tailed/first")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    station.publish("tailed/second", '{"a": "é"}'.encode(), 1)
    expect(page.get_by_text("Paused")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="tailed/second")).to_have_count(0)
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("button", name="Show the message to tailed/second").click()
    dialog(page, "Message")
    expect(page.get_by_label("JSON")).to_be_checked()
    expect(page.get_by_label("Payload")).to_contain_text('"a": "é"')
    page.get_by_label("Hex").check()
    expect(page.get_by_label("Payload")).to_contain_text("7b 22 61 22")
    admin.check_access()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Not watching")).to_be_visible()


def test_retained_messages_are_found_shown_and_deleted(managed: ManagedNode, admin: Dashboard, station: Peer) -> None:
    numbers = json.dumps([{"number": number} for number in range(100_000)])[:_BIG].encode()
    station.publish("held/big", numbers, 1, retain=True)
    station.publish("held/small", b"<b>not markup</b>", 1, retain=True)
    page = opened(admin, "retained", "Retained messages")
    page.get_by_label("Topic filter").fill("held/+")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row")).to_have_count(3)
    page.get_by_role("button", name="Show the message of held/small").click()
    expect(page.get_by_label("Payload")).to_have_text("<b>not markup</b>")
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Show the message of held/big").click()
    expect(page.get_by_text("the first 16 KiB of 977 KiB")).to_be_visible()
    page.get_by_role("button", name="Show all 977 KiB").click()
    expect(page.get_by_label("Payload").locator(".chunk")).to_have_count(62)
    page.get_by_label("Hex").check()
    expect(page.get_by_label("Payload")).to_contain_text("00000000  5b 7b")
    admin.check_access()
    page.get_by_role("button", name="Close").click()
    for name in ("held/small", "held/big"):
        page.get_by_role("button", name=f"Delete the message of {name}").click()
        page.get_by_role("dialog").get_by_role("button", name=f"Delete the message of {name}").click()
        expect(page.get_by_text(f"The retained message of {name} is deleted.")).to_be_visible()
    expect(page.get_by_text("No retained message matches.")).to_be_visible()
    assert managed.api.get("/mqtt/retainer/messages", params={"topic": "held/#"}).json()["data"] == []


def test_delayed_messages_are_shown_and_deleted(managed: ManagedNode, admin: Dashboard, station: Peer) -> None:
    station.publish("$delayed/600/wake/up", b"\xff\xfe", 1)
    page = opened(admin, "delayed", "Delayed messages")
    page.get_by_role("button", name="Show the message to wake/up").click()
    expect(page.get_by_label("Payload")).to_contain_text("ff fe")
    admin.check_access()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Delete the message to wake/up").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the message to wake/up").click()
    expect(page.get_by_text("No message waits.")).to_be_visible()
    assert managed.api.get("/mqtt/delayed/messages").json()["data"] == []


def test_stored_messages_are_found_exported_and_replayed(managed: ManagedNode, admin: Dashboard, station: Peer) -> None:
    page = opened(admin, "history", "History")
    page.get_by_label("Topic filter").fill("pages/#/wrong")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".wrong")).to_be_visible()
    admin.expected_errors.append("400")
    expect(page.get_by_label("Topic filter")).to_have_value("pages/#/wrong")
    page.get_by_label("Topic filter").fill("pages/hall/#")
    page.get_by_label("Client id").fill("station-7")
    page.get_by_label("Stored").select_option("in the last 24 hours")
    page.get_by_role("button", name="Search").click()
    found = page.get_by_role("row").filter(has_text="pages/hall/temp")
    expect(found).to_have_count(3)
    expect(found.first).to_contain_text('"temp": 2')
    page.get_by_label("Order").select_option("oldest first")
    page.get_by_role("button", name="Search").click()
    expect(found.first).to_contain_text('"temp": 0')
    admin.check_access()
    page.get_by_role("button", name="Show the message to pages/hall/temp").first.click()
    dialog(page, "Stored message")
    expect(page.get_by_label("Payload")).to_contain_text('"room": "hall"')
    admin.check_access()
    page.keyboard.press("Escape")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    lines = download.value.path().read_text().splitlines()
    assert [json.loads(line)["topic"] for line in lines] == ["pages/hall/temp"] * 3
    station.subscribe("again/#", 1)
    page.get_by_role("button", name="Replay").click()
    page.get_by_label("To the topic").fill("again/#")
    page.get_by_role("button", name="Begin the replay").click()
    expect(page.get_by_role("dialog").locator(".wrong")).to_contain_text("no topic")
    page.get_by_label("To the topic").fill("again/${topic}")
    admin.check_access()
    page.get_by_role("button", name="Begin the replay").click()
    row = page.get_by_role("row").filter(has_text="again/${topic}")
    expect(row).to_contain_text("finished")
    expect(row).to_contain_text("3 published")
    assert [topic for topic, _ in station.messages(3)] == ["again/pages/hall/temp"] * 3
    admin.check_access()
    row.get_by_role("button", name="Forget the replay").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget the replay").click()
    expect(page.get_by_text("No replay has been begun.")).to_be_visible()
    page.get_by_role("link", name="Databases").click()
    expect(page.get_by_role("heading", name="What messages holds")).to_be_visible()
    expect(page.get_by_role("link", name="pages/hall/temp", exact=True)).to_be_visible()
    admin.check_access()

"""The tree of topics through the API: what is stored, what is seen of many names, and what is routed."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import httpx
import pytest

from support.api_node import ApiNode
from support.managed_clients import Peers, connected
from support.management import KEY, SECRET, Served
from support.waiting import wait_until

USER = {"username": "ann", "password": "Sturdy-words-1"}
SETTINGS = f"""
durable_storage.messages.topics = ["house/#", "dev/#"]
dashboard {{ default_username = {USER["username"]}, default_password = "{USER["password"]}" }}
"""
_NAMES = 30  # more than a level may have


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A node that has stored messages of a few rooms and of more devices than are learned by their names."""
    with ApiNode(tmp_path_factory.mktemp("tree"), SETTINGS) as node:
        asyncio.run(_publish(node))
        yield node


async def _publish(node: Served) -> None:
    async with connected(node, "one") as one:
        for room in ("attic", "hall"):
            for number in range(3):
                await one.publish(f"house/{room}/temp", b"%d" % number, 1)
        await one.publish("house", b"ends here", 1)
        for number in range(_NAMES):
            await one.publish(f"dev/site/d{number:02}/state", b"on", 1)


def level(managed: Served, **query: Any) -> dict[str, Any]:
    answer = managed.api.get("/heliograph/topic_tree", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def named(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in answer["data"]}


def test_levels_of_what_is_stored_have_exact_sums(managed: Served) -> None:
    first = level(managed)
    assert (first["meta"]["source"], first["meta"]["rate_seconds"]) == ("stored", 60)
    rows = named(first)
    assert list(rows) == ["dev", "house"]
    assert (rows["house"]["messages"], rows["house"]["is_topic"], rows["house"]["has_children"]) == (7, True, True)
    assert (rows["dev"]["messages"], rows["dev"]["is_topic"]) == (_NAMES, False)
    assert rows["house"]["last_stored_at"]
    assert rows["house"]["messages_per_second"] <= round(7 / 60, 3)
    (attic, hall) = level(managed, below="house")["data"]
    assert (attic["topic"], attic["messages"], attic["streams"], attic["kind"]) == ("house/attic", 3, 1, "name")
    (temp,) = level(managed, below="house/hall")["data"]
    assert (temp["topic"], temp["has_children"], temp["messages"]) == ("house/hall/temp", False, 3)
    assert hall["messages"] == 3
    assert level(managed, below="house/hall/temp")["data"] == []


def test_names_that_are_too_many_are_one_row_and_seen_in_the_newest_messages(managed: Served) -> None:
    rows = named(level(managed, below="dev/site"))
    many = rows.pop("+")
    assert many["kind"] == "many"
    assert sum(row["messages"] for row in rows.values()) + many["messages"] == _NAMES
    assert [row["topic"] for row in level(managed, below="dev/site/+")["data"]] == ["dev/site/+/state"]
    seen: list[str] = []
    query: dict[str, Any] = {"below": "dev/site", "source": "seen", "limit": 20}
    while True:
        answer = level(managed, **query)
        assert answer["meta"]["source"] == "seen"
        assert (answer["meta"]["looked_at"], answer["meta"]["since"]) == (_NAMES, None)
        seen += named(answer)
        if not answer["meta"]["hasnext"]:
            break
        query["cursor"] = answer["meta"]["cursor"]
    assert seen == [f"d{number:02}" for number in range(_NAMES)]
    below = level(managed, below="dev/site/d29")  # one that was not learned
    assert below["meta"]["source"] == "seen"
    assert [(row["topic"], row["messages"]) for row in below["data"]] == [("dev/site/d29/state", 1)]


def test_a_level_comes_page_by_page(managed: Served) -> None:
    whole = [row["name"] for row in level(managed, below="dev/site")["data"]]
    paged: list[str] = []
    query: dict[str, Any] = {"below": "dev/site", "limit": 3}
    while True:
        answer = level(managed, **query)
        assert len(answer["data"]) <= 3
        paged += named(answer)
        if not answer["meta"]["hasnext"]:
            break
        query["cursor"] = answer["meta"]["cursor"]
    assert paged == whole == sorted(whole)


def test_topics_are_found_by_a_text_or_a_filter(managed: Served) -> None:
    by_text = level(managed, search="ATTIC")
    assert [row["topic"] for row in by_text["data"]] == ["house/attic/temp"]
    assert by_text["data"][0]["messages"] == 3
    by_filter = level(managed, search="house/+/temp")
    assert [row["topic"] for row in by_filter["data"]] == ["house/attic/temp", "house/hall/temp"]
    assert level(managed, search="nothing like it")["data"] == []


def test_what_is_routed_is_told_where_nothing_is_stored(managed: Served) -> None:
    with Peers(managed) as peers:
        peer = peers.connect("routed")
        for topic in ("live/a/b", "live/a/c", "live/+"):
            peer.subscribe(topic)
        answer = level(managed, source="routed")
        assert answer["meta"] == {"source": "routed", "count": 1, "limit": 100, "hasnext": False, "is_partial": False}
        assert answer["data"][0] == {
            "name": "live",
            "topic": "live",
            "kind": "name",
            "has_children": True,
            "is_topic": False,
            "filters": 3,
            "subscriptions": 3,
        }
        assert list(named(level(managed, source="routed", below="live"))) == ["+", "a"]
    wait_until(lambda: not level(managed, source="routed")["data"], "nothing is routed")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"below": "a/#/b"}, 400),
        ({"search": "a/#/b"}, 400),
        ({"cursor": "*"}, 400),
        ({"limit": 0}, 400),
        ({"limit": 1001}, 400),
        ({"source": "guessed"}, 400),
        ({"database": "no"}, 404),
        ({"database": "no", "source": "stored"}, 404),
    ],
)
def test_what_is_refused(managed: Served, query: dict[str, Any], status: int) -> None:
    answer = managed.api.get("/heliograph/topic_tree", params=query)
    assert answer.status_code == status, answer.text
    assert answer.json()["code"]


def test_a_tail_has_messages_as_they_come_and_says_what_it_leaves_out(managed: Served) -> None:
    query: dict[str, Any] = {"topic": "tail/#", "rate": 2, "payload": "plain", "max_payload_bytes": 5}
    with Peers(managed) as peers, managed.api.stream("GET", "/heliograph/tail", params=query) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        assert (next(lines), next(lines)) == ("event: begin", "data: {}")
        peer = peers.connect("teller")
        sent = [peer.client.publish(f"tail/{number}", b"0123456789", 1) for number in range(50)]  # all at once
        for each in sent:
            each.wait_for_publish(60)
        peer.publish("other", b"not of the filter", 1)
        told: list[dict[str, Any]] = []
        left_out = 0
        while len(told) + left_out < 50:
            line = next(lines)
            if line.startswith("data: "):
                event = json.loads(line.removeprefix("data: "))
                left_out += event["left_out"]
                told += [event] if "topic" in event else []
    assert left_out > 0
    first = told[0]
    assert (first["topic"], first["payload"], first["payload_bytes"], first["qos"]) == ("tail/0", "01234", 10, 1)
    assert (first["from_clientid"], first["retain"]) == ("teller", False)
    assert all(one["topic"].startswith("tail/") for one in told)


def test_a_tail_ends_with_its_login(managed: Served) -> None:
    with managed.client(headers={"sec-fetch-site": "same-origin"}) as page:
        assert page.post("/login", json=USER).status_code == 200
        with page.stream("GET", "/heliograph/tail", params={"topic": "#"}) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: begin"
            assert page.post("/logout", json={"username": USER["username"]}).status_code == 204
            told = [*lines]
    assert "event: end" in told
    assert "BAD_TOKEN" in told[-2]


async def test_one_caller_leaves_tails_to_others(managed: Served) -> None:
    def tail(api: httpx.AsyncClient) -> AbstractAsyncContextManager[httpx.Response]:
        return api.stream("GET", "/heliograph/tail", params={"topic": "none"})

    base = f"{managed.url}/api/v5"
    async with (
        httpx.AsyncClient(base_url=base, timeout=30, headers={"sec-fetch-site": "same-origin"}) as page,
        httpx.AsyncClient(base_url=base, timeout=30, auth=(KEY, SECRET)) as api,
        AsyncExitStack() as tails,
    ):
        assert (await page.post("/login", json=USER)).status_code == 200
        for _ in range(4):  # of the eight that there may be
            assert (await tails.enter_async_context(tail(api))).status_code == 200
        async with tail(api) as refused:
            assert refused.status_code == 503
            said = json.loads(await refused.aread())
            assert said["code"] == "SERVICE_UNAVAILABLE"
            assert " has 4 of 8 live tails, and others need the rest" in said["message"]
        async with tail(page) as other:
            assert other.status_code == 200


@pytest.mark.parametrize("query", [{}, {"topic": "a/#/b"}, {"topic": "a", "rate": 0}, {"topic": "a", "rate": 101}])
def test_a_tail_that_is_refused(managed: Served, query: dict[str, Any]) -> None:
    answer = managed.api.get("/heliograph/tail", params=query)
    assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")

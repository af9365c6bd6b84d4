"""Durable storage through the API: what is stored is found by topic and time, and by its position."""

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from heliograph.mqtt import packets as p
from support.api_node import ApiNode
from support.managed_clients import Peers, connected
from support.management import Served
from support.packets import publish
from support.waiting import wait_until

_ADMIN = "ann"
_PASSWORD = "kept-password-1"


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A node that has stored ten messages of two clients."""
    settings = (
        'durable_storage.messages.topics = ["kept/#", "newest/#", "large/#"]\n'
        f'dashboard {{ default_username = "{_ADMIN}", default_password = "{_PASSWORD}" }}'
    )
    with ApiNode(tmp_path_factory.mktemp("storing"), settings) as node:
        asyncio.run(_publish(node))
        yield node


async def _publish(node: Served) -> None:
    async with connected(node, "one") as one, connected(node, "two") as two:
        for number in range(5):
            await one.publish(f"kept/a/{number}", b"a%d" % number, 1)
            await two.publish(f"kept/b/{number}", b"\xff%d" % number, 1)
        await one.publish("lost", b"not stored", 1)


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_sites_and_storages(managed: Served) -> None:
    api = managed.api
    (site,) = api.get("/ds/sites").json()
    (shard, *_) = api.get(f"/ds/sites/{site}").json()["shards"]
    assert shard == {"storage": "messages", "id": "0", "status": "up"}
    assert api.get("/ds/storages").json() == ["messages"]
    storage = api.get("/ds/storages/messages").json()
    assert storage["shards"][0] == {"id": "0", "replicas": [{"site": site, "status": "up"}]}
    path = "/ds/storages/messages/replicas"
    assert api.get(path).json() == [site]
    assert api.put(path, json=[site]).status_code == 202
    assert api.put(f"{path}/{site}").status_code == 202
    assert refused(api.put(path, json=["0123456789abcdef"])) == (400, "BAD_REQUEST")
    assert refused(api.delete(f"{path}/{site}")) == (400, "BAD_REQUEST")
    for method, missing in (
        ("GET", "/ds/sites/no"),
        ("GET", "/ds/storages/no"),
        ("GET", "/ds/storages/no/replicas"),
        ("PUT", f"{path}/no"),
        ("DELETE", f"{path}/no"),
        ("GET", "/heliograph/storage/no/streams"),
        ("GET", "/heliograph/storage/no/generations"),
    ):
        assert refused(api.request(method, missing)) == (404, "NOT_FOUND")


def test_databases_generations_and_learned_topics(managed: Served) -> None:
    api = managed.api
    told = api.get("/heliograph/storage").json()
    kinds = {one["name"]: one["kind"] for one in told["databases"]}
    assert kinds["messages"] == "messages"
    assert "state" in kinds.values()
    assert told["site"] == api.get("/ds/sites").json()[0]
    assert told["reader"]["is_running"]
    assert told["reader"]["damaged_places"] == 0
    (generation, *_) = api.get("/heliograph/storage/messages/generations").json()
    assert generation["until"] is None
    streams = api.get("/heliograph/storage/messages/streams").json()["data"]
    assert sum(one["messages"] for one in streams) == 10
    assert all(one["topics"].startswith("kept/") for one in streams if one["messages"])


def test_messages_are_found_by_topic_client_and_time(managed: Served) -> None:
    api = managed.api

    def found(**query: Any) -> list[dict[str, Any]]:
        answer = api.get("/heliograph/messages", params=query)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["data"])

    wait_until(lambda: len(found()) == 10, "the reader has all of them")
    everything = found()
    assert [one["stored_at"] for one in everything] == sorted(one["stored_at"] for one in everything)
    assert {one["topic"] for one in found(topic="kept/a/+")} == {f"kept/a/{number}" for number in range(5)}
    (one,) = found(topic="kept/a/3", payload="plain")
    assert (one["payload"], one["from_clientid"], one["qos"], one["payload_bytes"]) == ("a3", "one", 1, 2)
    (two,) = found(topic="kept/b/3")
    assert base64.b64decode(two["payload"]) == b"\xff3"
    assert {one["from_clientid"] for one in found(clientid="two")} == {"two"}
    assert found(start="2999-01-01T00:00:00Z") == found(end="1000") == []
    single = api.get(f"/heliograph/messages/{one['id'].replace('/', '%2F')}", params={"payload": "plain"})
    assert single.json() == one
    assert "payload" not in found(topic="kept/a/3", payload="none")[0]
    assert base64.b64decode(found(topic="kept/a/3", max_payload_bytes=1)[0]["payload"]) == b"a"


def test_a_search_goes_on_with_its_cursor(managed: Served) -> None:
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 3}
    while True:
        answer = managed.api.get("/heliograph/messages", params=query).json()
        seen += [one["id"] for one in answer["data"]]
        if "cursor" not in answer["meta"]:
            break
        query["cursor"] = answer["meta"]["cursor"]
    assert len(seen) == len(set(seen)) == 10


def test_messages_are_exported_as_json_lines(managed: Served) -> None:
    api = managed.api
    wait_until(lambda: len(api.get("/heliograph/messages").json()["data"]) == 10, "the reader has all of them")
    answer = api.get("/heliograph/messages/export", params={"topic": "kept/#", "payload": "plain"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/jsonl")
    assert "messages.jsonl" in answer.headers["content-disposition"]
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines == api.get("/heliograph/messages", params={"payload": "plain"}).json()["data"]
    few = api.get("/heliograph/messages/export", params={"clientid": "two", "limit": 2, "payload": "none"}).text
    assert [json.loads(line)["from_clientid"] for line in few.splitlines()] == ["two", "two"]


def followed(managed: Served, replay: str) -> dict[str, Any]:
    """What a replay tells at its end."""
    with managed.api.stream("GET", f"/heliograph/message_replays/{replay}/events") as stream:
        events = "".join(stream.iter_text()).strip().split("\n\n")
    names = [event.split("\n")[0] for event in events]
    assert names[-1] == "event: end"
    assert set(names[:-1]) <= {"event: progress"}
    return dict(json.loads(events[-1].split("\n")[1].removeprefix("data: ")))


def test_messages_are_published_again_marked_and_in_their_order(managed: Served) -> None:
    api = managed.api
    wait_until(lambda: len(api.get("/heliograph/messages").json()["data"]) == 10, "the reader has all of them")
    order = {"topic": "kept/a/+", "target": "again/${topic}", "rate": 1000}
    with Peers(managed) as peers:
        peer = peers.connect("watcher")
        peer.subscribe("again/#", 1)
        begun = api.post("/heliograph/message_replays", json=order)
        assert begun.status_code == 201, begun.text
        replay = begun.json()["id"]
        packets = peer.packets(5)
        told = followed(managed, replay)
    assert [(one.topic, one.payload) for one in packets] == [(f"again/kept/a/{n}", b"a%d" % n) for n in range(5)]
    marks = dict(packets[0].properties.UserProperty)
    assert (marks["replayed-from"], marks["replayed-by"]) == ("kept/a/0", replay)
    assert marks["stored-at"]
    assert told["state"] == "finished"
    assert told["progress"] == {"share": 1.0, "published": 5, "refused": 0, "too_large": 0}
    assert [one["id"] for one in api.get("/heliograph/message_replays").json()] == [replay]
    audited = [one["operation_id"] for one in api.get("/audit", params={"limit": 100}).json()["data"]]
    assert {"message_replays.begin", "message_replays.end"} <= set(audited)
    assert api.delete(f"/heliograph/message_replays/{replay}").status_code == 204
    assert refused(api.get(f"/heliograph/message_replays/{replay}")) == (404, "NOT_FOUND")


def test_a_replay_is_slow_where_it_is_to_be_and_ends_when_it_is_deleted(managed: Served) -> None:
    api = managed.api
    late = "2100-01-01T00:00:00Z"  # what comes while it runs is none of it
    order = {"topic": "kept/#", "target": "slow/${topic}", "rate": 1, "limit": 7, "end": late}
    with Peers(managed) as peers:
        peer = peers.connect("watcher")
        peer.subscribe("slow/#", 1)
        replay = api.post("/heliograph/message_replays", json=order).json()
        assert (replay["state"], replay["limit"]) == ("running", 7)
        assert replay["end"] < late
        assert peer.packets(1)
        assert api.get(f"/heliograph/message_replays/{replay['id']}").json()["state"] == "running"
        assert api.delete(f"/heliograph/message_replays/{replay['id']}").status_code == 204
        assert api.get("/heliograph/message_replays").json() == []


def test_who_may_only_publish_has_no_stored_message_published(managed: Served) -> None:
    token = managed.api.post("/login", json={"username": _ADMIN, "password": _PASSWORD}).json()["token"]
    with managed.client(headers={"authorization": f"Bearer {token}"}) as admin:
        key = admin.post("/api_key", json={"name": "sender", "enable": True, "role": "publisher"}).json()
        with managed.client((key["api_key"], key["api_secret"])) as sender:
            answer = sender.post("/heliograph/message_replays", json={"topic": "kept/#", "target": "x/${topic}"})
            assert refused(answer) == (403, "UNAUTHORIZED_ROLE")
            assert refused(sender.get("/heliograph/messages/export")) == (403, "UNAUTHORIZED_ROLE")
        assert admin.get("/heliograph/message_replays").json() == []


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"topic": "a/#/b"}, "topic"),
        ({"target": "again/#"}, "target"),
        ({"target": ""}, "target"),
        ({"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}, "end"),
    ],
)
def test_a_replay_that_is_refused_names_the_field(managed: Served, wrong: dict[str, str], field: str) -> None:
    answer = managed.api.post("/heliograph/message_replays", json={"topic": "kept/#", "target": "x/${topic}", **wrong})
    assert refused(answer) == (400, "INVALID_PARAMETER")
    assert answer.json()["field"] == field


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("?topic=a/%23/b", 400),
        ("?start=soon", 400),
        ("?limit=0", 400),
        ("?cursor=none", 400),
        ("?database=no", 400),
        ("/export?topic=a/%23/b", 400),
        ("/export?database=no", 400),
        ("/nothing", 400),
        ("/messages%2F0%2F1%2F0@1-1-1", 404),
        ("/..%2F..%2Fetc@1-1-1", 404),
    ],
)
def test_what_cannot_be_searched(managed: Served, path: str, status: int) -> None:
    answer = managed.api.get(f"/heliograph/messages{path}")
    assert answer.status_code == status, answer.text
    assert answer.json()["code"]


_PEERS = 6
_OF_EACH = 8


def listed(managed: Served, **query: Any) -> list[list[dict[str, Any]]]:
    """The pages of a list, to its end."""
    pages: list[list[dict[str, Any]]] = []
    while not pages or "cursor" in query:
        answer = managed.api.get("/heliograph/messages", params=query)
        assert answer.status_code == 200, answer.text
        told = answer.json()
        pages.append(told["data"])
        query = {name: value for name, value in {**query, "cursor": told["meta"].get("cursor")}.items() if value}
    return pages


def flat(pages: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [row for page in pages for row in page]


async def _publish_many(node: Served) -> None:
    """Messages of several clients to several topics, many of them in one commit, behind one of another topic."""
    async with AsyncExitStack() as peers:
        first = await peers.enter_async_context(connected(node, "new-0"))
        await first.publish("newest/rare", b"rare", 1)
        others = [await peers.enter_async_context(connected(node, f"new-{peer}")) for peer in range(1, _PEERS)]
        for peer, client in enumerate([first, *others]):
            sent = [publish(f"newest/{peer}/{n % 3}", b"%d" % n, 1, n + 2) for n in range(_OF_EACH)]
            client.send_bytes(b"".join(packet.data for packet in sent))
        for client in (first, *others):
            for _ in range(_OF_EACH):
                await client.take(p.Ack)


@pytest.fixture(scope="module")
def stored(managed: Served) -> list[dict[str, Any]]:
    """What many clients have published, in the order in which it was stored; published when a test first needs it."""
    asyncio.run(_publish_many(managed))
    asked = {"topic": "newest/#", "limit": 1000, "payload": "plain"}
    found = flat(listed(managed, **asked))
    assert len(found) == _PEERS * _OF_EACH + 1
    return found


def test_the_newest_come_first_and_pages_go_back_while_others_are_stored(
    managed: Served, stored: list[dict[str, Any]]
) -> None:
    asked = {"topic": "newest/#", "payload": "plain"}
    between = {**asked, "start": stored[9]["stored_at"], "end": stored[-9]["stored_at"]}
    assert flat(listed(managed, **between, order="newest")) == flat(listed(managed, **between))[::-1]
    first = managed.api.get("/heliograph/messages", params={**asked, "limit": 13, "order": "newest"}).json()
    with Peers(managed) as peers:
        peers.connect("late").publish("newest/late", b"late", 1)
    cursor = first["meta"]["cursor"]
    rest = listed(managed, **asked, limit=13, order="newest", cursor=cursor)
    assert first["data"] + flat(rest) == stored[::-1]
    (late, *_) = managed.api.get("/heliograph/messages", params={**asked, "limit": 1, "order": "newest"}).json()["data"]
    assert late["topic"] == "newest/late"
    wrong = managed.api.get("/heliograph/messages", params={**asked, "cursor": cursor})
    assert refused(wrong) == (400, "BAD_REQUEST")
    other = managed.api.get("/heliograph/messages", params={**asked, "limit": 1}).json()["meta"]["cursor"]
    wrong = managed.api.get("/heliograph/messages", params={**asked, "order": "newest", "cursor": other})
    assert refused(wrong) == (400, "BAD_REQUEST")


@pytest.mark.parametrize(
    "chosen",
    [
        {"topic": "newest/+/1", "limit": 6},
        {"topic": "newest/#", "clientid": ["new-1", "new-4"], "limit": 5},
        {"topic": "newest/rare", "limit": 1},  # behind many others
    ],
)
def test_the_newest_of_a_selection_are_those_of_the_oldest_reversed(
    managed: Served, stored: list[dict[str, Any]], chosen: dict[str, Any]
) -> None:
    oldest = flat(listed(managed, **{**chosen, "limit": 1000}))
    assert oldest
    assert flat(listed(managed, **chosen, order="newest")) == oldest[::-1]


@pytest.fixture(scope="module")
def large(managed: Served) -> int:
    """So many large messages are stored: more of them than the buffers of a connection hold."""

    async def publish_all() -> None:
        async with connected(managed, "large") as peer:
            for _ in range(24):
                await peer.publish("large/1", bytes(900_000), 1)
            for _ in range(200):
                await peer.publish("large/2", b"small", 1)

    asyncio.run(publish_all())

    def found(topic: str) -> int:
        asked: dict[str, Any] = {"topic": topic, "payload": "none", "limit": 1000}
        return len(managed.api.get("/heliograph/messages", params=asked).json()["data"])

    wait_until(lambda: (found("large/1"), found("large/2")) == (24, 200), "the reader has all of them")
    return 24


def test_an_answer_is_bounded_in_bytes_and_goes_on_with_its_cursor(managed: Served, large: int) -> None:
    query: dict[str, Any] = {"topic": "large/1", "limit": 1000, "max_payload_bytes": 1 << 20}
    first = managed.api.get("/heliograph/messages", params=query)
    second = managed.api.get("/heliograph/messages", params={**query, "cursor": first.json()["meta"]["cursor"]})
    assert 0 < max(len(first.content), len(second.content)) < 16 << 20
    seen = [one["id"] for answer in (first, second) for one in answer.json()["data"]]
    assert 2 <= len(seen) == len(set(seen)) <= large


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"role": "viewer"}, "needs the scope publish"),
        (None, "deleted"),
    ],
)
def test_a_replay_ends_when_who_began_it_may_not_go_on(
    managed: Served, large: int, change: dict[str, Any] | None, why: str
) -> None:
    token = managed.api.post("/login", json={"username": _ADMIN, "password": _PASSWORD}).json()["token"]
    with managed.client(headers={"authorization": f"Bearer {token}"}) as admin:
        key = admin.post("/api_key", json={"name": "replayer", "enable": True, "role": "operator"}).json()
        with managed.client((key["api_key"], key["api_secret"])) as operator:
            order = {"topic": "large/2", "target": "unheard/${topic}", "rate": 1}
            replay = operator.post("/heliograph/message_replays", json=order).json()["id"]
        path = "/api_key/replayer"
        answer = admin.delete(path) if change is None else admin.put(path, json=change)
        assert answer.status_code in (200, 204), answer.text
        told = followed(managed, replay)
        assert told["state"] == "failed"
        assert why in told["error"]["message"]
        assert told["progress"].get("published", 0) < 200
        assert admin.delete(f"/heliograph/message_replays/{replay}").status_code == 204
        if change is not None:
            assert admin.delete(path).status_code == 204

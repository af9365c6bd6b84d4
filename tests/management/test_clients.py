"""Clients by the HTTP API: lists, one client, what waits for it, and what is done with it, seen over real MQTT."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from support.managed_clients import Peers
from support.management import Served

KEYS = (
    *("clientid", "username", "node", "connected", "connected_at", "created_at", "ip_address", "port", "proto_name"),
    *("proto_ver", "keepalive", "clean_start", "expiry_interval", "is_bridge", "is_persistent", "durable"),
    *("is_expired", "listener", "mountpoint", "enable_authn", "subscriptions_cnt", "subscriptions_max"),
    *("inflight_cnt", "inflight_max", "mqueue_len", "mqueue_max", "mqueue_dropped", "awaiting_rel_cnt"),
    *("awaiting_rel_max", "recv_oct", "recv_cnt", "recv_pkt", "recv_msg", "recv_msg.qos0", "recv_msg.qos1"),
    *("recv_msg.qos2", "recv_msg.dropped", "recv_msg.dropped.await_pubrel_timeout", "send_oct", "send_cnt"),
    *("send_pkt", "send_msg", "send_msg.qos0", "send_msg.qos1", "send_msg.qos2", "send_msg.dropped"),
    *("send_msg.dropped.expired", "send_msg.dropped.queue_full", "send_msg.dropped.too_large", "mailbox_len"),
    *("heap_size", "reductions", "client_attrs"),
)


@pytest.fixture
def peers(managed: Served) -> Iterator[Peers]:
    with Peers(managed) as made:
        yield made


def ids(answer: dict[str, Any]) -> list[str]:
    return sorted(client["clientid"] for client in answer["data"])


def test_a_client_has_every_key_and_its_values_are_true(managed: Served, peers: Peers) -> None:
    peer = peers.connect("c/1", username="ann", keepalive=30)
    peer.subscribe("t/1", 1)
    peer.publish("t/1", b"x", 1)
    peer.messages(1)
    found = managed.api.get("/clients/c%2F1").json()
    assert set(KEYS) <= found.keys()
    assert (found["clientid"], found["username"], found["connected"], found["keepalive"]) == ("c/1", "ann", True, 30)
    assert (found["recv_msg"], found["recv_msg.qos1"], found["send_msg.qos1"], found["subscriptions_cnt"]) == (
        1,
        1,
        1,
        1,
    )
    assert (found["node"], found["listener"]) == ("heliograph@127.0.0.1", "tcp:default")
    assert "disconnected_at" not in found
    missing = managed.api.get("/clients/nobody")
    assert (missing.status_code, missing.json()["code"]) == (404, "CLIENTID_NOT_FOUND")


def test_lists_take_filters_fields_pages_and_cursors(managed: Served, peers: Peers) -> None:
    for number in range(5):
        peers.connect(f"s-{number}", username="even" if number % 2 == 0 else "odd", version=5 if number else 4)
    get = managed.api.get
    assert ids(get("/clients", params={"username": ["even"]}).json()) == ["s-0", "s-2", "s-4"]
    assert ids(get("/clients", params={"clientid": ["s-1", "s-3", "x"]}).json()) == ["s-1", "s-3"]
    assert ids(get("/clients", params={"like_clientid": "-4", "conn_state": "connected"}).json()) == ["s-4"]
    assert ids(get("/clients", params={"proto_ver": "4", "like_username": "ev"}).json()) == ["s-0"]
    assert get("/clients", params={"conn_state": "disconnected"}).json()["data"] == []
    assert get("/clients", params={"conn_state": "idle"}).json()["data"] == []
    assert ids(
        get("/clients", params={"ip_address": "127.0.0.1", "gte_created_at": "2020-01-01T00:00:00Z"}).json()
    ) == [f"s-{number}" for number in range(5)]
    assert get("/clients", params={"lte_connected_at": "1000"}).json()["data"] == []
    page = get("/clients", params={"page": 2, "limit": 2, "fields": "clientid,port"}).json()
    assert page["meta"] == {"page": 2, "limit": 2, "count": 5, "hasnext": True}
    assert [sorted(client) for client in page["data"]] == [["clientid", "port"]] * 2
    told: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        answer = get("/clients_v2", params={"limit": "2", **cursor}).json()
        told += ids(answer)
        if "cursor" not in answer["meta"]:
            break
        cursor = {"cursor": answer["meta"]["cursor"]}
    assert sorted(told) == [f"s-{number}" for number in range(5)]
    assert "count" not in get("/clients", params={"like_clientid": "s"}).json()["meta"]
    assert get("/sessions_count").text == "5"


@pytest.mark.parametrize(
    ("params", "status", "code"),
    [
        ({"ip_address": "here"}, 400, "INVALID_PARAMETER"),
        ({"gte_created_at": "soon"}, 400, "INVALID_PARAMETER"),
        ({"conn_state": "asleep"}, 400, "BAD_REQUEST"),
        ({"fields": "secret"}, 400, "BAD_REQUEST"),
        ({"node": "nobody@here"}, 500, "NODE_DOWN"),
        ({"page": "0"}, 400, "BAD_REQUEST"),
    ],
)
def test_what_is_no_filter_is_refused(managed: Served, params: dict[str, str], status: int, code: str) -> None:
    answer = managed.api.get("/clients", params=params)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize("cursor", ["x", "MTo5OTk5", "MTphYmM="])
def test_what_is_no_cursor_is_refused(managed: Served, cursor: str) -> None:
    answer = managed.api.get("/clients_v2", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_PARAMETER")


def test_clients_are_kicked_alone_and_in_bulk(managed: Served, peers: Peers) -> None:
    one, two, three = (peers.connect(name) for name in ("one", "two", "three"))
    assert managed.api.delete("/clients/one").status_code == 204
    assert one.closed() == 0x98
    assert managed.api.delete("/clients/one").json()["code"] == "CLIENTID_NOT_FOUND"
    assert managed.api.post("/clients/kickout/bulk", json=["two", "nobody", "three"]).status_code == 204
    assert (two.closed(), three.closed()) == (0x98, 0x98)


def test_a_client_is_subscribed_and_unsubscribed(managed: Served, peers: Peers) -> None:
    peer = peers.connect("sub")
    post = managed.api.post
    made = post("/clients/sub/subscribe", json={"topic": "a/+", "qos": 1}).json()
    assert made == {
        "clientid": "sub", "topic": "a/+", "qos": 1, "nl": 0, "rap": 0, "rh": 0, "node": "heliograph@127.0.0.1",
    }  # fmt: skip
    bulk = post("/clients/sub/subscribe/bulk", json=[{"topic": "b"}, {"topic": "$share/g/c", "qos": 2}])
    assert [one["topic"] for one in bulk.json()] == ["b", "$share/g/c"]
    assert post("/publish", json={"topic": "a/1", "payload": "hello"}).status_code == 200
    assert peer.messages(1) == [("a/1", b"hello")]
    held = managed.api.get("/clients/sub/subscriptions").json()
    assert sorted(one["topic"] for one in held) == ["$share/g/c", "a/+", "b"]
    assert post("/clients/sub/unsubscribe", json={"topic": "a/+"}).status_code == 204
    assert post("/clients/sub/unsubscribe", json={"topic": "a/+"}).status_code == 204
    assert post("/clients/sub/unsubscribe/bulk", json=[{"topic": "b"}]).status_code == 204
    assert [one["topic"] for one in managed.api.get("/clients/sub/subscriptions").json()] == ["$share/g/c"]
    for path, body in (("subscribe", {"topic": "a"}), ("unsubscribe", {"topic": "a"})):
        assert post(f"/clients/nobody/{path}", json=body).json()["code"] == "CLIENTID_NOT_FOUND"
    for wrong in ({"topic": "$share/g/c", "nl": 1}, {"topic": "a/#/b"}):
        refused = post("/clients/sub/subscribe", json=wrong)
        assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_PARAMETER")


def test_subscriptions_and_topics_are_listed_with_filters(managed: Served, peers: Peers) -> None:
    one, two = peers.connect("one"), peers.connect("two")
    for topic, qos in (("t/1", 0), ("t/+", 1), ("$share/g/t/2", 2)):
        one.subscribe(topic, qos)
    two.subscribe("t/1", 1)
    get = managed.api.get

    def topics(**params: object) -> list[str]:
        answer = get("/subscriptions", params={name: str(value) for name, value in params.items()})
        return sorted(f"{row['clientid']} {row['topic']}" for row in answer.json()["data"])

    everything = ["one $share/g/t/2", "one t/+", "one t/1", "two t/1"]
    assert topics() == topics(match_topic="t/#") == topics(durable="false") == everything
    assert topics(clientid="two") == ["two t/1"]
    assert topics(qos=1) == ["one t/+", "two t/1"]
    assert topics(topic="t/1") == ["one t/1", "two t/1"]
    assert topics(share_group="g") == topics(share_group="g", topic="t/2") == ["one $share/g/t/2"]
    assert get("/subscriptions", params={"limit": 2}).json()["meta"] == {
        "page": 1, "limit": 2, "count": 4, "hasnext": True,
    }  # fmt: skip
    bad = get("/subscriptions", params={"match_topic": "t/#/x"})
    assert (bad.status_code, bad.json()["code"]) == (400, "INVALID_PARAMETER")
    receiving = "/heliograph/subscriptions"
    for topic, group, expected in (
        ("t/1", "", everything[1:]),
        ("t/2", "", everything[:2]),
        ("t/2", "g", everything[:1]),
        ("no", "", []),
    ):
        found = get(receiving, params={"receives": topic, "share_group": group}).json()["data"]
        assert sorted(f"{row['clientid']} {row['topic']}" for row in found) == expected
    meta = get(receiving, params={"receives": "t/1", "limit": 2}).json()["meta"]
    assert (meta["hasnext"], "count" in meta) == (True, False)
    for wrong in ("", "t/#"):
        assert get(receiving, params={"receives": wrong}).json()["message"].startswith("receives: ")
    assert sorted(row["topic"] for row in get("/topics").json()["data"]) == ["$share/g/t/2", "t/+", "t/1"]
    assert get("/topics", params={"topic": "t/+"}).json()["data"] == [{"topic": "t/+", "node": "heliograph@127.0.0.1"}]
    assert [row["topic"] for row in get(f"/topics/{quote('t/1', safe='')}").json()] == ["t/1"]
    assert get("/topics/none").json()["code"] == "TOPIC_NOT_FOUND"


def test_another_keepalive_is_shown(managed: Served, peers: Peers) -> None:
    peers.connect("k", keepalive=60)
    assert managed.api.put("/clients/k/keepalive", json={"interval": 7}).json()["keepalive"] == 7
    assert managed.api.put("/clients/k/keepalive", json={"interval": -1}).status_code == 400
    assert managed.api.put("/clients/nobody/keepalive", json={"interval": 7}).json()["code"] == "CLIENTID_NOT_FOUND"


def test_messages_that_wait_and_those_in_flight_are_read_by_position(managed: Served, peers: Peers) -> None:
    slow = peers.connect("slow", receive_maximum=2, acknowledges=False)
    slow.subscribe("q/#", 1)
    for number in range(7):
        managed.api.post("/publish", json={"topic": f"q/{number}", "payload": f"p{number}", "qos": 1})
    get = managed.api.get
    inflight = get("/clients/slow/inflight_messages", params={"payload": "plain"}).json()
    assert [row["payload"] for row in inflight["data"]] == ["p0", "p1"]
    assert inflight["meta"]["position"] == "end_of_data"
    told: list[str] = []
    position = "none"
    while position != "end_of_data":
        answer = get(
            "/clients/slow/mqueue_messages", params={"position": position, "limit": 2, "payload": "plain"}
        ).json()
        told += [row["payload"] for row in answer["data"]]
        position = answer["meta"]["position"]
    assert told == ["p2", "p3", "p4", "p5", "p6"]
    (row,) = get("/clients/slow/mqueue_messages", params={"limit": 1}).json()["data"]
    assert (row["payload"], row["from_clientid"], row["qos"], row["topic"]) == ("cDI=", "http_api", 1, "q/2")
    assert row.keys() >= {"msgid", "publish_at", "from_username", "inserted_at", "mqueue_priority"}
    none = get("/clients/slow/mqueue_messages", params={"payload": "none", "max_payload_bytes": "4"}).json()
    assert [("payload" in one, one["payload_bytes"]) for one in none["data"]] == [(False, 2), (False, 2)]
    (cut,) = get("/clients/slow/mqueue_messages", params={"max_payload_bytes": "1", "payload": "plain"}).json()["data"]
    assert (cut["payload"], cut["payload_bytes"]) == ("p", 2)
    for wrong in ({"position": "x"}, {"payload": "hex"}, {"max_payload_bytes": "many"}):
        assert get("/clients/slow/mqueue_messages", params=wrong).status_code == 400
    assert get("/clients/nobody/mqueue_messages").json()["code"] == "CLIENTID_NOT_FOUND"


def test_what_a_connection_remembers_of_rights_is_told_and_forgotten(managed: Served, peers: Peers) -> None:
    peers.connect("cached")
    assert isinstance(managed.api.get("/clients/cached/authorization/cache").json(), list)
    assert managed.api.delete("/clients/cached/authorization/cache").status_code == 204
    assert managed.api.get("/clients/nobody/authorization/cache").json()["code"] == "CLIENTID_NOT_FOUND"


def test_messages_are_published_with_their_properties(managed: Served, peers: Peers) -> None:
    peer = peers.connect("heard")
    peer.subscribe("p/#", 2)
    post = managed.api.post
    properties = {
        "payload_format_indicator": 1,
        "message_expiry_interval": 60,
        "response_topic": "r",
        "correlation_data": "c",
        "user_properties": {"k": "v"},
        "content_type": "text/plain",
    }
    message = {"topic": "p/1", "payload": "aGk=", "payload_encoding": "base64", "properties": properties}
    sent = post("/publish", json=message)
    assert sent.status_code == 200
    assert len(sent.json()["id"]) == 32
    (got,) = peer.packets(1)
    assert got.payload == b"hi"
    assert got.properties.UserProperty == [("k", "v")]
    assert (got.properties.ResponseTopic, got.properties.ContentType) == ("r", "text/plain")
    unheard = post("/publish", json={"topic": "none", "payload": ""})
    assert (unheard.status_code, unheard.json()) == (202, {"reason_code": 16, "message": "no_matching_subscribers"})
    wrong = post("/publish", json={"topic": "p/#", "payload": ""})
    assert (wrong.status_code, wrong.json()["reason_code"]) == (400, 144)
    large = post("/publish", json={"topic": "p/1", "payload": "x" * (2 << 20)})
    assert (large.status_code, large.json()["reason_code"]) == (400, 151)
    assert post("/publish", json={"payload": ""}).json()["code"] == "BAD_REQUEST"
    bulk = post("/publish/bulk", json=[{"topic": "p/2", "payload": "a"}, {"topic": "none", "payload": "b"}])
    assert bulk.status_code == 202
    assert [sorted(one) for one in bulk.json()] == [["id"], ["message", "reason_code"]]
    assert post("/publish/bulk", json=[{"topic": "p/3", "payload": "a"}]).status_code == 200
    assert post("/publish/bulk", json=[{"topic": "+", "payload": "a"}]).status_code == 503
    assert [topic for topic, _ in peer.messages(2)] == ["p/2", "p/3"]
    assert json.loads(post("/publish/bulk", json=[]).text) == []

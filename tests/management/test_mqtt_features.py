"""Bans, retained and delayed messages, rewriting and automatic subscriptions by the HTTP API, seen over real MQTT."""

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from support.managed_clients import Peers
from support.management import Served
from support.waiting import wait_until


@pytest.fixture
def peers(managed: Served) -> Iterator[Peers]:
    with Peers(managed) as made:
        yield made


def test_who_is_banned_may_not_connect_until_the_ban_is_lifted(managed: Served, peers: Peers) -> None:
    api = managed.api
    there = peers.connect("bad")
    made = api.post("/banned", json={"as": "clientid", "who": "bad", "reason": "tests"}).json()
    assert (made["as"], made["who"], made["by"], made["reason"], made["until"]) == (
        *("clientid", "bad", "mgmt_api", "tests", "infinity"),
    )
    there.subscribe("t")  # a ban does not end connections
    assert peers.refused("bad2") == 0
    assert peers.refused("bad") == 0x8A
    again = api.post("/banned", json={"as": "clientid", "who": "bad"})
    assert (again.status_code, again.json()["code"]) == (400, "ALREADY_EXISTS")
    assert json.loads(again.json()["message"])["who"] == "bad"
    for kind, who in (("peerhost_net", "192.0.2.0/24"), ("clientid_re", "^x"), ("username", "bob")):
        assert api.post("/banned", json={"as": kind, "who": who, "until": "2099-01-01T00:00:00Z"}).status_code == 200
    listed = api.get("/banned").json()
    assert (len(listed["data"]), listed["meta"]["count"]) == (4, 4)
    for params, found in (
        ({"clientid": "bad"}, ["bad"]),
        ({"like_clientid": "^b"}, ["bad"]),
        ({"like_peerhost_net": "192"}, ["192.0.2.0/24"]),
        ({"username": "bob"}, ["bob"]),
        ({"like_username": "x"}, []),
    ):
        assert [one["who"] for one in api.get("/banned", params=params).json()["data"]] == found
    assert api.get("/banned", params={"clientid": "a", "username": "b"}).status_code == 400
    assert api.get("/banned", params={"like_clientid": "("}).status_code == 400
    for wrong in (
        {"as": "clientid", "who": "x", "until": 1},
        {"as": "nothing", "who": "x"},
        {"as": "peerhost", "who": "x"},
        {"as": "clientid"},
    ):
        assert api.post("/banned", json=wrong).json()["code"] == "BAD_REQUEST"
    assert api.delete(f"/banned/peerhost_net/{quote('192.0.2.0/24', safe='')}").status_code == 204
    assert api.delete("/banned/clientid/bad").status_code == 204
    assert api.delete("/banned/clientid/bad").json()["code"] == "NOT_FOUND"
    assert peers.refused("bad") == 0
    assert api.delete("/banned").status_code == 204
    assert api.get("/banned").json()["data"] == []


def test_retained_messages_are_listed_shown_and_deleted(managed: Served, peers: Peers) -> None:
    api = managed.api
    pub = peers.connect("pub", username="ann")
    for number in range(3):
        pub.publish(f"r/{number}", b"x%d" % number, 1, retain=True)
    everything = api.get("/mqtt/retainer/messages").json()  # with those of the node itself
    assert everything["meta"]["count"] == len(everything["data"]) >= 3
    matching = api.get("/mqtt/retainer/messages", params={"topic": "r/+"}).json()
    assert sorted(one["topic"] for one in matching["data"]) == ["r/0", "r/1", "r/2"]
    assert "count" not in matching["meta"]
    page = api.get("/mqtt/retainer/messages", params={"topic": "r/+", "limit": 2}).json()
    assert (page["data"], page["meta"]["hasnext"]) == (matching["data"][:2], True)
    one = api.get("/mqtt/retainer/message/r%2F1").json()
    assert (one["payload"], one["from_clientid"], one["from_username"], one["qos"]) == ("eDE=", "pub", "ann", 1)
    assert api.delete("/mqtt/retainer/message/r%2F1").status_code == 204
    for method in (api.get, api.delete):
        assert method("/mqtt/retainer/message/r%2F1").json()["code"] == "NOT_FOUND"
    assert api.get("/mqtt/retainer/messages", params={"topic": "r/#/x"}).status_code == 400
    assert api.delete("/mqtt/retainer/messages").status_code == 204
    assert api.get("/mqtt/retainer/messages", params={"topic": "r/#"}).json()["data"] == []


def test_settings_of_the_retainer_and_of_delayed_messages_are_changed(managed: Served) -> None:
    api = managed.api
    held = api.get("/mqtt/retainer").json()
    assert held.keys() >= {"enable", "msg_expiry_interval", "max_payload_size", "backend", "msg_clear_interval"}
    changed = api.put("/mqtt/retainer", json={**held, "max_payload_size": "2MB"})
    assert (changed.status_code, changed.json()["max_payload_size"]) == (200, "2MB")
    assert api.put("/mqtt/retainer", json=held).json() == held
    refused = api.put("/mqtt/retainer", json={"max_payload_size": "much"})
    assert (refused.status_code, refused.json()["code"]) == (400, "UPDATE_FAILED")
    assert api.put("/mqtt/delayed", json={"max_delayed_messages": 0}).json()["max_delayed_messages"] == 0
    assert api.put("/mqtt/delayed", json={"max_delayed_messages": 100_000}).json()["max_delayed_messages"] == 100_000
    assert api.put("/mqtt/delayed", json={"enable": "perhaps"}).json()["code"] == "BAD_REQUEST"


def test_delayed_messages_are_listed_shown_and_let_go(managed: Served, peers: Peers) -> None:
    api = managed.api
    pub = peers.connect("pub")
    for number in range(3):
        pub.publish(f"$delayed/600/d/{number % 2}", b"x" * (3000 if number == 2 else 1), 1)
    page = api.get("/mqtt/delayed/messages", params={"limit": 2}).json()
    assert page["meta"] == {"page": 1, "limit": 2, "count": 3, "hasnext": True}
    one = page["data"][0]
    assert (one["topic"], one["delayed_interval"], one["from_clientid"]) == ("d/0", 600, "pub")
    assert 590 <= one["delayed_remaining"] <= 600
    path = f"/mqtt/delayed/messages/{one['node']}/{one['msgid']}"
    assert api.get(path).json()["payload"] == "eA=="
    large = api.get("/mqtt/delayed/messages").json()["data"][2]
    assert api.get(f"/mqtt/delayed/messages/{one['node']}/{large['msgid']}").json()["payload"] == "PAYLOAD_TOO_LARGE"
    assert api.delete(path).status_code == 204
    assert api.get(path).json()["code"] == "MESSAGE_ID_NOT_FOUND"
    assert api.get(f"/mqtt/delayed/messages/{one['node']}/x").json()["code"] == "MESSAGE_ID_SCHEMA_ERROR"
    assert api.get(f"/mqtt/delayed/messages/nobody/{one['msgid']}").json()["code"] == "INVALID_NODE"
    assert api.delete("/mqtt/delayed/messages/d%2F1").status_code == 204
    assert api.delete("/mqtt/delayed/messages/d%2F1").json()["code"] == "MESSAGE_NOT_FOUND"
    assert api.delete("/mqtt/delayed/messages/d%2F%23").json()["code"] == "INVALID_TOPIC_NAME"
    assert api.delete("/mqtt/delayed/messages/d%2F0").status_code == 204
    assert api.get("/mqtt/delayed/messages").json()["data"] == []


def test_topics_are_rewritten_and_clients_subscribed_as_the_api_says(managed: Served, peers: Peers) -> None:
    api = managed.api
    rule = {"action": "all", "source_topic": "old/#", "dest_topic": "new/$1", "re": "^old/(.+)$"}
    assert api.put("/mqtt/topic_rewrite", json=[rule]).json() == [rule]
    assert api.get("/mqtt/topic_rewrite").json() == [rule]
    topic = {"topic": "auto/${clientid}", "qos": 1, "rh": 0, "rap": 0, "nl": 0}
    assert api.put("/mqtt/auto_subscribe", json=[topic]).json() == [topic]
    peer = peers.connect("c")
    peer.subscribe("new/1", 1)
    wait_until(lambda: len(api.get("/clients/c/subscriptions").json()) == 2, "the client is subscribed")
    peer.publish("old/1", b"x", 1)
    api.post("/publish", json={"topic": "auto/c", "payload": "y", "qos": 1})
    assert sorted(peer.messages(2)) == [("auto/c", b"y"), ("new/1", b"x")]
    assert api.put("/mqtt/topic_rewrite", json=[rule] * 20).json()["code"] == "EXCEED_LIMIT"
    assert api.put("/mqtt/topic_rewrite", json=[{**rule, "dest_topic": "new/#"}]).status_code == 400
    assert api.put("/mqtt/auto_subscribe", json=[topic] * 21).status_code == 409
    assert api.put("/mqtt/topic_rewrite", json=[]).json() == []
    assert api.put("/mqtt/auto_subscribe", json=[]).json() == []


def test_exclusive_topics_are_listed_and_released(managed: Served, peers: Peers) -> None:
    api = managed.api
    assert api.put("/configs/global_zone", json={"mqtt": {"exclusive_subscription": True}}).status_code == 200
    peers.connect("holder").subscribe("$exclusive/e/1", 1)
    assert api.get("/heliograph/exclusive_topics").json()["data"] == [
        {"topic": "e/1", "clientid": "holder", "node": "heliograph@127.0.0.1"}
    ]
    assert api.delete("/heliograph/exclusive_topics/e%2F1").status_code == 204
    assert api.delete("/heliograph/exclusive_topics/e%2F1").json()["code"] == "TOPIC_NOT_FOUND"

"""Clients by what they have most of, why they disconnected, and many of them kicked or banned as it was planned."""

import asyncio
import base64
from typing import Any

import pytest

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.managed_clients import Peers
from support.management import Served
from support.running import MqttClient
from support.waiting import wait_until


def listed(managed: Served, **query: Any) -> list[str]:
    answer = managed.api.get("/heliograph/clients", params=query)
    assert answer.status_code == 200, answer.text
    return [client["clientid"] for client in answer.json()["data"]]


def pages(managed: Served, path: str, **query: Any) -> list[dict[str, Any]]:
    """The pages of a list that goes on with cursors, to its end."""
    found = [managed.api.get(path, params=query).json()]
    while found[-1]["meta"]["hasnext"]:
        found.append(managed.api.get(path, params={**query, "cursor": found[-1]["meta"]["cursor"]}).json())
    assert "cursor" not in found[-1]["meta"]
    return found


def planned(managed: Served, **query: Any) -> dict[str, Any]:
    answer = managed.api.post("/heliograph/clients/plan", params=query)
    assert answer.status_code == 200, answer.text
    plan: dict[str, Any] = answer.json()
    return plan


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_clients_are_sorted_by_what_waits_for_them(managed: Served) -> None:
    with Peers(managed) as peers:
        for name in ("slow/1", "slow/2"):
            peers.connect(name, receive_maximum=1, acknowledges=False).subscribe("news", 1)
        peers.connect("slow/2b", receive_maximum=1, acknowledges=False).subscribe("more", 1)
        quick = peers.connect("quick")
        for topic in ("news", "news", "news", "more", "more"):
            quick.publish(topic, b"x", 1)
        wait_until(lambda: len(listed(managed, sort="backlog")) == 3, "messages wait")
        assert listed(managed, sort="backlog") == ["slow/2", "slow/1", "slow/2b"]
        told = pages(managed, "/heliograph/clients", sort="backlog", limit=1)
        assert [row["clientid"] for page in told for row in page["data"]] == ["slow/2", "slow/1", "slow/2b"]
        assert told[0]["meta"]["sort"] == "backlog"
        cursor = told[0]["meta"]["cursor"]
        assert listed(managed, sort="backlog", cursor=cursor) == ["slow/1", "slow/2b"]
        assert listed(managed, sort="inflight", like_clientid="2b") == ["slow/2b"]
        assert listed(managed, sort="subscriptions", clientid="slow/1") == ["slow/1"]
        assert listed(managed, sort="drops") == []
        assert listed(managed, min_backlog=2) == ["slow/2", "slow/1"]
        assert set(listed(managed, listener="tcp:default")) == {"slow/1", "slow/2", "slow/2b", "quick"}
        assert listed(managed, listener="ssl:default") == []
        (first,) = managed.api.get("/heliograph/clients", params={"sort": "backlog", "limit": 1}).json()["data"]
        assert (first["mqueue_len"], first["inflight_cnt"], first["connected"]) == (2, 1, True)
        stranger = base64.b64encode(b"backlog:2:9").decode()
        for query in ({"sort": "color"}, {"min_drops": -1}, {"cursor": cursor}):
            assert managed.api.get("/heliograph/clients", params=query).status_code == 400
        for by, place in (("drops", "x"), ("drops", cursor), ("backlog", stranger)):
            answer = managed.api.get("/heliograph/clients", params={"sort": by, "cursor": place})
            assert code(answer) == (400, "INVALID_PARAMETER")
            assert answer.json()["message"].startswith("cursor: ")


def test_clients_whose_messages_wait_in_storage_are_found(managed: Served) -> None:
    with Peers(managed) as peers:
        away = peers.connect("away", expiry_s=600)
        away.subscribe("news", 1)
        away.client.disconnect()
        get = managed.api.get
        wait_until(lambda: not get("/clients/away").json()["connected"], "it is away")
        peers.connect("pub").publish("news", b"x", 1)
        wait_until(lambda: listed(managed, sort="behind") == ["away"], "a message waits in storage")
        found = get("/clients/away").json()
        assert (found["mqueue_len"], found["asleep"], found["durable"]) == (0, False, True)
        assert found["behind_since"] <= found["disconnected_at"]
        assert get("/clients/pub").json()["behind_since"] is None
        assert listed(managed, sort="backlog") == []


def test_why_a_client_disconnected_is_remembered(managed: Served) -> None:
    with Peers(managed) as peers:
        peers.connect("leaves/1").client.disconnect()
        wait_until(lambda: not listed(managed, clientid="leaves/1"), "it has left")
        peer = peers.connect("leaves/1", keepalive=33)
        managed.api.delete("/clients/leaves%2F1")
        peer.closed()
        found = managed.api.get("/heliograph/clients/leaves%2F1/disconnects").json()["data"]
        assert [one["reason"] for one in found] == ["kicked", "normal"]
        assert found[1]["connected_at"] <= found[1]["at"] <= found[0]["connected_at"] <= found[0]["at"]
        assert found[0]["peername"].startswith("127.0.0.1:")
        assert (found[0]["listener"], found[0]["proto_ver"]) == ("tcp:default", 5)
        newest = managed.api.get("/heliograph/clients/leaves%2F1/disconnects", params={"limit": 1}).json()["data"]
        assert newest == found[:1]
        told = pages(managed, "/heliograph/clients/leaves%2F1/disconnects", limit=1)
        assert [page["data"] for page in told] == [found[:1], found[1:]]
        nothing = {"data": [], "meta": {"limit": 100, "hasnext": False}}
        assert managed.api.get("/heliograph/clients/stranger/disconnects").json() == nothing
        assert managed.api.get("/heliograph/clients/stranger/disconnects", params={"cursor": "x"}).status_code == 400


def test_a_plan_is_carried_out_for_just_those_that_it_named(managed: Served) -> None:
    api = managed.api
    with Peers(managed) as peers:
        for number in range(3):
            peers.connect(f"many/{number}")
        plan = planned(managed, like_clientid="many/")
        assert (plan["count"], plan["more"]) == (3, False)
        assert [one["clientid"] for one in plan["first"]] == ["many/2", "many/1", "many/0"]
        peers.connect("many/later")
        api.delete("/clients/many%2F0")
        with managed.client() as stranger:
            assert stranger.post("/heliograph/clients/kick", json={"plan": plan["plan"]}).status_code == 401
        assert api.post("/heliograph/clients/kick", json={"plan": plan["plan"]}).json() == {"kicked": 2, "gone": 1}
        assert listed(managed, like_clientid="many/") == ["many/later"]
        assert code(api.post("/heliograph/clients/kick", json={"plan": plan["plan"]})) == (404, "NOT_FOUND")
        audit = {"operation_id": "clients.kick_all"}
        wait_until(lambda: "many/1" in api.get("/audit", params=audit).text, "the audit shows whom")


def test_the_clients_of_a_plan_are_banned(managed: Served) -> None:
    api = managed.api
    with Peers(managed) as peers:
        peers.connect("bad/1")
        peers.connect("bad/2")
        plan = planned(managed, like_clientid="bad/")
        late = {"plan": plan["plan"], "until": "2020-01-01T00:00:00Z"}
        assert code(api.post("/heliograph/clients/ban", json=late)) == (400, "BAD_REQUEST")
        order = {"plan": plan["plan"], "reason": "too loud", "until": "2099-01-01T00:00:00Z"}
        assert api.post("/heliograph/clients/ban", json=order).json() == {
            "banned": 2,
            "banned_before": 0,
            "kicked": 2,
        }
        bans = {ban["who"]: ban for ban in api.get("/banned").json()["data"]}
        assert set(bans) == {"bad/1", "bad/2"}
        assert bans["bad/1"]["reason"] == "too loud"
        assert peers.refused("bad/1") == 0x8A
        assert api.delete("/banned").status_code == 204


@pytest.mark.parametrize("body", [{}, {"plan": 1}, {"plan": "x", "more": 1}, {"plan": "x" * 101}])
def test_what_is_no_plan_is_refused(managed: Served, body: dict[str, Any]) -> None:
    for path in ("kick", "ban"):
        assert code(managed.api.post(f"/heliograph/clients/{path}", json=body)) == (400, "BAD_REQUEST")


async def test_what_keeps_a_client_out_is_told_of_its_id(managed: Served) -> None:
    path = "/heliograph/clients/outcast/refusals"
    assert managed.api.get(path).json() == {"ban": None, "refused": [], "sentences": []}
    ban = {"as": "clientid", "who": "outcast", "by": "ann", "reason": "noise"}
    assert managed.api.post("/banned", json=ban).status_code == 200
    try:
        client = MqttClient(*await asyncio.open_connection("127.0.0.1", managed.port), p.V5)
        client.send_connect("outcast")
        assert (await client.take(p.Connack)).code == rc.BANNED
        await client.leave()
        found = managed.api.get(path).json()
        assert (found["ban"]["who"], found["ban"]["by"]) == ("outcast", "ann")
        (attempt,) = found["refused"]
        assert (attempt["what"], attempt["reason"], attempt["count"]) == ("connect", "banned", 1)
        first, second = found["sentences"]
        assert first.startswith("it is banned as clientid 'outcast' since ")
        assert second.endswith(": banned")
    finally:
        managed.api.delete("/banned/clientid/outcast")

"""Sources through the API, at a mosquitto: forms, states, counts, tests of connections, and what uses what."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.management import Served
from support.mosquitto import free_port, mosquitto
from support.running import MqttClient
from support.waiting import wait_until

pytestmark = [pytest.mark.service]

SOURCE = {
    "type": "mqtt",
    "name": "plant",
    "connector": "far",
    "parameters": {"topic": "a/#"},
    "local": {"topic": "from/${topic}"},
}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Where another broker is."""
    number = free_port()
    with mosquitto(tmp_path_factory.mktemp("mosquitto"), f"listener {number} 127.0.0.1\n"):
        yield number


@pytest.fixture
def api(managed: Served, port: int) -> Iterator[Any]:
    """The API of a node with a connector and a source, which are gone afterwards."""
    connector = {"type": "mqtt", "name": "far", "server": f"127.0.0.1:{port}", "proto_ver": "v5"}
    assert managed.api.post("/connectors", json=connector).status_code == 201
    assert managed.api.post("/sources", json=SOURCE).status_code == 201
    yield managed.api
    managed.api.delete("/connectors/mqtt:far", params={"also_delete_dep_actions": True})
    assert managed.api.get("/sources").json() == []


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def is_connected(api: Any) -> bool:
    return bool(api.get("/sources/mqtt:plant").json()["status"] == "connected")


def send(port: int, topic: str, *payloads: bytes) -> None:
    """Publish at the other broker."""

    async def run() -> None:
        client = MqttClient(*await asyncio.open_connection("127.0.0.1", port), 5)
        client.send_connect("there")
        for payload in payloads:
            await client.publish(topic, payload, 1)
        client.close()
        await client.until_closed()

    asyncio.run(run())


def test_a_source_is_made_counts_and_is_shown_with_what_uses_it(api: Any, port: int) -> None:
    wait_until(lambda: is_connected(api))
    shown = api.get("/sources/mqtt:plant").json()
    assert (shown["type"], shown["name"], shown["connector"], shown["enable"]) == ("mqtt", "plant", "far", True)
    assert (shown["parameters"]["topic"], shown["local"]["topic"], shown["local"]["qos"]) == (
        "a/#",
        "from/${topic}",
        "same",
    )
    assert (shown["rules"], shown["status_reason"]) == ([], "")
    assert shown["node_status"] == [{"node": "heliograph@127.0.0.1", "status": "connected", "status_reason": ""}]
    assert api.get("/sources").json() == [shown]
    assert api.get("/connectors/mqtt:far").json()["sources"] == ["plant"]
    rule = {"id": "reads", "sql": "SELECT * FROM '$bridges/mqtt:plant'", "actions": []}
    assert api.post("/rules", json=rule).status_code == 201
    assert [one["id"] for one in api.get("/rules", params={"source": "mqtt:plant"}).json()["data"]] == ["reads"]
    (summary,) = api.get("/sources_summary").json()
    assert (summary["name"], summary["rules"]) == ("plant", ["reads"])
    send(port, "a/1", b"1", b"2", b"3")
    wait_until(lambda: api.get("/sources/mqtt:plant/metrics").json()["metrics"]["received"] == 3)
    metrics = api.get("/sources/mqtt:plant/metrics").json()
    assert metrics["node_metrics"] == [{"node": "heliograph@127.0.0.1", "metrics": metrics["metrics"]}]
    assert metrics["metrics"]["dropped"] == 0
    assert api.get("/rules/reads/metrics").json()["metrics"]["matched"] == 3
    assert api.put("/sources/mqtt:plant/metrics/reset").status_code == 204
    assert api.get("/sources/mqtt:plant/metrics").json()["metrics"]["received"] == 0
    in_use = api.delete("/sources/mqtt:plant")
    assert (refused(in_use), in_use.json()["rules"]) == ((400, "BAD_REQUEST"), ["reads"])
    assert api.delete("/rules/reads").status_code == 204
    in_use = api.delete("/connectors/mqtt:far")
    assert (refused(in_use), in_use.json()["active_channels"]) == ((400, "BAD_REQUEST"), ["mqtt:plant"])


def test_it_is_changed_enabled_disabled_and_started(api: Any) -> None:
    wait_until(lambda: is_connected(api))
    shown = api.get("/sources/mqtt:plant").json()
    changed = api.put("/sources/mqtt:plant", json={**shown, "description": "d"})
    assert (changed.status_code, changed.json()["description"]) == (200, "d")
    assert api.put("/sources/mqtt:plant/enable/false").status_code == 204
    shown = api.get("/sources/mqtt:plant").json()
    assert (shown["enable"], shown["status"], shown["status_reason"]) == (
        False,
        "disconnected",
        "the source is disabled",
    )
    assert refused(api.post("/sources/mqtt:plant/start")) == (400, "BAD_REQUEST")
    assert api.put("/sources/mqtt:plant/enable/true").status_code == 204
    wait_until(lambda: is_connected(api))
    assert api.post("/sources/mqtt:plant/restart").status_code == 204
    assert refused(api.get("/sources/mqtt:no")) == refused(api.put("/sources/mqtt:no/enable/true"))
    assert refused(api.post("/sources", json=SOURCE)) == (400, "ALREADY_EXISTS")


def test_a_connection_is_tested_before_it_is_saved(api: Any, tmp_path: Path) -> None:
    assert api.post("/sources_probe", json={**SOURCE, "name": "new"}).status_code == 204
    assert refused(api.post("/sources_probe", json={**SOURCE, "connector": "no"})) == (404, "NOT_FOUND")
    nowhere = {"type": "mqtt", "name": "nowhere", "server": f"127.0.0.1:{free_port()}"}
    assert api.post("/connectors", json=nowhere).status_code == 201
    answer = api.post("/sources_probe", json={**SOURCE, "connector": "nowhere"})
    assert refused(answer) == (400, "TEST_FAILED")
    assert "cannot connect" in answer.json()["message"]
    assert api.delete("/connectors/mqtt:nowhere").status_code == 204

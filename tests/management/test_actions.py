"""Connectors and actions through the API, on a node without a pipeline: forms, states, tests of connections."""

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from support.management import Served
from support.waiting import wait_until

HTTP = {"type": "http", "name": "web"}
ACTION = {"type": "http", "name": "tell", "connector": "web", "parameters": {"path": "/x", "body": "${.}"}}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Where something listens that never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def api(managed: Served, server: str) -> Iterator[Any]:
    """The API of a node with a connector and an action, which are gone afterwards."""
    headers = {"authorization": "Bearer hunter2", "content-type": "application/json"}
    body = {**HTTP, "url": server, "headers": headers, "description": "d", "pool_size": 3, "ssl": {"enable": False}}
    assert managed.api.post("/connectors", json=body).status_code == 201
    assert managed.api.post("/actions", json=ACTION).status_code == 201
    yield managed.api
    managed.api.delete("/connectors/http:web", params={"also_delete_dep_actions": True})
    assert managed.api.get("/actions").json() == []


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_a_connector_is_shown_with_its_settings_and_without_its_secrets(api: Any, server: str) -> None:
    shown = api.get("/connectors/http:web").json()
    assert (shown["type"], shown["name"], shown["enable"], shown["description"]) == ("http", "web", True, "d")
    assert (shown["url"], shown["pool_size"], shown["connect_timeout"]) == (server, 3, "15s")
    assert shown["headers"] == {"authorization": "******", "content-type": "application/json"}
    assert shown["ssl"]["enable"] is False
    assert shown["resource_opts"]["health_check_interval"] == "15s"
    assert (shown["actions"], shown["sources"], shown["status_reason"]) == (["tell"], [], "")
    assert shown["node_status"] == [{"node": "heliograph@127.0.0.1", "status": "connected", "status_reason": ""}]
    assert api.get("/connectors").json() == [shown]
    assert "hunter2" not in api.get("/connectors").text
    # What was read may be sent back, and stars keep what they stand for.
    changed = api.put("/connectors/http:web", json={**shown, "pool_size": 4})
    assert (changed.status_code, changed.json()["pool_size"]) == (200, 4)
    assert api.put("/connectors/http:web", json={"url": server}).json()["headers"] == {}
    assert refused(api.put("/connectors/http:web", json={"url": server, "headers": {"a": "******"}})) == (
        400,
        "BAD_REQUEST",
    )


def test_an_action_is_shown_with_its_rules_and_why_it_waits(api: Any) -> None:
    shown = api.get("/actions/http:tell").json()
    assert (shown["type"], shown["name"], shown["connector"], shown["rules"]) == ("http", "tell", "web", [])
    assert (shown["parameters"]["path"], shown["parameters"]["method"]) == ("/x", "post")
    rule = {"id": "one", "sql": "SELECT * FROM 't'", "actions": ["http:tell"]}
    made = api.post("/rules", json=rule)
    reader_off = "set durable_storage.flight.enable = true"
    assert (made.status_code, reader_off in made.headers["warning"]) == (201, True)
    assert "warning" not in api.put("/rules/one", json={"sql": rule["sql"], "actions": []}).headers
    _is_off(api, rule, "storage_reader_off", reader_off)
    assert api.put("/configs", content="actions.engine = spark").status_code == 200
    _is_off(api, rule, "pipeline_off", "set pipeline.enable = true")
    assert api.put("/configs", content="actions.engine = auto").status_code == 200
    assert api.get("/rules/one/metrics").json()["metrics"]["actions.pending"] == 0
    shown = api.get("/actions/http%3Atell").json()
    assert (shown["status"], shown["rules"]) == ("disconnected", ["one"])
    (summary,) = api.get("/actions_summary").json()
    assert (summary["name"], summary["rules"], summary["status"]) == ("tell", ["one"], "disconnected")
    assert api.get("/bridges").json()[0]["name"] == "tell"
    assert api.get("/bridges/http:tell").json() == api.get("/actions").json()[0]
    metrics = api.get("/actions/http:tell/metrics").json()
    assert metrics["node_metrics"] == [{"node": "heliograph@127.0.0.1", "metrics": metrics["metrics"]}]
    names = {"matched", "success", "failed", "dropped", "dropped.queue_full", "inflight", "rate", "rate_max"}
    assert names <= metrics["metrics"].keys() >= {"rate_last5m", "queuing", "retried", "late_reply", "received"}
    assert api.get("/bridges/http:tell/metrics").json() == metrics
    assert api.put("/actions/http:tell/metrics/reset").status_code == 204
    in_use = api.delete("/actions/http:tell")
    assert refused(in_use) == (400, "BAD_REQUEST")
    assert in_use.json()["rules"] == ["one"]
    assert api.delete("/actions/http:tell", params={"also_delete_dep_actions": True}).status_code == 204
    assert api.get("/rules/one").json()["actions"] == []
    assert refused(api.get("/actions/http:tell")) == (404, "NOT_FOUND")
    assert api.delete("/rules/one").status_code == 204


def _is_off(api: Any, rule: dict[str, Any], name: str, what: str) -> None:
    """Check that a rule, an alarm and the status of its action say what is to be set."""
    assert what in api.put("/rules/one", json=rule).headers["warning"]
    assert api.get("/rules/one").json()["actions"] == ["http:tell"]
    (alarm,) = (
        one for one in api.get("/alarms").json()["data"] if one["name"] in ("pipeline_off", "storage_reader_off")
    )
    assert (alarm["name"], alarm["details"]) == (name, {"actions": ["http:tell"]})
    assert what in alarm["message"]
    wait_until(lambda: what in api.get("/actions/http:tell").json()["status_reason"])


def test_what_is_used_is_not_deleted(api: Any) -> None:
    answer = api.delete("/connectors/http:web")
    assert refused(answer) == (400, "BAD_REQUEST")
    assert answer.json()["active_channels"] == ["http:tell"]
    assert api.delete("/actions/http:tell").status_code == 204
    assert api.delete("/connectors/http:web").status_code == 204
    for path in ("/connectors/http:web", "/actions/http:tell"):
        assert refused(api.get(path)) == refused(api.delete(path)) == (404, "NOT_FOUND")


def test_both_are_enabled_and_disabled(api: Any) -> None:
    assert api.put("/actions/http:tell/enable/false").status_code == 204
    shown = api.get("/actions/http:tell").json()
    assert (shown["enable"], shown["status"], shown["status_reason"]) == (
        False,
        "disconnected",
        "the action is disabled",
    )
    assert refused(api.post("/actions/http:tell/start")) == (400, "BAD_REQUEST")
    assert api.put("/actions/http:tell/enable/true").status_code == 204
    assert api.put("/connectors/http:web/enable/false").status_code == 204
    assert "disabled" in api.get("/actions/http:tell").json()["status_reason"]
    assert api.put("/connectors/http:web/enable/true").status_code == 204
    assert api.post("/connectors/http:web/start").status_code == 204
    assert api.post("/actions/http:tell/start").status_code == 204
    assert api.post("/nodes/heliograph@127.0.0.1/connectors/http:web/start").status_code == 204
    assert refused(api.post("/nodes/nobody/actions/http:tell/start")) == (404, "NOT_FOUND")
    assert refused(api.post("/connectors/http:web/stop")) == (400, "BAD_REQUEST")
    assert refused(api.put("/actions/http:no/enable/true")) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/connectors", {**HTTP, "name": "x"}, "url"),
        ("/connectors", {**HTTP, "name": "x", "url": "ftp://a"}, "http://"),
        ("/connectors", {**HTTP, "name": "x", "url": "http://a", "nonsense": 1}, "nonsense"),
        ("/connectors", {"type": "oracle", "name": "x"}, "there is no type 'oracle'; there are http, "),
        ("/connectors", {**HTTP, "name": "no name", "url": "http://a"}, "no valid name"),
        ("/connectors", {"name": "x"}, "type"),
        ("/actions", {**ACTION, "name": "x", "connector": "nothing"}, "no such connector of type http; there are: web"),
        ("/actions", {**ACTION, "name": "x", "parameters": {"method": "head"}}, "post, put, patch, get or delete"),
        ("/sources", {"type": "mqtt", "name": "x"}, "parameters"),
        ("/sources", {"type": "pulsar", "name": "x"}, "there is no type 'pulsar'; there are mqtt"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(api: Any, path: str, body: dict[str, Any], told: str) -> None:
    answer = api.post(path, json=body)
    assert refused(answer) == (400, "BAD_REQUEST")
    assert told in answer.json()["message"]


def test_a_name_is_given_once_and_an_id_has_a_type(api: Any, server: str) -> None:
    assert refused(api.post("/connectors", json={**HTTP, "url": server})) == (400, "ALREADY_EXISTS")
    assert refused(api.post("/actions", json=ACTION)) == (400, "ALREADY_EXISTS")
    assert refused(api.get("/actions/tell")) == (400, "BAD_REQUEST")
    assert refused(api.put("/actions/http:no", json=ACTION)) == (404, "NOT_FOUND")


@pytest.mark.service
def test_a_connection_is_tested_before_it_is_saved(api: Any, server: str) -> None:
    pytest.importorskip("pyspark")
    with closing(socket.socket()) as silent:  # it does not listen, and nothing else can meanwhile
        silent.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{silent.getsockname()[1]}"
        answer = api.post("/connectors_probe", json={**HTTP, "name": "new", "url": nowhere})
    assert refused(answer) == (400, "TEST_FAILED")
    assert "refused" in answer.json()["message"]
    assert api.post("/connectors_probe", json={**HTTP, "name": "new", "url": server}).status_code == 204
    kept = {"headers": {"authorization": "******"}, "url": server}
    assert api.post("/connectors_probe", json={**HTTP, **kept}).status_code == 204
    assert refused(api.post("/connectors_probe", json={**HTTP, **kept, "name": "new"})) == (400, "BAD_REQUEST")
    assert api.post("/actions_probe", json=ACTION).status_code == 204
    assert refused(api.post("/actions_probe", json={**ACTION, "connector": "no"})) == (404, "NOT_FOUND")
    assert refused(api.post("/actions_probe", json={**ACTION, "parameters": {"qos": 1}})) == (400, "BAD_REQUEST")
    assert api.get("/connectors").json()[0]["name"] == "web"


def test_there_are_types(api: Any) -> None:
    assert "mqtt" in api.get("/source_types").json()
    assert {"http", "kafka_producer", "pgsql", "parquet", "s3"} <= set(api.get("/action_types").json())

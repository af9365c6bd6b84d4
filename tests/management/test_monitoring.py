"""Metrics, statistics, samples and scrapes, as tools of EMQX ask for them."""

import math
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from prometheus_client.parser import text_string_to_metric_families

from heliograph.observe.metrics import METRICS, STATISTICS
from support.api_node import ApiNode
from support.management import Served
from support.waiting import wait_until

NODE = "heliograph@127.0.0.1"


def scraped(text: str) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """The numbers of a text by name and labels, as Prometheus reads them."""
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.type != "unknown", family.name
        for sample in family.samples:
            numbers = found.setdefault(sample.name, {})
            assert frozenset(sample.labels.items()) not in numbers, sample
            numbers[frozenset(sample.labels.items())] = sample.value
    return found


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A node with a rule."""
    rule = 'rule_engine.rules.one { sql = "SELECT payload FROM \\"t/#\\"", actions = [] }'
    settings = f"durable_storage.flight.enable = false\n{rule}\ndashboard.sample_interval = 1"
    with ApiNode(tmp_path_factory.mktemp("monitored"), settings) as node:
        yield node


@pytest.fixture(scope="module")
def busy(managed: Served) -> Iterator[Served]:
    """A node with a client that subscribes and publishes."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, "busy")
    heard = threading.Event()
    client.on_message = lambda *_: heard.set()
    client.connect("127.0.0.1", managed.port)
    client.loop_start()
    subscribed = threading.Event()
    client.on_subscribe = lambda *_: subscribed.set()
    client.subscribe("t/#", 1)
    assert subscribed.wait(20)
    client.publish("t/1", b"x", 1).wait_for_publish(20)
    assert heard.wait(20)
    yield managed
    client.disconnect()
    client.loop_stop()


def test_counters_and_statistics(busy: Served) -> None:
    (metrics,) = busy.api.get("/metrics").json()
    assert metrics.pop("node") == NODE
    assert list(metrics) == list(METRICS)
    assert metrics["messages.qos1.received"] >= 1
    assert busy.api.get("/metrics", params={"aggregate": "true"}).json().keys() == metrics.keys()
    assert busy.api.get(f"/nodes/{NODE}/metrics").json()["client.connected"] >= 1
    stats = busy.api.get("/stats", params={"aggregate": "true"}).json()
    assert set(stats) == {f"{name}.{end}" for name in STATISTICS for end in ("count", "max")}
    assert (stats["connections.count"], stats["live_connections.count"]) == (1, 1)
    highest = partial(busy.api.get, f"/nodes/{NODE}/stats")  # it is looked at from time to time
    wait_until(lambda: highest().json()["subscriptions.max"] >= 1, "the highest count of subscriptions is seen")
    for path in ("/nodes/nobody@here/metrics", "/nodes/nobody@here/stats", "/monitor/nodes/nobody@here"):
        missing = busy.api.get(path)
        assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")


def test_a_scrape_has_emqxs_names_and_ours(busy: Served) -> None:
    with busy.client() as stranger:
        answer = stranger.get("/prometheus/stats")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    numbers = scraped(answer.text)
    renamed = {"packets.connect.received": "packets_connect"}
    renamed["messages.dropped.await_pubrel_timeout"] = "messages_dropped_expired"
    for name in (*METRICS, *(f"{name}.{end}" for name in STATISTICS for end in ("count", "max"))):
        shown = f"emqx_{renamed.get(name, name.replace('.', '_'))}"
        # The parser puts `_total` behind the names of counters, as OpenMetrics has them.
        assert shown in numbers or f"{shown}_{'total'}" in numbers, shown
    plain = frozenset[tuple[str, str]]()
    assert numbers["emqx_cluster_nodes_running"][plain] == 1
    assert numbers["emqx_vm_total_memory"][plain] > numbers["emqx_vm_used_memory"][plain] > 0
    assert numbers["heliograph_storage_open"][frozenset({("database", "messages")})] == 1
    buckets = numbers["heliograph_loop_turn_seconds_bucket"]
    assert max(buckets.values()) == numbers["heliograph_loop_turn_seconds_count"][plain]
    assert all(math.isfinite(value) for values in numbers.values() for value in values.values())
    kinds, helps = (re.findall(f"^# {word} (\\S+)", answer.text, re.MULTILINE) for word in ("TYPE", "HELP"))
    assert kinds == helps
    assert len(set(kinds)) == len(kinds)


def test_modes_and_the_json_form(busy: Served) -> None:
    by_node = scraped(busy.api.get("/prometheus/stats", params={"mode": "all_nodes_unaggregated"}).text)
    assert list(by_node["emqx_sessions_count"]) == [frozenset({("node", NODE)})]
    summed = scraped(busy.api.get("/prometheus/stats", params={"mode": "all_nodes_aggregated"}).text)
    assert list(summed["emqx_sessions_count"]) == [frozenset()]
    as_json = {"accept": "application/json"}
    groups = busy.api.get("/prometheus/stats", headers=as_json).json()
    assert set(groups) == {
        *("stats", "metrics", "packets", "messages", "delivery", "client", "session", "cluster", "olp", "acl"),
        *("authn", "certs"),
    }
    assert groups["stats"]["emqx_sessions_count"] == 1
    unaggregated = busy.api.get("/prometheus/stats", headers=as_json, params={"mode": "all_nodes_unaggregated"}).json()
    assert unaggregated["stats"]["emqx_sessions_count"] == [{"node": NODE, "value": 1}]
    wrong = busy.api.get("/prometheus/stats", params={"mode": "some"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "BAD_REQUEST")


def test_access_rules_and_policies_are_scraped(busy: Served) -> None:
    access = scraped(busy.api.get("/prometheus/auth").text)
    assert access["emqx_banned_count"] == {frozenset(): 0}
    assert set(busy.api.get("/prometheus/auth", headers={"accept": "application/json"}).json()) == {
        *("emqx_authn", "emqx_authz", "emqx_banned")
    }
    integration = scraped(busy.api.get("/prometheus/data_integration").text)
    assert integration["emqx_rules_count"] == {frozenset(): 1}
    assert integration["emqx_rule_matched_total"][frozenset({("id", "one")})] >= 1
    for path in ("schema_validation", "message_transformation"):
        assert busy.api.get(f"/prometheus/{path}").status_code == 200


def test_why_clients_left_and_what_the_configuration_is(busy: Served) -> None:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, "leaving")
    client.connect("127.0.0.1", busy.port)
    client.loop_start()
    client.publish("t/9", b"x", 1).wait_for_publish(20)
    client.disconnect()
    client.loop_stop()
    left = frozenset({("listener_type", "tcp"), ("listener_name", "default"), ("reason", "normal")})

    def numbers() -> dict[str, dict[frozenset[tuple[str, str]], float]]:
        return scraped(busy.api.get("/prometheus/stats").text)

    wait_until(lambda: left in numbers().get("emqx_client_disconnected_reason_total", {}), "the client has left")
    assert numbers()["emqx_conf_sync_txid"][frozenset()] >= 0
    assert not any(name.startswith("heliograph_client_disconnected") for name in numbers())


def test_what_happens_now_and_what_happened(busy: Served) -> None:
    current = busy.api.get("/monitor_current").json()
    assert (current["live_connections"], current["subscriptions"], current["cluster_sessions"]) == (1, 1, 1)
    assert all(isinstance(value, int) for value in current.values())
    of_node = busy.api.get(f"/monitor_current/nodes/{NODE}").json()
    assert of_node["node_uptime"] >= 0
    assert not {"subscriptions_durable", "disconnected_durable_sessions", "cluster_sessions"} & of_node.keys()
    wait_until(lambda: busy.api.get("/monitor").json(), "there is a sample")
    samples = busy.api.get("/monitor", params={"latest": 3600}).json()
    assert samples[-1].keys() >= {"time_stamp", "connections", "received", "persisted"}
    assert busy.api.get(f"/monitor/nodes/{NODE}").json()
    assert busy.api.delete("/monitor").status_code == 204
    wrong = busy.api.get("/monitor", params={"latest": "soon"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "BAD_REQUEST")


def test_slow_subscriptions(busy: Served) -> None:
    settings = busy.api.get("/slow_subscriptions/settings").json()
    assert settings == {
        "enable": False,
        "threshold": "500ms",
        "expire_interval": "300s",
        "top_k_num": 10,
        "stats_type": "whole",
    }
    changed = {**settings, "enable": True, "top_k_num": 5, "stats_type": "internal"}
    assert busy.api.put("/slow_subscriptions/settings", json=changed).json() == changed
    assert busy.api.get("/slow_subscriptions").json() == {"data": []}
    assert busy.api.delete("/slow_subscriptions").status_code == 204
    for wrong in ({"top_k_num": 1001}, {"stats_type": "all"}, {"threshold": "soon"}, {"more": 1}):
        refused = busy.api.put("/slow_subscriptions/settings", json={**settings, **wrong})
        assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST"), wrong
    assert busy.api.put("/slow_subscriptions/settings", json=settings).status_code == 200


def test_topic_metrics(busy: Served) -> None:
    assert busy.api.get("/mqtt/topic_metrics").json() == []
    made = busy.api.post("/mqtt/topic_metrics", json={"topic": "t/1"})
    assert (made.status_code, made.json()["topic"]) == (200, "t/1")
    client = mqtt.Client(CallbackAPIVersion.VERSION2, "counted")
    client.connect("127.0.0.1", busy.port)
    client.loop_start()
    for topic in ("t/1", "t/1", "t/2"):
        client.publish(topic, b"x", 1).wait_for_publish(20)
    client.disconnect()
    client.loop_stop()
    found = busy.api.get("/mqtt/topic_metrics/t%2F1").json()
    metrics = found["metrics"]
    assert (metrics["message.in.count"], metrics["message.out.count"]) == (2, 2)
    assert (metrics["message.qos1.in.count"], metrics["message.dropped.count"]) == (2, 0)
    assert metrics["messages.in.count"] == 2
    for topic, status, code in (("t/1", 400, "BAD_TOPIC"), ("t/#", 400, "BAD_TOPIC"), ("", 400, "BAD_REQUEST")):
        refused = busy.api.post("/mqtt/topic_metrics", json={"topic": topic})
        assert (refused.status_code, refused.json()["code"]) == (status, code), topic
    again = busy.api.put("/mqtt/topic_metrics", json={"action": "reset", "topic": "t/1"}).json()
    assert (again["metrics"]["message.in.count"], "reset_time" in again) == (0, True)
    assert busy.api.put("/mqtt/topic_metrics", json={"action": "reset"}).status_code == 200
    missing = busy.api.put("/mqtt/topic_metrics", json={"action": "reset", "topic": "t/9"})
    assert (missing.status_code, missing.json()["code"]) == (404, "TOPIC_NOT_FOUND")
    assert busy.api.delete("/mqtt/topic_metrics/t%2F1").status_code == 204
    for answer in (busy.api.delete("/mqtt/topic_metrics/t%2F1"), busy.api.get("/mqtt/topic_metrics/t%2F1")):
        assert (answer.status_code, answer.json()["code"]) == (404, "TOPIC_NOT_FOUND")


def test_no_telemetry(managed: Served) -> None:
    assert managed.api.get("/telemetry/status").json() == {"enable": False}
    for enable in (False, True):
        assert managed.api.put("/telemetry/status", json={"enable": enable}).status_code == 400
    assert managed.api.get("/telemetry/data").status_code == 404


class _Gateway(BaseHTTPRequestHandler):
    """Keeps what is pushed."""

    pushed: ClassVar[list[tuple[str, str, str]]] = []

    def do_PUT(self) -> None:
        """Take metrics."""
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.pushed.append((self.path, self.headers.get("authorization", ""), body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_metrics_are_pushed_and_scrapes_may_need_a_key(managed: Served) -> None:
    before = managed.api.get("/prometheus").json()
    assert before["push_gateway"]["job_name"] == "${name}/instance/${name}~${host}"
    with HTTPServer(("127.0.0.1", 0), _Gateway) as gateway:
        threading.Thread(target=gateway.serve_forever, daemon=True).start()
        push = {
            "enable": True,
            "url": f"http://127.0.0.1:{gateway.server_port}",
            "interval": "1s",
            "headers": {"Authorization": "secret"},
        }
        assert managed.api.put("/prometheus", json={"push_gateway": push, "enable_basic_auth": True}).status_code == 200
        wait_until(lambda: _Gateway.pushed, "metrics are pushed")
        shown = managed.api.get("/prometheus").json()
        assert shown["push_gateway"]["headers"] == {"Authorization": "******"}
        assert managed.api.put("/prometheus", json=shown).status_code == 200
        with managed.client() as stranger:
            assert stranger.get("/prometheus/stats").status_code == 401
        assert managed.api.get("/prometheus/stats").status_code == 200
        flat = {
            "push_gateway_server": push["url"],
            "interval": "15s",
            "enable": False,
            "vm_memory_collector": "enabled",
        }
        assert managed.api.put("/prometheus", json=flat).status_code == 200
        wait_until(lambda: not managed.api.get("/prometheus").json()["push_gateway"]["enable"], "nothing is pushed")
        gateway.shutdown()
    path, authorization, text = _Gateway.pushed[0]
    assert path == "/metrics/job/heliograph/instance/heliograph~127.0.0.1"
    assert authorization == "secret"
    assert "emqx_sessions_count" in scraped(text)
    assert managed.api.put("/prometheus", json={"push_gateway": {"url": "here"}}).status_code == 400
    with_password = {"push_gateway": {"url": "http://user:password@127.0.0.1:9091"}}
    assert managed.api.put("/prometheus", json=with_password).status_code == 400  # it would be shown, and logged


def test_pages_of_other_sites_read_no_metrics(busy: ApiNode) -> None:
    with busy.client() as stranger:
        for path in ("/prometheus/stats", "/schemas/hotconf"):
            assert stranger.get(path).status_code == 200
            assert stranger.get(path, headers={"host": "localhost:18083"}).status_code == 200
            rebound = stranger.get(path, headers={"host": "evil.example:18083"})
            assert rebound.status_code == 403
            assert "evil.example" in rebound.json()["message"]
            for foreign in ({"sec-fetch-site": "cross-site"}, {"origin": "http://evil.example"}):
                assert stranger.get(path, headers=foreign).status_code == 403
            assert busy.api.get(path, headers={"host": "broker.example"}).status_code == 200


def test_no_page_is_beyond_what_there_can_be(busy: ApiNode) -> None:
    answer = busy.api.get("/subscriptions", params={"page": "99999999999999999999"})
    assert answer.status_code == 400
    assert answer.json()["message"].startswith("page: ")
    assert "1000000000" in answer.json()["message"]

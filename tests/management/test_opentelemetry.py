"""Traces, metrics and the log of a node at a real collector, over HTTP and gRPC; the settings and lists in the API."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from heliograph.mqtt import packets as p
from support.collector import GrpcCollectorServer, HttpCollectorServer, Received, attributes_of
from support.managed_clients import connected
from support.management import ManagedNode
from support.packets import properties_of
from support.waiting import wait_until

pytestmark = pytest.mark.service

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture(scope="module")
def managed(managed_process: ManagedNode) -> ManagedNode:
    """A node whose process its telemetry describes."""
    return managed_process


@pytest.fixture(autouse=True)
def _as_it_was(managed: ManagedNode) -> Iterator[None]:
    yield
    assert managed.api.put("/opentelemetry", json={}).status_code == 200
    for kind in ("clientid", "topic"):
        assert managed.api.delete(f"/opentelemetry/whitelist/{kind}").status_code == 204


def export(managed: ManagedNode, endpoint: str, timeout: str = "60s", **more: Any) -> None:
    """Have the node export traces of messages that ask for it, and what else is said.

    Args:
        timeout: For so long a request is tried; what is tried again may come twice.
    """
    protocol = more.pop("protocol", "http_protobuf")
    e2e = {"sample_ratio": "0%", "client_messaging": True, "msg_trace_level": 1} | more.pop("e2e", {})
    traces = {
        "enable": True,
        "scheduled_delay": "20ms",
        "exporting_timeout": timeout,
        "filter": {"trace_mode": "e2e", "e2e_tracing_options": e2e},
    }
    exporter = {"endpoint": endpoint, "protocol": protocol, "headers": {"x-token": "of-the-collector"}}
    answer = managed.api.put("/opentelemetry", json={"exporter": exporter, "traces": traces, **more})
    assert answer.status_code == 200, answer.text


def publish(managed: ManagedNode, topic: str, count: int = 1, traceparent: str = SAMPLED) -> list[p.Publish]:
    """Publish messages in a trace, at QoS 1: as a subscriber gets them, which acknowledges them."""

    async def run() -> list[p.Publish]:
        async with connected(managed, "reader") as reader, connected(managed, "publisher") as publisher:
            await reader.subscribe(topic, 1)
            found = []
            for _ in range(count):
                user = [("traceparent", traceparent)] if traceparent else []
                await publisher.publish(topic, b"21.5", 1, user_property=user)
                packet = await reader.take(p.Publish)
                reader.acknowledge(packet)
                found.append(packet)
            await reader.ping()
            return found

    return asyncio.run(run())


def names(received: Received) -> list[str]:
    return sorted(span.name for span in received.spans())


def check_one_trace(received: Received, headers: dict[str, str]) -> None:
    """All spans of a message that its publisher traces."""
    wanted = ["broker.puback", "broker.publish", "client.puback", "client.publish", "message.route", "message.store"]
    wait_until(lambda: names(received) == sorted(wanted), lambda: f"all spans came, not {names(received)}")
    spans = {span.name: span for span in received.spans()}
    root, route, sent = spans["client.publish"], spans["message.route"], spans["broker.publish"]
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert root.parent_span_id.hex() == PARENT
    assert (route.parent_span_id, sent.parent_span_id) == (root.span_id, route.span_id)
    assert spans["client.puback"].parent_span_id == sent.span_id
    assert root.start_time_unix_nano <= sent.start_time_unix_nano <= sent.end_time_unix_nano
    attributes = attributes_of(root.attributes)
    assert attributes["message.topic"] == "room/1"
    assert attributes["client.clientid"] == "publisher"
    assert attributes["message.payload_size"] == 4
    assert attributes["cluster.id"] == "emqxcl"
    assert attributes_of(sent.attributes)["client.clientid"] == "reader"
    resource = received.resources()[0]
    assert resource["service.name"] == "heliograph"
    assert "@" in resource["service.instance.id"]
    assert headers.items() <= received.headers.items()


def test_a_message_is_traced_over_http(managed: ManagedNode) -> None:
    with HttpCollectorServer() as collector:
        export(managed, collector.endpoint)
        (packet,) = publish(managed, "room/1")
        assert properties_of(packet)["User-Property"] == [("traceparent", SAMPLED)]
        check_one_trace(collector.received, {"x-token": "of-the-collector"})


def test_a_message_is_traced_over_grpc(managed: ManagedNode) -> None:
    with GrpcCollectorServer() as collector:
        export(managed, collector.endpoint, protocol="grpc")
        publish(managed, "room/1")
        check_one_trace(collector.received, {"x-token": "of-the-collector"})


def test_metrics_are_sums_and_gauges_with_the_names_of_emqx(managed: ManagedNode) -> None:
    with HttpCollectorServer() as collector:
        export(managed, collector.endpoint, metrics={"enable": True, "interval": "100ms"})
        publish(managed, "room/1")

        def count() -> int:
            metric = collector.received.metrics().get("emqx.messages.qos1.received")
            return metric.sum.data_points[0].as_int if metric is not None else 0

        wait_until(lambda: count() > 0, "the message is counted")
        found = collector.received.metrics()
        total = found["emqx.packets.connect"].sum
        assert total.is_monotonic
        assert total.aggregation_temporality == 2
        point = total.data_points[0]
        assert point.as_int >= 2
        assert 0 < point.start_time_unix_nano < point.time_unix_nano
        assert found["emqx.messages.dropped.expired"].HasField("sum")
        assert found["emqx.sessions.count"].HasField("gauge")
        assert found["emqx.total.memory"].gauge.data_points[0].as_int > 2**20
        failed = {attributes_of(one.attributes)["point"] for one in found["heliograph.hooks.failed"].sum.data_points}
        assert "message.publish" in failed
        lag = found["heliograph.loop.lag"].histogram.data_points[0]
        assert len(lag.bucket_counts) == len(lag.explicit_bounds) + 1
        assert sum(lag.bucket_counts) == lag.count


def test_the_log_goes_to_the_collector(managed: ManagedNode) -> None:
    with HttpCollectorServer() as collector:
        logs = {"enable": True, "level": "info", "scheduled_delay": "20ms"}
        export(managed, collector.endpoint, logs=logs)
        assert managed.api.put("/configs/global_zone", json={"mqtt": {"max_topic_levels": 100}}).status_code == 200
        wait_until(lambda: collector.received.logs(), "an entry came")
        entry = collector.received.logs()[0]
        assert (entry.severity_text, entry.severity_number) == ("INFO", 9)
        assert entry.body.string_value
        assert attributes_of(entry.attributes)["logger"].startswith("heliograph")


def test_a_collector_that_is_away_is_an_alarm_and_nothing_is_lost(managed: ManagedNode) -> None:
    collector = HttpCollectorServer()
    with closing(collector):
        _check_that_nothing_is_lost(managed, collector)


def _check_that_nothing_is_lost(managed: ManagedNode, collector: HttpCollectorServer) -> None:
    export(managed, collector.endpoint, timeout="500ms")
    publish(managed, "room/1", 3)

    def published() -> set[bytes]:
        return {span.span_id for span in collector.received.spans() if span.name == "client.publish"}

    def alarms() -> list[str]:
        return [one["name"] for one in managed.api.get("/alarms").json()["data"]]

    wait_until(lambda: "opentelemetry_export" in alarms(), lambda: f"the alarm stands, not {alarms()}")
    with collector:
        wait_until(lambda: len(published()) == 3, "all spans came")
        wait_until(lambda: "opentelemetry_export" not in alarms(), "the alarm has ended")


def test_a_collector_that_refuses_for_now_is_asked_again(managed: ManagedNode) -> None:
    with HttpCollectorServer() as collector:
        collector.received.refusals = 1
        export(managed, collector.endpoint)
        publish(managed, "room/1")
        wait_until(lambda: "client.publish" in names(collector.received), "the spans came")
        assert collector.received.refused_count == 1


def test_settings_are_shown_as_emqx_has_them_and_wrong_ones_are_refused(managed: ManagedNode) -> None:
    with HttpCollectorServer() as collector:
        export(managed, collector.endpoint, e2e={"sample_ratio": "12.5%"})
        shown = managed.api.get("/opentelemetry").json()
        assert shown["exporter"]["endpoint"] == collector.endpoint
        assert "of-the-collector" not in str(shown)
        options = shown["traces"]["filter"]["e2e_tracing_options"]
        assert (options["sample_ratio"], options["cluster_identifier"]) == ("12.5%", "emqxcl")
        assert shown["metrics"] == {"enable": False, "interval": "10s"}
        again = managed.api.put("/opentelemetry", json=shown)  # stars keep what they stand for
        assert again.status_code == 200, again.text
        publish(managed, "room/1")
        wait_until(lambda: "client.publish" in names(collector.received), "the spans came")
        assert collector.received.headers["x-token"] == "of-the-collector"
    refused: list[dict[str, Any]] = [
        {"traces": {"enable": "often"}},
        {"trace": {}},
        {"exporter": {"endpoint": "localhost"}},
    ]
    for wrong in refused:
        answer = managed.api.put("/opentelemetry", json=wrong)
        assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST"), answer.text


def test_lists_name_what_is_always_traced(managed: ManagedNode) -> None:
    api = managed.api
    assert api.get("/opentelemetry/whitelist/clientid").json() == []
    made = api.post("/opentelemetry/whitelist/clientid", json=["publisher", "publisher"])
    assert (made.status_code, made.json()) == (200, ["publisher"])
    assert api.post("/opentelemetry/whitelist/topic", json=["room/#"]).json() == ["room/#"]
    for kind, values in (("topic", ["a/#/b"]), ("clientid", [str(number) for number in range(31)]), ("other", [])):
        refused = api.post(f"/opentelemetry/whitelist/{kind}", json=values)
        assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST")
    with HttpCollectorServer() as collector:
        export(managed, collector.endpoint)
        publish(managed, "hall", traceparent="")
        wait_until(lambda: "client.publish" in names(collector.received), "the spans came")
    assert api.delete("/opentelemetry/whitelist/clientid").status_code == 204
    assert api.get("/opentelemetry/whitelist/clientid").json() == []
    assert api.get("/opentelemetry/whitelist/topic").json() == ["room/#"]


def test_nothing_of_it_is_loaded_while_it_is_off() -> None:
    lines = (
        "import sys, heliograph.management.program",
        "print([name for name in sys.modules if name.startswith(('grpc', 'opentelemetry.proto', 'google.protobuf'))])",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""About a hundred calls as third-party tools of EMQX make them, by the reference alone; effects are seen over MQTT."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from heliograph.cli.main import main
from support.managed_clients import Peers
from support.management import Served
from support.reference_client import ReferenceClient, has
from support.waiting import wait_until

NODE = "heliograph@127.0.0.1"


@pytest.fixture
def api(managed: Served) -> ReferenceClient:
    return ReferenceClient(managed.api)


@pytest.fixture
def peers(managed: Served) -> Iterator[Peers]:
    with Peers(managed) as made:
        yield made


def test_an_exporter_reads_its_numbers(api: ReferenceClient, peers: Peers) -> None:
    peer = peers.connect("exported")
    peer.subscribe("exported/1", 1)
    peer.publish("exported/1", b"x", 1)
    (node,) = api.get("/nodes")
    has(node, ("node", "version", "edition", "role", "otp_release", "load1", "load5", "load15", "max_fds"))
    has(node, ("memory_total", "memory_used", "process_available", "process_used", "log_path", "sys_path"))
    assert (node["node_status"], node["connections"], node["live_connections"]) == ("running", 1, 1)
    assert isinstance(node["uptime"], int)
    assert node["memory_total"][-1] in "KMG"
    assert api.get(f"/nodes/{NODE}")["node"] == NODE
    api.refused("GET", "/nodes/other@host", 404, "NOT_FOUND")
    has(api.get("/stats", params={"aggregate": "true"}), ("connections.count", "live_connections.max", "topics.count"))
    (stats,) = api.get("/stats")
    assert (stats["node"], stats["subscriptions.count"]) == (NODE, 1)
    metrics = api.get("/metrics", params={"aggregate": "true"})
    has(metrics, ("bytes.received", "packets.connack.auth_error", "messages.dropped.await_pubrel_timeout"))
    has(metrics, ("delivery.dropped.queue_full", "authorization.matched_allow", "overload_protection.delay.ok"))
    assert metrics["messages.qos1.received"] >= 1
    assert api.get("/metrics")[0]["node"] == NODE
    assert api.get(f"/nodes/{NODE}/metrics")["messages.publish"] >= 1
    has(api.get(f"/nodes/{NODE}/stats"), ("sessions.count",))
    has(api.get("/monitor_current"), ("received_msg_rate", "sent_msg_rate", "subscriptions", "retained_msg_count"))
    has(api.get(f"/monitor_current/nodes/{NODE}"), ("node_uptime",))
    assert isinstance(api.get("/monitor", params={"latest": 60}), list)
    assert api.page("/rules") == []
    assert api.get("/bridges") == []
    assert api.get("/authentication") == []
    assert "sources" in api.get("/authorization/sources")
    assert api.page("/alarms", activated="true") == []


def test_a_scrape_has_the_names_of_emqx(api: ReferenceClient) -> None:
    stats = api.get("/prometheus/stats")
    for name in ("emqx_connections_count", "emqx_packets_connect", "emqx_messages_dropped_expired"):
        assert f"# TYPE {name} " in stats
    assert "emqx_cluster_nodes_running 1" in stats
    assert 'node="' in api.get("/prometheus/stats", params={"mode": "all_nodes_unaggregated"})
    has(api.get("/prometheus/stats", headers={"accept": "application/json"}), ("stats", "metrics", "packets", "client"))
    assert "emqx_banned_count 0" in api.get("/prometheus/auth")
    assert "emqx_rules_count 0" in api.get("/prometheus/data_integration")
    has(api.get("/prometheus"), ("push_gateway", "collectors", "enable_basic_auth"))


def test_probes_ask_without_a_key(managed: Served) -> None:
    with managed.client() as anyone:
        probe = ReferenceClient(anyone)
        assert probe.get("/status").splitlines() == [f"Node {NODE} is started", "emqx is running"]
        assert probe.get(f"{managed.url}/status", params={"format": "json"})["app_status"] == "running"
        assert probe.get("/load_rebalance/availability_check") == {}
        assert {"code", "description"} == probe.get("/error_codes")[0].keys()
        probe.refused("GET", "/clients", 401, "AUTHORIZATION_HEADER_ERROR")
    with managed.client(("admin", "public")) as wrong:
        ReferenceClient(wrong).refused("GET", "/clients", 401, "BAD_API_KEY_OR_SECRET")


def test_keys_and_users_are_kept_by_a_tool(managed: Served) -> None:
    assert main(["ctl", "--data-dir", str(managed.data_dir), "admins", "add", "keeper", "Keeps-keys-1"]) == 0
    with managed.client() as anyone:
        token = ReferenceClient(anyone).post("/login", {"username": "keeper", "password": "Keeps-keys-1"})["token"]
    with managed.client(headers={"authorization": f"Bearer {token}"}) as bearer:
        api = ReferenceClient(bearer)
        _keep_keys(managed, api)
        _keep_users(managed, api)


def _keep_users(managed: Served, api: ReferenceClient) -> None:
    made = api.post("/users", {"username": "other", "password": "Other-pass-1", "description": "d"})
    assert has(made, ("username", "description"))["username"] == "other"
    api.refused(
        "POST", "/users", 400, "BAD_REQUEST", {"username": "other", "password": "Other-pass-1", "description": ""}
    )
    api.refused("POST", "/users", 400, "BAD_REQUEST", {"username": "short", "password": "x", "description": ""})
    assert {one["username"] for one in api.get("/users")} == {"keeper", "other"}
    assert api.put("/users/other", {"description": "e", "role": "viewer"})["description"] == "e"
    api.post("/users/other/change_pwd", {"old_pwd": "Other-pass-1", "new_pwd": "Other-pass-2"}, 204)
    with managed.client() as anyone:
        call = ReferenceClient(anyone)
        call.refused("POST", "/login", 401, "BAD_USERNAME_OR_PWD", {"username": "other", "password": "Other-pass-1"})
        has(call.post("/login", {"username": "other", "password": "Other-pass-2"}), ("token", "version", "license"))
    api.delete("/users/other")
    api.refused("DELETE", "/users/other", 404, "USER_NOT_FOUND")
    api.refused("DELETE", "/users/keeper", 400, "NOT_ALLOWED")


def _keep_keys(managed: Served, api: ReferenceClient) -> None:
    made = api.post("/api_key", {"name": "tool", "desc": "of a tool", "enable": True, "expired_at": "infinity"})
    has(made, ("name", "api_key", "api_secret", "desc", "enable", "expired", "expired_at", "created_at"))
    with managed.client((made["api_key"], made["api_secret"])) as other:
        tool = ReferenceClient(other)
        tool.get("/stats")
        tool.refused("GET", "/users", 401, "API_KEY_NOT_ALLOW")
        tool.refused("GET", "/api_key/tool", 401, "API_KEY_NOT_ALLOW")
        api.put("/api_key/tool", {"desc": "", "enable": False, "expired_at": "infinity"})
        tool.refused("GET", "/stats", 401, "BAD_API_KEY_OR_SECRET")
    assert "api_secret" not in api.get("/api_key/tool")
    assert "tool" in [one["name"] for one in api.get("/api_key")]
    api.delete("/api_key/tool")
    api.refused("GET", "/api_key/tool", 404, "NOT_FOUND")


def test_rules_are_kept_by_a_tool(api: ReferenceClient, peers: Peers) -> None:
    body = {
        "id": "tool_rule",
        "sql": 'SELECT payload FROM "tool/in"',
        "actions": [{"function": "republish", "args": {"topic": "tool/out", "payload": "${payload}", "qos": 1}}],
        "enable": True,
        "description": "",
    }
    api.refused("GET", "/rules/tool_rule", 404, "NOT_FOUND")
    made = api.post("/rules", body, 201)
    has(made, ("id", "name", "sql", "from", "actions", "enable", "description", "created_at"))
    api.refused("POST", "/rules", 400, "BAD_REQUEST", body)
    assert api.put("/rules/tool_rule", {**body, "description": "changed"})["description"] == "changed"
    api.refused("POST", "/rules", 400, "BAD_REQUEST", {**body, "id": "other", "sql": "SELECT nonsense FROM"})
    peer = peers.connect("ruled")
    peer.subscribe("tool/out", 1)
    peer.publish("tool/in", b"through", 1)
    assert peer.messages(1) == [("tool/out", b"through")]
    metrics = api.get("/rules/tool_rule/metrics")
    assert has(metrics, ("metrics", "node_metrics"))["metrics"]["matched"] == 1
    api.put("/rules/tool_rule/metrics/reset", status=204)
    assert [rule["id"] for rule in api.page("/rules", like_id="tool")] == ["tool_rule"]
    tried = {"sql": 'SELECT topic FROM "t"', "context": {"event_type": "message_publish", "topic": "t"}}
    assert api.post("/rule_test", tried) == {"topic": "t"}
    api.refused("POST", "/rule_test", 412, "NOT_MATCH", {**tried, "sql": 'SELECT topic FROM "t" WHERE 1 = 2'})
    has(api.get("/rule_events")[0], ("event", "title", "description", "columns", "test_columns", "sql_example"))
    api.delete("/rules/tool_rule")
    api.refused("DELETE", "/rules/tool_rule", 404, "NOT_FOUND")


def test_connectors_and_actions_are_kept_by_a_tool(api: ReferenceClient) -> None:
    connector = {"type": "http", "name": "tool", "url": "http://127.0.0.1:9", "enable": False}
    api.refused("GET", "/connectors/http:tool", 404, "NOT_FOUND")
    made = api.post("/connectors", connector, 201)
    has(made, ("type", "name", "status", "node_status", "url"))
    api.refused("POST", "/connectors", 400, "ALREADY_EXISTS", connector)
    settings = {name: value for name, value in connector.items() if name not in ("type", "name")}
    api.put("/connectors/http:tool", {**settings, "pool_size": 2})
    assert api.get("/connectors/http%3Atool")["name"] == "tool"
    action = {
        "type": "http",
        "name": "tool",
        "connector": "tool",
        "enable": False,
        "parameters": {"path": "/in", "method": "post", "body": "${payload}"},
    }
    api.post("/actions", action, 201)
    assert [one["name"] for one in api.get("/actions")] == ["tool"]
    has(api.get("/actions/http:tool"), ("type", "name", "connector", "parameters", "status"))
    has(api.get("/actions/http:tool/metrics"), ("metrics", "node_metrics"))
    has(api.get("/actions_summary")[0], ("type", "name", "status"))
    api.put("/actions/http:tool/enable/true", status=204)
    api.put("/actions/http:tool/enable/false", status=204)
    assert [one["name"] for one in api.get("/bridges")] == ["tool"]
    api.refused("DELETE", "/connectors/http:tool", 400, "BAD_REQUEST")
    api.delete("/actions/http:tool")
    api.delete("/connectors/http:tool")
    assert "http" in api.get("/action_types")
    assert api.get("/sources") == []


def test_listeners_are_kept_by_a_tool(api: ReferenceClient) -> None:
    (listener,) = api.get("/listeners", params={"type": "tcp"})
    has(listener, ("id", "type", "name", "enable", "bind", "acceptors", "status", "node_status"))
    has(listener["status"], ("running", "current_connections", "max_connections"))
    made = api.post("/listeners", {"type": "tcp", "name": "tool", "bind": "127.0.0.1:0", "max_connections": 10})
    assert made["id"] == "tcp:tool"
    api.refused("GET", "/listeners/tcp:none", 404, "BAD_LISTENER_ID")
    changed = api.put("/listeners/tcp:tool", {"id": "tcp:tool", "type": "tcp", "max_connections": 20})
    assert changed["max_connections"] == 20
    whole = api.get("/listeners/tcp:tool")
    options = {**whole["tcp_options"], "reuseaddr": True, "active_n": 10}
    assert api.put("/listeners/tcp:tool", {**whole, "tcp_options": options}) == whole
    assert whole["enable_authn"] is True
    for operation in ("stop", "start", "restart"):
        api.post(f"/listeners/tcp:tool/{operation}")
    assert [one["type"] for one in api.get("/listeners_status")] == ["tcp"]
    api.delete("/listeners/tcp:tool")
    api.refused("DELETE", "/listeners/tcp:tool", 404, "BAD_LISTENER_ID")


def test_authenticators_and_their_users_are_kept_by_a_tool(managed: Served, api: ReferenceClient, peers: Peers) -> None:
    body = {
        "mechanism": "password_based",
        "backend": "built_in_database",
        "user_id_type": "username",
        "password_hash_algorithm": {"name": "sha256", "salt_position": "suffix"},
    }
    path = "/authentication/password_based:built_in_database"
    assert api.post("/authentication", body)["id"] == "password_based:built_in_database"
    api.refused("POST", "/authentication", 409, "ALREADY_EXISTS", body)
    user = {"user_id": "tool", "password": "secret", "is_superuser": False}
    assert api.post(f"{path}/users", user, 201) == {"user_id": "tool", "is_superuser": False}
    api.refused("POST", f"{path}/users", 409, "ALREADY_EXISTS", user)
    assert peers.refused("nobody") in (0x86, 0x87)
    assert api.put(f"{path}/users/tool", {"password": "other", "is_superuser": True})["is_superuser"] is True
    assert api.page(f"{path}/users", like_user_id="too") == [{"user_id": "tool", "is_superuser": True}]
    has(api.get(f"{path}/status"), ("status", "metrics", "node_status", "node_metrics"))
    api.put(path, {**body, "enable": False}, 204)
    assert peers.refused("somebody") == 0
    assert api.get(path)["enable"] is False
    api.delete(f"{path}/users/tool")
    api.refused("GET", f"{path}/users/tool", 404, "NOT_FOUND")
    api.delete(path)
    api.refused("GET", path, 404, "NOT_FOUND")


def test_authorization_is_kept_by_a_tool(api: ReferenceClient) -> None:
    has(api.get("/authorization/settings"), ("no_match", "deny_action", "cache"))
    api.post("/authorization/sources", {"type": "built_in_database", "enable": True}, 204)
    rules = [{"topic": "a/#", "permission": "allow", "action": "publish"}]
    path = "/authorization/sources/built_in_database/rules"
    api.post(f"{path}/users", [{"username": "tool", "rules": rules}], 204)
    (rule,) = api.get(f"{path}/users/tool")["rules"]
    assert has(rule, ("qos", "retain"))["permission"] == "allow"
    api.put(f"{path}/users/tool", {"username": "tool", "rules": [*rules, *rules]}, 204)
    api.delete(f"{path}/users/tool")
    api.refused("GET", f"{path}/users/tool", 404, "NOT_FOUND")
    has(api.get("/authorization/sources/built_in_database/status"), ("status", "metrics"))
    api.post("/authorization/sources/built_in_database/move", {"position": "rear"}, 204)
    api.delete("/authorization/cache")
    api.delete("/authorization/sources/built_in_database")


def test_how_tos_about_messages(api: ReferenceClient, peers: Peers) -> None:
    message: dict[str, Any] = {"topic": "how/to", "payload": "x", "qos": 1}
    assert api.post("/publish", message, 202) == {"reason_code": 16, "message": "no_matching_subscribers"}
    peer = peers.connect("how")
    assert api.post("/clients/how/subscribe", {"topic": "how/#", "qos": 1})["topic"] == "how/#"
    assert "id" in api.post("/publish", message)
    coded = {"payload": base64.b64encode(b"\0\1").decode(), "payload_encoding": "base64"}
    assert len(api.post("/publish/bulk", [message, {**message, **coded}])) == 2
    assert [payload for _, payload in peer.messages(3)] == [b"x", b"x", b"\0\1"]
    assert api.post("/publish", {**message, "topic": "how/#"}, 400)["reason_code"] == 144
    (held,) = api.get("/clients/how/subscriptions")
    has(held, ("node", "clientid", "topic", "qos", "nl", "rap", "rh", "durable"))
    assert [one["clientid"] for one in api.page("/subscriptions", match_topic="how/#")] == ["how"]
    assert {one["topic"] for one in api.page("/topics")} == {"how/#"}
    assert api.get("/topics/how%2F%23")[0]["node"] == NODE
    api.refused("GET", "/topics/none", 404, "TOPIC_NOT_FOUND")
    api.post("/clients/how/unsubscribe", {"topic": "how/#"}, 204)
    assert api.get("/clients/how/subscriptions") == []
    has(api.get("/clients/how/mqueue_messages", params={"payload": "plain"}), ("data", "meta"))
    assert api.put("/clients/how/keepalive", {"interval": 90})["keepalive"] == 90
    assert [one["clientid"] for one in api.page("/clients", like_clientid="ho")] == ["how"]
    assert [one["clientid"] for one in api.get("/clients_v2", params={"limit": 10})["data"]] == ["how"]
    assert api.get("/clients/how/authorization/cache") == []
    api.delete("/clients/how")
    assert peer.closed() == 0x98
    api.refused("GET", "/clients/how", 404, "CLIENTID_NOT_FOUND")
    api.refused("DELETE", "/clients/how", 404, "CLIENTID_NOT_FOUND")
    api.post("/clients/kickout/bulk", ["how", "none"], 204)


def test_how_tos_about_bans(api: ReferenceClient, peers: Peers) -> None:
    ban = api.post("/banned", {"as": "clientid", "who": "bad", "reason": "how-to"})
    assert has(ban, ("as", "who", "by", "reason", "at", "until"))["until"] == "infinity"
    api.refused("POST", "/banned", 400, "ALREADY_EXISTS", {"as": "clientid", "who": "bad"})
    assert peers.refused("bad") == 0x8A
    assert [one["who"] for one in api.page("/banned")] == ["bad"]
    api.delete("/banned/clientid/bad")
    api.refused("DELETE", "/banned/clientid/bad", 404, "NOT_FOUND")
    assert peers.refused("bad") == 0


def test_how_tos_about_retained_and_delayed_messages(api: ReferenceClient, peers: Peers) -> None:
    api.post("/publish", {"topic": "kept/1", "payload": "last", "retain": True}, 202)
    peer = peers.connect("late")
    peer.subscribe("kept/#")
    assert peer.messages(1) == [("kept/1", b"last")]
    (row,) = api.page("/mqtt/retainer/messages", topic="kept/#")
    has(row, ("msgid", "topic", "qos", "publish_at", "from_clientid", "from_username"))
    assert base64.b64decode(api.get("/mqtt/retainer/message/kept%2F1")["payload"]) == b"last"
    api.delete("/mqtt/retainer/message/kept%2F1")
    api.refused("GET", "/mqtt/retainer/message/kept%2F1", 404, "NOT_FOUND")
    has(api.get("/mqtt/retainer"), ("enable", "max_payload_size", "backend"))
    has(api.get("/mqtt/delayed"), ("enable", "max_delayed_messages"))
    peer.publish("$delayed/3600/kept/later", b"x", 1)
    (later,) = api.get("/mqtt/delayed/messages")["data"]
    assert has(later, ("msgid", "node", "delayed_remaining", "expected_at"))["topic"] == "kept/later"
    api.delete(f"/mqtt/delayed/messages/{NODE}/{later['msgid']}")
    api.refused("GET", f"/mqtt/delayed/messages/{NODE}/{later['msgid']}", 404, "MESSAGE_ID_NOT_FOUND")


def test_how_tos_about_topics_that_are_rewritten_and_subscribed(api: ReferenceClient, peers: Peers) -> None:
    rewritten = [{"action": "all", "source_topic": "old/#", "dest_topic": "new/$1", "re": "^old/(.+)$"}]
    assert api.put("/mqtt/topic_rewrite", rewritten) == rewritten
    assert api.get("/mqtt/topic_rewrite") == rewritten
    assert api.put("/mqtt/auto_subscribe", [{"topic": "auto/${clientid}", "qos": 1}])[0]["topic"] == "auto/${clientid}"
    peer = peers.connect("auto")
    wait_until(lambda: api.page("/subscriptions", clientid="auto"), "the client is subscribed")
    peer.subscribe("new/#")
    peer.publish("old/1", b"x", 1)
    assert peer.messages(1) == [("new/1", b"x")]
    api.put("/mqtt/auto_subscribe", [])
    api.put("/mqtt/topic_rewrite", [])


def test_how_tos_about_configuration_and_observing(api: ReferenceClient) -> None:
    assert "mqtt" in api.get("/configs", headers={"accept": "text/plain"})
    zone = api.get("/configs/global_zone")
    mqtt = has(zone, ("mqtt", "force_shutdown"))["mqtt"]
    assert has(mqtt, ("max_packet_size", "max_inflight", "session_expiry_interval"))["max_qos_allowed"] == 2
    api.put("/configs/global_zone", {**zone, "mqtt": {**mqtt, "max_inflight": 31}})
    assert api.get("/configs/global_zone")["mqtt"]["max_inflight"] == 31
    api.put("/configs/global_zone", zone)
    log = api.get("/configs/log")
    assert api.put("/configs/log", log) == log
    trace = api.post("/trace", {"name": "tool", "type": "clientid", "clientid": "c"})
    assert trace["name"] == "tool"
    api.put("/trace/tool/stop")
    api.delete("/trace/tool")
    assert api.post("/mqtt/topic_metrics", {"topic": "t/1"})["topic"] == "t/1"
    assert api.get("/mqtt/topic_metrics/t%2F1")["metrics"]["message.in.count"] == 0
    api.delete("/mqtt/topic_metrics/t%2F1")
    assert api.get("/slow_subscriptions")["data"] == []
    has(api.get("/slow_subscriptions/settings"), ("enable", "threshold", "expire_interval", "top_k_num", "stats_type"))
    api.delete("/alarms")
    exported = api.post("/data/export", {"table_sets": ["banned"]})
    has(exported, ("filename", "size", "created_at", "node"))
    assert [one["filename"] for one in api.page("/data/files")] == [exported["filename"]]
    api.delete(f"/data/files/{exported['filename']}")


def test_what_there_is_not_is_answered_as_where_it_is_off(api: ReferenceClient) -> None:
    assert has(api.get("/cluster"), ("name", "self"))["nodes"] == [NODE]
    assert api.get("/cluster/topology") == [{"core_node": NODE, "replicant_nodes": []}]
    api.refused("PUT", "/cluster/other@host/invite", 400, "BAD_REQUEST")
    assert api.get("/load_rebalance/status") == {"status": "disabled"}
    assert api.get("/load_rebalance/global_status") == {"evacuations": [], "purges": [], "rebalances": []}
    assert api.get("/node_eviction/status") == {"status": "disabled"}
    gateways = {one["name"]: one["status"] for one in api.get("/gateways")}
    assert {"coap", "exproto", "lwm2m", "mqttsn", "stomp"} <= gateways.keys()
    assert set(gateways.values()) == {"unloaded"}
    api.refused("GET", "/gateways/none", 400, "BAD_REQUEST")
    for path in ("/plugins", "/exhooks", "/cluster/links"):
        assert api.get(path) == []
    api.refused("GET", "/file_transfer/files", 503, "SERVICE_UNAVAILABLE")
    assert api.get("/telemetry/status") == {"enable": False}
    api.refused("PUT", "/telemetry/status", 400, "BAD_REQUEST", {"enable": False})
    api.refused("GET", "/telemetry/data", 404, "NOT_FOUND")
    api.refused("GET", "/brokers", 404, "NOT_FOUND")
    assert api.get("/sessions_count") in (0, "0")
    assert api.get("/ds/storages") is not None

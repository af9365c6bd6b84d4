"""What the recorded node has: something of everything that the API and the command line show."""

import json
from typing import Any, Final

import paho.mqtt.client as paho
from scripts.answers.recorded_node import RecordedNode, publish, subscribe, wait_for

NODE: Final = "heliograph@127.0.0.1"
PASSWORD: Final = "Secret-of-ann-1"
#: The file of the node, which hides what changes say of the same settings.
FILE: Final = """
node.data_dir = "<dir>/data"
mqtt.exclusive_subscription = true
"""
#: What is below it, and below all changes.
SETTINGS: Final = """
dashboard { listeners.http.bind = "127.0.0.1:<http>", sample_interval = 1 }
api_key.bootstrap_file = "<dir>/api_keys"
listeners.tcp.default { bind = "127.0.0.1:<mqtt>", enable_authn = false }
listeners.ws.page { bind = "127.0.0.1:<second>", enable = false, mountpoint = "ws/" }
durable_storage { messages.topics = ["kept/#"], flight.bind = "127.0.0.1:<flight>" }
diagnose.messages { enable = true, topics = ["ways/#"] }
slow_subs { enable = true, threshold = 1h }
sys_topics.sys_heartbeat_interval = 1h
sys_topics.sys_msg_interval = 1h
mqtt.max_mqueue_len = 50
sysmon.os { cpu_high_watermark = "100%", cpu_low_watermark = "99%" }
sysmon.os { sysmem_high_watermark = "100%", procmem_high_watermark = "100%" }
zones.small.mqtt.max_inflight = 3
authentication = [
  { mechanism = password_based, backend = built_in_database, user_id_type = username }
  { mechanism = password_based, backend = redis, enable = false, server = "127.0.0.1:9", password = "hidden-1"
    cmd = "HMGET mqtt_user:${username} password_hash" }
  { mechanism = jwt, algorithm = hmac-based, secret = "hidden-2", enable = false }
]
authorization.sources = [
  { type = built_in_database }
  { type = http, enable = false, method = get, url = "http://u:hidden-3@127.0.0.1:9/acl"
    headers { authorization = "hidden-4" } }
  { type = file }
]
rewrite = [{ action = all, source_topic = "old/#", dest_topic = "new/$1", re = "^old/(.+)$" }]
auto_subscribe.topics = [{ topic = "welcome/${clientid}", qos = 1 }]
rule_engine.rules.copy {
  description = "Copies what is hot"
  sql = \"\"\"SELECT payload.n AS n, topic FROM "kept/#" WHERE payload.n > 4\"\"\"
  actions = [{ function = republish, args { topic = "out/${n}", payload = "${n}", qos = 1 } }, console]
}
rule_engine.rules.tells { sql = \"\"\"SELECT * FROM "alerts/#" \"\"\", actions = ["http:tell"] }
rule_engine.rules.rests { enable = false, sql = \"\"\"SELECT * FROM "$events/client_connected" \"\"\", actions = [] }
"""
_SCHEMA: Final = '{"type": "object", "required": ["temp"], "properties": {"temp": {"type": "number"}}}'
_WEB: Final[dict[str, Any]] = {
    "type": "http",
    "name": "web",
    "url": "http://127.0.0.1:<silent>",
    "headers": {"authorization": "Bearer hidden-5"},
    "description": "the web",
    "ssl": {"enable": False},
}
_REGISTRY: Final[dict[str, Any]] = {
    "name": "far",
    "type": "confluent",
    "url": "http://127.0.0.1:9",
    "auth": {"mechanism": "basic", "username": "u", "password": "hidden-6"},
}
#: What is made over the API, in this order; `<silent>` is the port of a server that answers nothing.
MADE: Final[list[tuple[str, Any]]] = [
    ("/connectors", _WEB),
    (
        "/actions",
        {"type": "http", "name": "tell", "connector": "web", "parameters": {"path": "/x", "body": "${.}"}},
    ),
    ("/schema_registry", {"name": "observation", "type": "json", "source": _SCHEMA, "description": "weather"}),
    ("/schema_registry", {"name": "text", "type": "avro", "source": '{"type": "string"}'}),
    ("/schema_registry_external", _REGISTRY),
    (
        "/schema_validations",
        {
            "name": "is_observation",
            "topics": ["weather/+/obs"],
            "checks": [{"type": "json", "schema": "observation"}, {"type": "sql", "sql": "SELECT 1 WHERE qos < 2"}],
            "failure_action": "drop",
            "strategy": "all_pass",
        },
    ),
    (
        "/schema_validations",
        {
            "name": "second",
            "topics": "v/#",
            "enable": False,
            "checks": [{"type": "sql", "sql": "SELECT payload.x AS x WHERE x > 0"}],
            "failure_action": "ignore",
            "strategy": "any_pass",
        },
    ),
    (
        "/message_transformations",
        {
            "name": "add_source",
            "topics": ["weather/+/obs"],
            "failure_action": "drop",
            "operations": [{"key": "user_property.source", "value": "clientid"}],
        },
    ),
    (
        "/message_transformations",
        {
            "name": "second",
            "topics": ["t/#"],
            "failure_action": "ignore",
            "payload_decoder": {"type": "json"},
            "payload_encoder": {"type": "json"},
            "operations": [{"key": "payload.x", "value": "1"}],
        },
    ),
    ("/banned", {"as": "clientid", "who": "meter-99", "reason": "publishes nonsense", "until": "2035-01-02T03:04:05Z"}),
    ("/banned", {"as": "peerhost_net", "who": "10.1.0.0/16", "by": "ann", "until": "infinity"}),
    ("/banned", {"as": "username_re", "who": "^bad", "until": "infinity"}),
    ("/trace", {"name": "one", "type": "clientid", "clientid": "meter-1"}),
    ("/trace", {"name": "two", "type": "topic", "topic": "kept/#", "formatter": "json", "payload_encode": "hex"}),
    ("/mqtt/topic_metrics", {"topic": "kept/a"}),
    ("/mqtt/topic_metrics", {"topic": "weather/JFK/obs"}),
    ("/authentication/password_based:built_in_database/users", {"user_id": "ann", "password": "secret-of-ann-1"}),
    (
        "/authentication/password_based:built_in_database/users",
        {"user_id": "bob", "password": "secret-of-bob-1", "is_superuser": True},
    ),
    (
        "/authorization/sources/built_in_database/rules/users",
        [
            {"username": "ann", "rules": [{"permission": "allow", "action": "all", "topic": "kept/#"}]},
            {"username": "bob", "rules": []},
        ],
    ),
    (
        "/authorization/sources/built_in_database/rules/clients",
        [{"clientid": "meter-1", "rules": [{"permission": "deny", "action": "publish", "topic": "no/#", "qos": [1]}]}],
    ),
    (
        "/authorization/sources/built_in_database/rules/all",
        {"rules": [{"permission": "allow", "action": "all", "topic": "#"}]},
    ),
    ("/api_key", {"name": "tool", "desc": "a tool", "enable": True, "role": "viewer", "expired_at": "2035-01-02"}),
]


def prepare(node: RecordedNode) -> None:
    """Give a node clients, messages and what is made over the API."""
    for user, role in (("ann", "administrator"), ("vera", "viewer")):
        node.command(["ctl", "admins", "add", user, PASSWORD, f"the {role}", "--role", role])
    node.log_in("ann", PASSWORD)  # keys may do less than users
    for path, body in MADE:
        text = json.dumps(body).replace("<silent>", str(node.ports["silent"]))
        answer = node.api.post(path, content=text, headers={"content-type": "application/json"})
        if not answer.is_success:
            raise SystemExit(f"{path}: {answer.status_code} {answer.text}")
    _connect(node)


def _connect(node: RecordedNode) -> None:
    for number in range(1, 6):
        meter = node.connect(f"meter-{number}", "ann", expiry_s=3600, version=5 if number % 3 else 4)
        subscribe(meter, f"commands/meter-{number}/#", 1)
        publish(meter, f"kept/{'abc'[number % 3]}", f'{{"n": {number}}}')
        publish(meter, f"state/{number}", f'{{"watts": {number * 37}}}', retain=True)
    tower = node.connect("tower", "tower")
    subscribe(tower, "$share/board/weather/+/obs")
    subscribe(tower, "out/#", 2)
    subscribe(tower, "$exclusive/one/door")
    publish(tower, "$delayed/3600/commands/meter-1/restart", "now")
    publish(tower, "$delayed/7200/commands/meter-2/restart", "later", 0)
    publish(tower, "weather/JFK/obs", '{"temp": 3}')
    publish(tower, "weather/JFK/obs", "no json")
    publish(tower, "ways/1", "seen")
    slow = node.connect("slow", "bob", expiry_s=3600, receive_maximum=1, acknowledges=False)
    subscribe(slow, "queue/#", 1)
    for number in range(3):
        publish(tower, f"queue/{number}", f"message {number}")
    away: paho.Client = node.connect("away", "ann", expiry_s=3600)
    subscribe(away, "away/#", 1)
    away.disconnect()
    wait_for(lambda: not node.api.get("/clients/away").json()["connected"], "a client is away")
    publish(tower, "away/1", "kept for it")
    wait_for(
        lambda: len(node.api.get("/heliograph/messages", params={"topic": "kept/#"}).json()["data"]) == 5, "stored"
    )

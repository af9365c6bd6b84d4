"""The pipeline file that a node makes of its actions: a query for each, whose sink is the action in other words."""

import json
from pathlib import Path
from typing import Any

import pytest

from heliograph.actions.figures import query_name
from heliograph.actions.pipeline_file import actions_file
from heliograph.actions.sinks import of_row
from heliograph.config.loading import load_config
from heliograph.node.pipeline import PipelineRefusedError, validate
from heliograph.settings.errors import ConfigError
from support.cases import cases

CONNECTORS = """
actions.engine = spark
connectors {
  http.web { url = "https://a.org:8443/base", headers { x-key = secret }, pool_size = 3, ssl.verify = verify_none }
  pgsql.db {
    server = db, database = d, username = u, password = "file:///run/secrets/db", disable_prepared_statements = true
  }
  timescale.db { server = "t:6000", database = d, username = u }
  alloydb.db { server = a, database = d }
  cockroachdb.db { server = c, database = d }
  mysql.db { server = "db:3307", database = d, password = p }
  redis.cache { parameters { redis_type = sentinel, servers = "a:26379,b", sentinel = one, password = p } }
  kafka_producer.bus {
    bootstrap_hosts = "a:9092,b", authentication { mechanism = scram_sha_256, username = u, password = p }
  }
  confluent_producer.cloud {
    bootstrap_hosts = "xyz.sa-east1.gcp.confluent.cloud:9092", authentication { username = key, password = p }
  }
  azure_event_hub_producer.hubs {
    bootstrap_hosts = "namespace.servicebus.windows.net", authentication { password = p }, ssl.verify = verify_none
  }
  rabbitmq.bunny { server = "127.0.0.1", port = 5673, username = guest, password = p, virtual_host = v }
  clickhouse.ch { url = "http://ch:8123", database = d, username = u, password = p, connect_timeout = 15s }
  influxdb.v1 { server = "127.0.0.1:8086", pool_size = 8, ssl { enable = false }
                parameters { influxdb_type = influxdb_api_v1, database = d, username = u, password = p } }
  influxdb.v2 { server = i, ssl.verify = verify_none
                parameters { influxdb_type = influxdb_api_v2, bucket = b, org = o, token = t } }
  elasticsearch.es { server = es, authentication { username = u, password = p } }
  mongodb.one { database = mqtt, srv_record = false, pool_size = 8, username = u, password = p
                parameters { mongo_type = single, server = "127.0.0.1:27017", w_mode = safe }
                topology { pool_size = 8, max_overflow = 0, wait_queue_timeout_ms = 5s }, use_legacy_protocol = auto }
  mongodb.set { database = mqtt, parameters { mongo_type = rs, servers = "a,b:27018", replica_set_name = rs0 } }
  disk_log.file { filepath = "/tmp/my_log", max_file_size = 10MB, max_file_number = 7 }
  nats.hub { server = hub, token = t, ssl {} }
  kinesis.aws { endpoint = "https://kinesis.eu-west-1.amazonaws.com", aws_access_key_id = k, aws_secret_access_key = s
                max_retries = 3, pool_size = 8 }
  dynamo.aws { url = "http://127.0.0.1:8000", region = us-west-2, aws_access_key_id = k, aws_secret_access_key = s }
  sqs.aws { endpoint = "https://sqs.eu-west-1.amazonaws.com", aws_access_key_id = k, aws_secret_access_key = s }
  mqtt.hub { server = "hub:1884", clientid_prefix = x, username = u, password = p }
  parquet.lake { place = "s3://lake/raw", storage_options { region = eu } }
  delta.here {}
  iceberg.house { catalog { type = sql, "s3.region" = eu } }
  s3.store {
    host = "127.0.0.1", port = 9000, access_key_id = k, secret_access_key = s, transport_options.use_tls = false
  }
  spark.base { format = jdbc, options { url = "jdbc:postgresql://db/w", batchsize = 100, dbtable = x } }
}
"""
ACTIONS = {
    "http:post": 'connector = web, parameters { path = "/t/${topic}", method = PUT, headers { x-id = "${.id}" }, '
    'body = "{\\"v\\": ${payload.items[0].v}}", max_retries = 0 }',
    "http:many": 'connector = web, parameters { path = "/in", method = post, max_records = 50 }, '
    "resource_opts.inflight_window = 2",
    "http:get": 'connector = web, parameters { path = "/t?n=${n}", method = GET }',
    "pgsql:row": 'connector = db, parameters.sql = "INSERT INTO t VALUES (${id}, ${.})", resource_opts.batch_size = 7',
    "timescale:row": 'connector = db, parameters.sql = "INSERT INTO t VALUES (${id})"',
    "alloydb:row": 'connector = db, parameters.sql = "INSERT INTO t VALUES (${id})"',
    "cockroachdb:row": 'connector = db, parameters.sql = "INSERT INTO t VALUES (${.})"',
    "mysql:row": 'connector = db, parameters { sql = "INSERT INTO t VALUES (${id})" }',
    "redis:push": 'connector = cache, parameters { command_template = [LPUSH, "k:${clientid}", "${.}"] }',
    "kafka_producer:out": "connector = bus, parameters { topic = t, kafka_ext_headers = [{ kafka_ext_header_key = a, "
    'kafka_ext_header_value = "${b}" }], compression = zstd }',
    "confluent_producer:out": "connector = cloud, parameters { topic = t }",
    "azure_event_hub_producer:out": 'connector = hubs, parameters { topic = t, message.key = "" }',
    "rabbitmq:out": 'connector = bunny, parameters { exchange = test_exchange, routing_key = "k.${topic}" }',
    "clickhouse:row": "connector = ch, parameters { sql = \"INSERT INTO t(payload, arrived) VALUES ('${payload}', "
    '${timestamp})", batch_value_separator = ", ", undefined_vars_as_null = false }',
    "influxdb:old": 'connector = v1, parameters { write_syntax = "${topic},clientid=${clientid} payload=${payload},'
    '${clientid}_int_value=${payload.int_key}i,bool=${payload.bool}", precision = ms }',
    "influxdb:new": 'connector = v2, parameters { write_syntax = "m a=1" }',
    "elasticsearch:docs": 'connector = es, parameters { action = create, index = "${payload.index}", overwrite = true, '
    'doc = "${payload.doc}" }',
    "elasticsearch:gone": 'connector = es, parameters { action = delete, index = i, id = "${id}" }',
    "mongodb:docs": "connector = one, parameters { collection = mycol }",
    "mongodb:other": 'connector = set, parameters { collection = "c_${clientid}", payload_template = "${.}" }',
    "disk_log:lines": 'connector = file, parameters { template = "${.}", write_mode = sync }',
    "nats:out": 'connector = hub, parameters { subject = "obs.${topic}", headers { a = "${b}" } }',
    "kinesis:out": 'connector = aws, parameters { stream_name = s, partition_key = "${clientid}" }',
    "dynamo:out": 'connector = aws, parameters { table = obs, hash_key = clientid, template = "", '
    "undefined_vars_as_null = true }",
    "sqs:out": 'connector = aws, parameters { queue_url = "https://sqs/1/q.fifo", message_group_id = "${topic}" }',
    "mqtt:out": 'connector = hub, parameters { topic = "out/${topic}", qos = 2, retain = "${flags.retain}" }',
    "parquet:obs": "connector = lake, parameters { path = obs, columns { station = string, select = double }, "
    "partition_by = [station] }",
    "delta:obs": "connector = here, parameters { path = obs, columns { n = bigint } }",
    "delta:last": "connector = here, parameters { path = last, columns { n = int, at = timestamp }, "
    "key = [n], newest_by = [at] }",
    "iceberg:obs": "connector = house, parameters { table = w.obs, columns { at = timestamp }, "
    'partition_by = ["day(at)"] }',
    "s3:raw": "connector = store, parameters { bucket = b, key = raw, container.type = csv, columns { n = bigint } }",
    "spark:obs": "connector = base, parameters { columns { n = bigint }, options { dbTable = obs } }",
}
WEB: dict[str, Any] = {
    "type": "http",
    "headers": {"x-key": "secret"},
    "body": "${payload}",
    "concurrency": 3,
    "timeout": "30000ms",
    "retry": {"attempts": 3},
    "ssl": {"cacertfile": "", "certfile": "", "keyfile": "", "verify": "verify_none"},
}
KAFKA_PROPERTIES = {
    "batch.size": "917504",
    "max.in.flight.requests.per.connection": "5",
    "socket.connection.setup.timeout.ms": "5000",
    "topic.metadata.refresh.interval.ms": "60000",
}
AWS = {"access_key_id": "k", "secret_access_key": "s"}
SINKS: dict[str, dict[str, Any]] = {
    "http:many": {**WEB, "url": "https://a.org:8443/base/in", "method": "POST", "batch_rows": 50, "concurrency": 2},
    "http:get": {**WEB, "url": "https://a.org:8443/base/t?n=${payload.n}", "method": "GET", "batch_rows": 1},
    "http:post": {
        "type": "http",
        "url": "https://a.org:8443/base/t/${payload.topic}",
        "method": "PUT",
        "headers": {"x-key": "secret", "x-id": "${payload.id}"},
        "body": '{"v": ${payload.payload.items.0.v}}',
        "batch_rows": 1,
        "concurrency": 3,
        "timeout": "30000ms",
        "retry": {"attempts": 1},
        "ssl": {"cacertfile": "", "certfile": "", "keyfile": "", "verify": "verify_none"},
    },
    "pgsql:row": {
        "type": "postgresql",
        "server": "db:5432",
        "database": "d",
        "username": "u",
        "password": "file:///run/secrets/db",
        "sql": "INSERT INTO t VALUES (${payload.id}, ${payload})",
        "batch_rows": 7,
        "prepared_statements": False,
    },
    "timescale:row": {
        "type": "postgresql",
        "server": "t:6000",
        "database": "d",
        "username": "u",
        "sql": "INSERT INTO t VALUES (${payload.id})",
        "batch_rows": 1000,
    },
    "alloydb:row": {
        "type": "postgresql",
        "server": "a:5432",
        "database": "d",
        "sql": "INSERT INTO t VALUES (${payload.id})",
        "batch_rows": 1000,
    },
    "cockroachdb:row": {
        "type": "postgresql",
        "server": "c:26257",
        "database": "d",
        "sql": "INSERT INTO t VALUES (${payload})",
        "batch_rows": 1000,
    },
    "mysql:row": {
        "type": "mysql",
        "server": "db:3307",
        "database": "d",
        "username": "root",
        "password": "p",
        "sql": "INSERT INTO t VALUES (${payload.id})",
        "batch_rows": 1000,
    },
    "redis:push": {
        "type": "redis",
        "redis_type": "sentinel",
        "servers": ["a:26379", "b"],
        "sentinel": "one",
        "password": "p",
        "commands": [["LPUSH", "k:${payload.clientid}", "${payload}"]],
        "batch_rows": 1000,
    },
    "kafka_producer:out": {
        "type": "kafka",
        "servers": "a:9092,b:9092",
        "topic": "t",
        "key": "${payload.clientid}",
        "value": "${payload}",
        "headers": {"a": "${payload.b}"},
        "timestamp": "${payload.timestamp}",
        "partitioner": "random",
        "acks": "all",
        "compression": "zstd",
        "properties": KAFKA_PROPERTIES,
        "mechanism": "SCRAM-SHA-256",
        "username": "u",
        "password": "p",
    },
    "confluent_producer:out": {
        "type": "kafka",
        "servers": "xyz.sa-east1.gcp.confluent.cloud:9092",
        "topic": "t",
        "key": "${payload.clientid}",
        "value": "${payload}",
        "timestamp": "${payload.timestamp}",
        "partitioner": "random",
        "acks": "all",
        "compression": "none",
        "properties": KAFKA_PROPERTIES,
        "mechanism": "PLAIN",
        "username": "key",
        "password": "p",
        "ssl": {"cacertfile": "", "certfile": "", "keyfile": "", "verify": "verify_peer"},
    },
    "azure_event_hub_producer:out": {
        "type": "kafka",
        "servers": "namespace.servicebus.windows.net:9093",
        "topic": "t",
        "value": "${payload}",
        "timestamp": "${payload.timestamp}",
        "partitioner": "random",
        "acks": "all",
        "compression": "none",
        "properties": KAFKA_PROPERTIES,
        "mechanism": "PLAIN",
        "username": "$ConnectionString",
        "password": "p",
        "ssl": {"cacertfile": "", "certfile": "", "keyfile": "", "verify": "verify_none"},
    },
    "rabbitmq:out": {
        "type": "rabbitmq",
        "server": "127.0.0.1:5673",
        "virtual_host": "v",
        "username": "guest",
        "password": "p",
        "heartbeat": "30000ms",
        "exchange": "test_exchange",
        "routing_key": "k.${payload.topic}",
        "payload": "${payload}",
        "delivery_mode": "non_persistent",
        "timeout": "30000ms",
    },
    "clickhouse:row": {
        "type": "clickhouse",
        "url": "http://ch:8123",
        "database": "d",
        "username": "u",
        "password": "p",
        "sql": "INSERT INTO t(payload, arrived) VALUES ('${payload.payload}', ${payload.timestamp})",
        "batch_value_separator": ", ",
        "batch_rows": 1000,
    },
    "influxdb:old": {
        "type": "influxdb",
        "server": "127.0.0.1:8086",
        "influxdb_type": "influxdb_api_v1",
        "database": "d",
        "username": "u",
        "password": "p",
        "write_syntax": "${payload.topic},clientid=${payload.clientid} payload=${payload.payload},"
        "${payload.clientid}_int_value=${payload.payload.int_key}i,bool=${payload.payload.bool}",
        "precision": "ms",
        "batch_rows": 1000,
    },
    "influxdb:new": {
        "type": "influxdb",
        "server": "i:8086",
        "influxdb_type": "influxdb_api_v2",
        "org": "o",
        "bucket": "b",
        "token": "t",
        "write_syntax": "m a=1",
        "precision": "ms",
        "batch_rows": 1000,
        "ssl": {"cacertfile": "", "certfile": "", "keyfile": "", "verify": "verify_none"},
    },
    "elasticsearch:docs": {
        "type": "elasticsearch",
        "server": "es:9200",
        "username": "u",
        "password": "p",
        "action": "create",
        "index": "${payload.payload.index}",
        "doc": "${payload.payload.doc}",
        "overwrite": True,
        "doc_as_upsert": False,
        "require_alias": False,
        "batch_rows": 1000,
        "retry": {"attempts": 3},
    },
    "elasticsearch:gone": {
        "type": "elasticsearch",
        "server": "es:9200",
        "username": "u",
        "password": "p",
        "action": "delete",
        "index": "i",
        "id": "${payload.id}",
        "doc": "${payload}",
        "overwrite": True,
        "doc_as_upsert": False,
        "require_alias": False,
        "batch_rows": 1000,
        "retry": {"attempts": 3},
    },
    "mongodb:docs": {
        "type": "mongodb",
        "mongo_type": "single",
        "servers": ["127.0.0.1:27017"],
        "srv_record": False,
        "database": "mqtt",
        "username": "u",
        "password": "p",
        "auth_source": "admin",
        "collection": "mycol",
        "payload_template": "${payload}",
        "batch_rows": 1000,
    },
    "mongodb:other": {
        "type": "mongodb",
        "mongo_type": "rs",
        "servers": ["a:27017", "b:27018"],
        "replica_set_name": "rs0",
        "srv_record": False,
        "database": "mqtt",
        "auth_source": "admin",
        "collection": "c_${payload.clientid}",
        "payload_template": "${payload}",
        "batch_rows": 1000,
    },
    "disk_log:lines": {
        "type": "disk_log",
        "path": "/tmp/my_log",
        "max_file_size": 10 << 20,
        "max_file_number": 7,
        "template": "${payload}",
    },
    "nats:out": {
        "type": "nats",
        "server": "hub:4222",
        "token": "t",
        "connect_timeout": "5000ms",
        "subject": "obs.${payload.topic}",
        "payload": "${payload}",
        "headers": {"a": "${payload.b}"},
        "jetstream": True,
        "timeout": "30000ms",
        "ssl": {"cacertfile": "", "certfile": "", "keyfile": "", "verify": "verify_peer"},
    },
    "kinesis:out": {
        **AWS,
        "type": "kinesis",
        "endpoint": "https://kinesis.eu-west-1.amazonaws.com",
        "stream_name": "s",
        "partition_key": "${payload.clientid}",
        "payload": "${payload}",
        "retry": {"attempts": 4},
    },
    "dynamo:out": {
        **AWS,
        "type": "dynamo",
        "endpoint": "http://127.0.0.1:8000",
        "region": "us-west-2",
        "table": "obs",
        "hash_key": "clientid",
        "template": "${payload}",
    },
    "sqs:out": {
        **AWS,
        "type": "sqs",
        "endpoint": "https://sqs.eu-west-1.amazonaws.com",
        "queue_url": "https://sqs/1/q.fifo",
        "message_body": "${payload}",
        "message_group_id": "${payload.topic}",
        "retry": {"attempts": 3},
    },
    "mqtt:out": {
        "type": "mqtt",
        "server": "hub:1884",
        "clientid": "x",
        "username": "u",
        "password": "p",
        "topic": "out/${payload.topic}",
        "payload": "${payload}",
        "qos": 2,
        "retain": "${payload.flags.retain}",
        "all_properties": "${payload.pub_props}",
        "proto_ver": "v5",
        "keepalive": "300000ms",
        "window": 32,
    },
    "parquet:obs": {
        "type": "parquet",
        "path": "s3://lake/raw/obs",
        "partition_by": ["station"],
        "storage_options": {"region": "eu"},
        "compression": "zstd",
    },
    "delta:obs": {"type": "delta", "path": "obs", "merge_schema": False},
    "delta:last": {"type": "delta", "path": "last", "merge_schema": False, "key": ["n"], "newest_by": ["at"]},
    "iceberg:obs": {
        "type": "iceberg",
        "table": "w.obs",
        "partition_by": ["day(at)"],
        "catalog": {"type": "sql", "s3.region": "eu"},
    },
    "s3:raw": {
        "type": "csv",
        "path": "s3://b/raw",
        "storage_options": {
            "access_key": "k",
            "secret_key": "s",
            "endpoint_override": "127.0.0.1:9000",
            "scheme": "http",
        },
    },
    "spark:obs": {
        "type": "spark",
        "format": "jdbc",
        "options": {"url": "jdbc:postgresql://db/w", "batchsize": "100", "dbTable": "obs"},
    },
}


def text_of(actions: dict[str, str], named: list[str], more: str = "") -> str:
    """A configuration with actions, and a rule that names some of them."""
    groups = [f"actions.{action.replace(':', '.')} {{ {settings} }}" for action, settings in actions.items()]
    rule = f"rule_engine.rules.one {{ sql = \"SELECT * FROM 't/#'\", actions = {json.dumps(named)} }}"
    return "\n".join([CONNECTORS, *groups, rule, more])


def made(tmp_path: Path, text: str) -> dict[str, Any]:
    """What the file says, by its queries."""
    file = tmp_path / "node.conf"
    file.write_text(text)
    rules: dict[str, Any] = json.loads(actions_file(load_config(file)).text)["rules"]
    return rules


@cases("action", ACTIONS)
def test_an_action_is_a_sink_in_the_words_of_its_kind(tmp_path: Path, action: str) -> None:
    rules = made(tmp_path, text_of(ACTIONS, [action]))
    assert list(rules) == [query_name(action)]
    rule = rules[query_name(action)]
    assert rule["sink"] == SINKS[action]
    assert rule["alone"] is True
    assert rule["sql"].endswith(f' FROM "$pipeline/{action}/+"')


def test_a_table_has_the_columns_that_its_action_names(tmp_path: Path) -> None:
    (rule,) = made(tmp_path, text_of(ACTIONS, ["parquet:obs"])).values()
    assert rule["sql"].startswith('SELECT payload."station" AS "station", payload."select" AS "select" FROM ')
    assert rule["columns"] == {"station": "string", "select": "double"}


async def test_the_pipeline_takes_what_is_made_of_each_action(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    file = tmp_path / "node.conf"
    file.write_text(text_of(ACTIONS, list(ACTIONS)))
    (tmp_path / "actions.hocon").write_text(actions_file(load_config(file)).text)
    await validate(str(tmp_path / "actions.hocon"))
    (tmp_path / "broken.hocon").write_text(text_of({}, []).replace("connectors", "sinks"))
    with pytest.raises(PipelineRefusedError):
        await validate(str(tmp_path / "actions.hocon"), str(tmp_path / "broken.hocon"))


def test_only_what_runs_and_is_named_is_there(tmp_path: Path) -> None:
    named = ["http:post", "pgsql:row", "mqtt:nothing"]
    assert set(made(tmp_path, text_of(ACTIONS, named))) == {query_name("http:post"), query_name("pgsql:row")}
    off = "connectors.http.web.enable = false\nactions.pgsql.row.enable = false"
    assert made(tmp_path, text_of(ACTIONS, named, off)) == {}


@cases(
    ("path", "url"),
    [
        ("", "/base"),
        ("/t", "/base/t"),
        ("?a=1", "/base?a=1"),
        ("@b.org", "/base/@b.org"),
        ("${.h}", "/base/${payload.h}"),
    ],
)
@cases("base", ["/base", ""])
def test_the_path_of_an_action_is_no_part_of_a_host(tmp_path: Path, path: str, url: str, base: str) -> None:
    action = {"http:post": f'connector = web, parameters.path = "{path}"'}
    text = text_of(action, ["http:post"]).replace("/base", base)
    (rule,) = made(tmp_path, text).values()
    assert rule["sink"]["url"] == f"https://a.org:8443{url.replace('/base', base)}"


@cases(
    ("settings", "told"),
    [
        ("http.a { connector = nothing }", "there is no such connector of type http; there are: web"),
        ("http.a { connector = web, parameters.method = head }", "post, put, patch, get or delete"),
        ("http.a { connector = web, parameters { method = get, max_records = 2 } }", "must be 1: get has no body"),
        ('http.a { connector = web, parameters { path = "/${a}", max_records = 2 } }', "must be 1: path or headers"),
        ("pgsql.a { connector = db, parameters.sql = nothing }", "a statement with placeholders"),
        ("mqtt.a { connector = hub, parameters { topic = t, qos = 3 } }", "from 0 to 2, or a template"),
        ('mqtt.a { connector = hub, parameters { topic = t, retain = "${a" } }', "it has a ${ without its }"),
        ('kafka_producer.a { connector = bus, parameters { topic = t, kafka_headers = "h" } }', "one placeholder"),
        ('http.a { connector = web, parameters.body = "${a" }', "it has a ${ without its }"),
        ('redis.a { connector = cache, parameters.command_template = ["${c}"] }', "the command itself"),
        ('parquet.a { connector = lake, parameters { path = "../x", columns { a = int } } }', "a path below"),
        ("parquet.a { connector = lake, parameters { path = x, columns { a = text } } }", "'text' is no type"),
        ("parquet.a { connector = lake, parameters { path = x, columns { a = int, A = int } } }", "letter case"),
        (
            'parquet.a { connector = lake, parameters { path = x, columns { a = "array<text>" } } }',
            "'text' is no type: there are string",
        ),
        (
            "s3.a { connector = store, parameters { bucket = b, key = k, container.type = csv, "
            'columns { a = "array<int>" } } }',
            "CSV has no such values",
        ),
        ("delta.a { connector = here, parameters { path = x, columns { a = int }, key = [a] } }", "needs newest_by"),
        (
            "delta.a { connector = here, parameters { path = x, columns { a = int }, key = [a], newest_by = [t] } }",
            "names 't', but the columns are a",
        ),
        (
            "delta.a { connector = here, parameters { path = x, columns { a = int }, key = [a], newest_by = [a] } }",
            "names 'a', which is in key",
        ),
        ("parquet.a { connector = lake, parameters { path = x, columns { a = int }, partition_by = b } }", "a list"),
        (
            "parquet.a { connector = lake, parameters { path = x, columns { a = int }, partition_by = [b] } }",
            "names 'b'",
        ),
        (
            "s3.a { connector = store, parameters { bucket = b, key = k, mode = direct, columns { a = int } } }",
            "aggregated",
        ),
        ('clickhouse.a { connector = ch, parameters.sql = "INSERT INTO t SELECT ${x}" }', "a statement as in"),
        ('influxdb.a { connector = v1, parameters.write_syntax = "m,tag v=${x}" }', "a tag 'tag' has no ="),
        ("elasticsearch.a { connector = es, parameters { action = update, index = i } }", "id: is missing"),
        ('mongodb.a { connector = one, parameters.collection = "" }', "a template of a collection"),
        ("spark.a { connector = base, parameters { columns { a = int }, options = x } }", "an object of texts"),
        ("gcp.a { connector = lake }", "unknown key"),
    ],
)
def test_what_cannot_be_done_is_refused_with_file_and_line(tmp_path: Path, settings: str, told: str) -> None:
    file = tmp_path / "node.conf"
    file.write_text(f"{CONNECTORS}\nactions.{settings}")
    with pytest.raises(ConfigError, match=r"node.conf:\d+: actions\.") as caught:
        load_config(file)
    assert told in str(caught.value)


def test_a_secret_is_in_no_message(tmp_path: Path) -> None:
    file = tmp_path / "node.conf"
    file.write_text("connectors.pgsql.a { server = 5, database = d, username = u, password = hunter2 }")
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(load_config(_valid(tmp_path)).connectors)


def _valid(tmp_path: Path) -> Path:
    file = tmp_path / "valid.conf"
    file.write_text("connectors.pgsql.a { server = db, database = d, username = u, password = hunter2 }")
    return file


@cases(
    ("template", "compiled"),
    [
        ("", ""),
        ("plain $ {x}", "plain $ {x}"),
        ("${.}", "${payload}"),
        ("${}", "${payload}"),
        ("${a}-${ b.c }", "${payload.a}-${payload.b.c}"),
        ("${.a}", "${payload.a}"),
        ("${a[2].b}", "${payload.a.2.b}"),
    ],
)
def test_templates_name_values_of_a_row(template: str, compiled: str) -> None:
    assert of_row(template) == compiled


def test_names_of_queries_differ_where_those_of_actions_do() -> None:
    assert query_name("http:a-b") != query_name("http:a_b")
    assert query_name("http:a-b").startswith("action_http_a_b_")
    assert len(query_name("http:" + "x" * 500)) < 120


def test_what_emqx_says_of_its_buffers_is_accepted(tmp_path: Path) -> None:
    rules = made(
        tmp_path,
        """
        actions.engine = spark
        connectors.kafka_producer.bus { bootstrap_hosts = "a:9092", authentication = none, ssl { enable = false } }
        actions.kafka_producer.out {
          connector = bus, resource_opts { health_check_interval = 15s, query_mode = sync, request_ttl = infinity }
          parameters { topic = t, partitions_limit = all_partitions, buffer { mode = hybrid }, max_inflight = 5 }
        }
        rule_engine.rules.one { sql = "SELECT * FROM 't'", actions = ["kafka_producer:out"] }
        """,
    )
    sink = rules[query_name("kafka_producer:out")]["sink"]
    assert {"username", "password", "mechanism", "ssl"}.isdisjoint(sink)

"""What a pipeline file may not say of a sink: each mistake is refused with its place, and what is valid."""

import re

import pytest

from heliograph.pipeline.errors import RuleFileError
from support.cases import cases
from support.sinks import sink_of

#: What is wrong beside the beginning of a section, and what is said of it.
MISTAKES = {
    "type = http": [
        ('url = "ftp://h"', "expected a template that begins with http"),
        ('url = "http://h", method = head', "expected POST"),
        ('url = "http://h/${id}", batch_rows = 5', "batch_rows: must be 1: url or headers"),
        ('url = "http://h/", method = get, batch_rows = 5', "batch_rows: must be 1: GET has no body"),
        ('url = "http://h", concurrency = 0', "from 1 to 64"),
        ('ulr = "http://h"', "did you mean url"),
    ],
    "type = mqtt": [
        ("", "sink.topic: is missing"),
        ('topic = t, properties { "Contnt-Type" = a }', "'Contnt-Type' is no property: give one of Content-Type"),
        ("topic = t, qos = 3", "from 0 to 2"),
        ("topic = t, server = h", 'sink.server: found "h", expected host:port'),
        ("topic = t, ssl { verify = maybe }", "expected verify_peer or verify_none"),
    ],
    'type = clickhouse, url = "http://h"': [
        ('sql = "INSERT INTO t VALUES (1)"', "takes nothing of a row"),
        ('sql = "INSERT INTO ${t} VALUES (${n})"', "expected a statement as in"),
        ('sql = "INSERT INTO t SELECT ${n}"', "expected a statement as in"),
        ('sql = "INSERT INTO t VALUES (\'${n})"', "a quote is not closed"),
        ('sql = "INSERT INTO t VALUES (${n"', "without its }"),
    ],
    "type = elasticsearch, server = h": [
        ("action = update, index = i", "id: is missing: update needs it"),
        ("action = replace, index = i", "create, update or delete"),
        ('action = create, index = "${x"', "without its }"),
    ],
    "type = influxdb, server = h": [
        ('write_syntax = "m,tag v=1"', "a tag 'tag' has no ="),
        ('write_syntax = "m"', "fields are missing"),
        ('write_syntax = "m v=1 2 3"', "'3' is too much"),
        ('write_syntax = "m v=${x"', "without its }"),
        ('write_syntax = "m v=\\"a"', "a quote is not closed"),
        ('write_syntax = ""', "it has no line"),
        ('write_syntax = "m v=1", bucket = b', "needs org, bucket, token"),
    ],
    "type = mongodb": [
        ("mongo_type = rs, servers = h, database = d", "replica_set_name: is missing"),
        ('servers = "a,b", database = d', "has several servers"),
        ('servers = h, database = d, collection = "${x"', "without its }"),
    ],
    'type = nats, server = "h:1"': [
        ("", "sink.subject: is missing"),
        ("subject = t, username = u, token = x", "sink.token: stands in the place of username"),
        ('subject = t, headers { "Nats-Msg-Id" = x }', "sink.headers: 'Nats-Msg-Id' is no name"),
    ],
    'type = kinesis, access_key_id = k, secret_access_key = s, endpoint = "http://h"': [
        ("partition_key = k", "sink.stream_name: is missing"),
        ('partition_key = k, stream_name = "a/b"', "expected the name of a stream"),
        ("stream_name = s, partition_key = k, region = EU", "expected a region such as eu-west-1"),
    ],
    "type = dynamo, access_key_id = k, secret_access_key = s, table = obs, hash_key = id": [
        ('endpoint = "http://u:p@h"', "expected a URL that begins with http:// or https://, without a login"),
    ],
    'type = sqs, access_key_id = k, secret_access_key = s, endpoint = "http://h"': [
        ('queue_url = "http://h/1/q.fifo"', "sink.message_group_id: is missing: a queue whose name ends with .fifo"),
        ('queue_url = "http://h/1/q.fifo", message_group_id = g, delay_seconds = 1', "sink.delay_seconds: a queue"),
        ('queue_url = "http://h/1/q", message_deduplication_id = x', "sink.message_deduplication_id: only a queue"),
    ],
    'type = rabbitmq, server = "h:1"': [
        ("routing_key = k", "sink.exchange: is missing"),
        ("exchange = e, routing_key = k, delivery_mode = 2", "expected non_persistent or persistent"),
        ("exchange = e, routing_key = k, heartbeat = 10ms", "sink.heartbeat"),
    ],
}


@cases(
    ("section", "reason"),
    [(f"{{ {head}, {more} }}", reason) for head, mistakes in MISTAKES.items() for more, reason in mistakes],
)
def test_mistakes_are_refused(section: str, reason: str) -> None:
    with pytest.raises(RuleFileError, match=re.escape(reason)):
        sink_of(section)

"""The sink and the source `rabbitmq`, at one RabbitMQ, which takes long to start: what the queues have and had."""

import asyncio
import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

import pika
import pytest

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.runner.connections import KeptConnection
from heliograph.pipeline.runner.local_rows import LocalRows
from heliograph.pipeline.sinks.interface import MicroBatch, RowSink, Written
from heliograph.pipeline.sinks.probing import target_fault
from heliograph.settings.outbound import OutboundConfig
from support.cases import cases
from support.rabbitmq import Rabbitmq, rabbitmq
from support.running import RunningNode
from support.sinks import Refused, Retries, batch_of, sink_of
from support.sources import WAIT_S, check_fault, has_state, held_source, is_connected, part_of, received
from support.waiting import until

pytestmark = [pytest.mark.service, pytest.mark.slow]

ONCE = "retry { attempts = 1 }, timeout = 10s"
PATIENT = "retry { attempts = 100, first_pause = 20ms, longest_pause = 1s, deadline = 2m }"

ALWAYS: Final = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage.messages.topics = ["in/#"]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rabbitmq]:
    with rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as running:
        with running.channel() as channel:
            channel.exchange_declare("obs", "topic", durable=True)
            for queue, key in (("warm", "warm.#"), ("cold", "cold.#")):
                channel.queue_declare(queue, durable=True)
                channel.queue_bind(queue, "obs", key)
        yield running


def write(text: str, documents: list[dict[str, Any]], batch: MicroBatch) -> Written:
    sink = cast(RowSink, sink_of(text))
    return sink.write(LocalRows([json.dumps(one).encode() for one in documents], sink), batch)


def read(broker: Rabbitmq, queue: str) -> list[tuple[Any, Any, bytes]]:
    """What is in a queue: method, properties, body of each."""
    with broker.channel() as channel:
        count = channel.queue_declare(queue, passive=True).method.message_count
        return list(islice(channel.consume(queue, auto_ack=True), count))


def test_rows_are_in_the_queues_that_their_keys_lead_to(broker: Rabbitmq) -> None:
    text = broker.section('exchange = obs, routing_key = "${payload.kind}.x", payload = "${payload}"')
    documents = [{"n": number, "kind": "warm" if number % 2 else "cold"} for number in range(1200)]
    written = write(text, documents, batch_of(3))
    assert (written.figures["rows"], written.figures["refused"], written.figures["retries"]) == (1200, 0, 0)
    warm = read(broker, "warm")
    assert [json.loads(body)["n"] for _, _, body in warm] == list(range(1, 1200, 2))
    assert [json.loads(body)["n"] for _, _, body in read(broker, "cold")] == list(range(0, 1200, 2))
    assert {properties.delivery_mode for _, properties, _ in warm} == {2}
    # A batch that runs again has the same identities, by which a consumer knows doubles.
    write(text, documents, batch_of(3))
    again = [properties.message_id for _, properties, _ in read(broker, "warm")]
    assert again == [properties.message_id for _, properties, _ in warm]
    assert len(set(again)) == 600
    read(broker, "cold")


def test_a_row_that_leads_nowhere_is_refused_alone(broker: Rabbitmq) -> None:
    text = broker.section('exchange = "${payload.to}", routing_key = "${payload.key}", payload = "${payload.n}"')
    documents = [
        {"n": 1, "to": "obs", "key": "warm"},
        {"n": 2, "to": "obs", "key": "nowhere"},
        {"n": 3, "to": "no such", "key": "warm"},
        {"n": 4, "to": "obs", "key": "k" * 300},
        {"n": 5, "to": "obs", "key": "warm.too"},
    ]
    refused = Refused()
    written = write(text, documents, batch_of(0, refused))
    reasons = {json.loads(row["payload"])["n"]: reason for row, reason in refused.rows}
    assert sorted(reasons) == [2, 3, 4]
    assert "no queue takes it: 312 NO_ROUTE" in reasons[2]
    assert "404 NOT_FOUND - no exchange 'no such'" in reasons[3]
    assert "routing_key has more than 255 bytes" in reasons[4]
    assert (written.figures["rows"], written.figures["refused"]) == (2, 3)
    assert {body for _, _, body in read(broker, "warm")} == {b"1", b"5"}


@cases(
    ("more", "reason"),
    [
        ("exchange = obs, routing_key = nowhere", "no queue takes it: 312 NO_ROUTE"),
        ('exchange = "no such", routing_key = warm', "404 NOT_FOUND - no exchange 'no such'"),
        ("exchange = obs, routing_key = warm, password = wrong", "ACCESS_REFUSED"),
        ("exchange = obs, routing_key = warm, virtual_host = other", "vhost other not found"),
    ],
)
def test_what_a_person_has_to_mend_fails_the_batch_and_costs_no_row(broker: Rabbitmq, more: str, reason: str) -> None:
    with pytest.raises(SinkError, match=reason) as error:
        write(broker.section(f"{more}, {ONCE}"), [{"n": 1}], batch_of(0))
    assert "wrong" not in str(error.value)


def test_a_full_queue_and_a_broker_that_is_away_are_tried_again(broker: Rabbitmq) -> None:
    with broker.channel() as channel:
        full = {"x-max-length": 1, "x-overflow": "reject-publish"}
        channel.queue_declare("full", durable=True, arguments=full)
    text = broker.section('exchange = "", routing_key = full, ' + PATIENT)
    retries, kept = Retries(), KeptConnection()
    batch = replace(batch_of(0), tell_retry=retries.tell, connections=kept)
    with broker.channel() as channel:
        writing = threading.Thread(target=lambda: write(text, [{"n": 1}, {"n": 2}], batch))
        writing.start()
        retries.wait()
        assert channel.basic_get("full", auto_ack=True)[0] is not None
        writing.join(60)
    assert "1 of 2 messages were not taken: the broker did not confirm it" in (retries.reasons[0] or "")
    assert retries.reasons[-1] is None
    assert [json.loads(json.loads(body)["payload"])["n"] for _, _, body in read(broker, "full")] == [2]
    broker.server.stop()
    writing = threading.Thread(target=lambda: write(text, [{"n": 3}], batch))
    writing.start()
    retries.wait()
    broker.server.start()
    writing.join(60)
    kept.close()
    assert [json.loads(json.loads(body)["payload"])["n"] for _, _, body in read(broker, "full")] == [3]


def test_a_connection_is_tested_and_verified(broker: Rabbitmq) -> None:
    named = f"exchange = obs, routing_key = warm, {ONCE}"
    tls = broker.section(named).replace(f'"127.0.0.1:{broker.port}"', f'"localhost:{broker.tls_port}"')
    probed = [broker.section(named), tls[:-1] + f', ssl {{ cacertfile = "{broker.cafile}" }} }}']
    assert [target_fault(sink_of(text), "") for text in probed] == [None, None]
    faults = [
        tls[:-1] + ", ssl {} }",
        broker.section(f"{named}, password = wrong"),
        broker.section(f'exchange = "no such", routing_key = warm, {ONCE}'),
        '{ type = rabbitmq, server = "127.0.0.1:9", exchange = e, routing_key = k, password = hidden, ' + ONCE + " }",
    ]
    found = [target_fault(sink_of(text), "") or "" for text in faults]
    for text, part in zip(
        found, ("certificate verify failed", "ACCESS_REFUSED", "no exchange", "refused"), strict=True
    ):
        assert part in text
    assert not re.search("wrong|hidden", "".join(found))


# --- the source


def publish(broker: Rabbitmq, key: str, values: list[bytes], properties: pika.BasicProperties | None = None) -> None:
    with broker.channel() as channel:
        channel.confirm_delivery()
        for value in values:
            channel.basic_publish("obs", key, value, properties)


def ready(broker: Rabbitmq, queue: str) -> int:
    """How many messages a queue has that no consumer has under way."""
    with broker.channel() as channel:
        return int(channel.queue_declare(queue, passive=True).method.message_count)


async def test_a_queue_comes_in_with_its_columns_and_its_order_outlasts_a_kill(
    tmp_path: Path, broker: Rabbitmq
) -> None:
    at = f'server = "127.0.0.1", port = {broker.port}, username = guest'
    settings = f"""
    connectors.rabbitmq {{
      far {{ {at}, password = guest }}
      wrong {{ {at}, password = other }}
    }}
    sources.rabbitmq {{
      one {{ connector = far, parameters {{ queue = warm, no_ack = false }}, local.topic = "in/${{topic}}" }}
      absent {{ connector = far, parameters.queue = "no such" }}
      wrong {{ connector = wrong, parameters.queue = warm }}
    }}
    rule_engine.rules.read {{
      sql = \"\"\"SELECT payload.n AS n, topic, queue, exchange, routing_key, headers, content_type, message_id,
                     priority, pub_props.'Content-Type' AS type, qos
              FROM "$bridges/rabbitmq:one" WHERE message_id = 'm1' \"\"\"
      actions = [{{ function = republish, args {{ topic = "in/rows", payload = "${{.}}" }} }}]
    }}
    """
    headers = {"text": "b", "list": [1, {"at": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)}]}
    first_one = pika.BasicProperties(content_type="a/b", message_id="m1", priority=3, headers=headers)
    await asyncio.to_thread(publish, broker, "warm.x", [b'{"n":1}'], first_one)
    async with RunningNode(tmp_path, ALWAYS, settings) as node:
        client = await node.connect("here")
        await client.subscribe("in/#", 1)
        first = dict(await received(client, 2))
        assert first["in/warm/x"] == b'{"n":1}'
        row = json.loads(first["in/rows"])
        assert row.pop("headers") == {"text": "b", "list": [1, {"at": 1_700_000_000}]}
        assert row == {
            "n": 1,
            "topic": "warm/x",
            "queue": "warm",
            "exchange": "obs",
            "routing_key": "warm.x",
            "content_type": "a/b",
            "type": "a/b",
            "message_id": "m1",
            "priority": 3,
            "qos": 1,
        }
        await is_connected(node, "rabbitmq:one")
        await has_state(node, "rabbitmq:absent", "disconnected", "no queue 'no such'")
        await has_state(node, "rabbitmq:wrong", "disconnected", "ACCESS_REFUSED")
        sources = part_of(node)
        assert "other" not in sources.state("rabbitmq:wrong")[1]
        round_one = pika.BasicProperties(headers={"heliograph-via": sources.site})
        await asyncio.to_thread(publish, broker, "warm.x", [b"round"], round_one)
        await until(lambda: sources.counts("rabbitmq:one").get("dropped.loop") == 1, WAIT_S)
        pid = sources.pid
        assert pid is not None
        values = [b"%d" % number for number in range(600)]
        await asyncio.to_thread(publish, broker, "warm.x", values)
        found = await received(client, 200)
        os.kill(pid, signal.SIGKILL)
        while found[-1][1] != values[-1]:
            found += await received(client, 1)
        assert list(dict.fromkeys(value for _, value in found)) == values
        await is_connected(node, "rabbitmq:one")
        await asyncio.to_thread(broker.server.stop)
        await has_state(node, "rabbitmq:one", "disconnected", "")
        await asyncio.to_thread(broker.server.start)
        await sources.try_again()
        await is_connected(node, "rabbitmq:one")
        await asyncio.to_thread(publish, broker, "warm.x", [b"after"])
        while found[-1][1] != b"after":  # what was not acknowledged yet comes once more
            found += await received(client, 1)


async def test_the_broker_sends_no_more_than_is_acknowledged(broker: Rabbitmq) -> None:
    settings = {
        "host": "localhost",
        "port": broker.tls_port,
        "tls": {"cacertfile": str(broker.cafile)},
        "virtual_host": "/",
        "queue": "cold",
        "prefetch": 10,
        "heartbeat": 30.0,
        "timeout": WAIT_S,
        "username": "guest",
        "password": "guest",
    }
    values = [b"%d" % number for number in range(300)]
    await asyncio.to_thread(publish, broker, "cold", values)
    async with held_source("rabbitmq", settings) as node:
        while await asyncio.to_thread(ready, broker, "cold") > 290:
            pass
        assert await asyncio.to_thread(ready, broker, "cold") == 290
        node.takes.set()
        await until(lambda: len(node.messages) == 300, WAIT_S)
        assert [one.payload for one in node.messages] == values
        await asyncio.to_thread(publish, broker, "cold", [b"last"])
        await until(lambda: len(node.messages) == 301, WAIT_S)
    assert await check_fault("rabbitmq", settings) == ""
    assert "certificate verify failed" in await check_fault("rabbitmq", {**settings, "tls": {}})
    denied = await check_fault("rabbitmq", settings, OutboundConfig(denied_ports=(str(broker.tls_port),)))
    assert "outbound.denied_ports" in denied

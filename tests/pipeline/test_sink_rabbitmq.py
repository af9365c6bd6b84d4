"""The sink `rabbitmq` and RabbitMQ itself: what is in the queues, what was refused, what is tried again."""

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, cast

import pytest

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.runner.connections import KeptConnection
from heliograph.pipeline.runner.local_rows import LocalRows
from heliograph.pipeline.sinks.interface import MicroBatch, RowSink, Written
from heliograph.pipeline.sinks.probing import target_fault
from support.cases import cases
from support.rabbitmq import Rabbitmq, rabbitmq
from support.sinks import Refused, Retries, batch_of, sink_of

pytestmark = [pytest.mark.service, pytest.mark.slow]

ONCE = "retry { attempts = 1 }, timeout = 10s"
PATIENT = "retry { attempts = 100, first_pause = 20ms, longest_pause = 1s, deadline = 2m }"


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

"""The sink `http` and a web service of our own: what it is sent, and what becomes of its answers."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.http import HttpSink
from heliograph.pipeline.sinks.http_delivery import IDEMPOTENCY_KEY, SIGNATURE, TIMESTAMP, signature
from heliograph.pipeline.sinks.retry import RetryPolicy
from heliograph.pipeline.sinks.spark.writing import write_batch
from support.sinks import Refused, batch_of, sink_of
from support.webhook import Answer, Posted, Webhook, webhook

pytestmark = [pytest.mark.service, pytest.mark.slow]

_QUICK = "retry { attempts = 3, first_pause = 1ms }"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with webhook() as running:
        yield running


def _answers(*answers: Answer) -> Callable[[Posted], Answer]:
    """These answers one after the other, then that all is well."""
    left = list(answers)
    return lambda request: left.pop(0) if left else Answer()


def test_rows_are_posted_as_signed_json_arrays(spark: SparkSession, service: Webhook) -> None:
    sink = sink_of(
        f'{{ type = http, url = "{service.url}/in", batch_rows = 4, sign_key = k, gzip = true, username = u, '
        'password = "p:w", headers { X-Site = north } }'
    )
    rows = spark.range(0, 10, 1, 2).selectExpr("id", "IF(id = 3, NULL, 'ü') AS t")
    written = write_batch(sink, rows, batch_of(7))
    posted = [json.loads(request.body) for request in service.requests]
    assert [len(each) for each in posted] == [4, 4, 2]
    assert [row["id"] for each in posted for row in each] == list(range(10))
    assert posted[0][3] == {"id": 3, "t": None}
    for request in service.requests:
        assert request.headers[SIGNATURE] == signature(b"k", request.headers[TIMESTAMP], request.raw)
        assert request.headers["X-Site"] == "north"
        assert request.headers["Authorization"] == "Basic dTpwOnc="
        assert request.headers["Content-Type"] == "application/json"
    assert (written.figures["rows"], written.figures["requests"], written.figures["retries"]) == (10, 3, 0)
    # A batch that runs again has the same keys; another batch has others.
    keys = [request.headers[IDEMPOTENCY_KEY] for request in service.requests]
    assert keys[1].startswith("owner-1-obs-7-1-")
    service.requests.clear()
    write_batch(sink, rows, batch_of(7))
    assert [request.headers[IDEMPOTENCY_KEY] for request in service.requests] == keys
    write_batch(sink, rows, batch_of(8))
    assert len({request.headers[IDEMPOTENCY_KEY] for request in service.requests}) == 6


def test_templates_make_a_request_of_each_row(spark: SparkSession, service: Webhook) -> None:
    section = (
        f'{{ type = webhook, url = "{service.url}/stations/${{id}}?t=${{s.t}}", method = put, body = "t=${{s.t}}", '
        'headers { X-Id = "${id}", Content-Type = "text/plain" } }'
    )
    write_batch(sink_of(section), spark.sql("SELECT 'KJFK' AS id, named_struct('t', 20.5D) AS s"), batch_of(0))
    (request,) = service.requests
    assert (request.method, request.path, request.body) == ("PUT", "/stations/KJFK?t=20.5", b"t=20.5")
    assert (request.headers["X-Id"], request.headers["Content-Type"]) == ("KJFK", "text/plain")


def test_a_payload_is_posted_as_it_came(spark: SparkSession, service: Webhook) -> None:
    section = f'{{ type = http, url = "{service.url}", batch_rows = 1, body = "${{payload}}" }}'
    write_batch(sink_of(section), spark.sql("SELECT X'00FF' AS payload"), batch_of(0))
    assert service.requests[0].body == b"\x00\xff"


def test_several_requests_may_be_under_way(spark: SparkSession, service: Webhook) -> None:
    section = f'{{ type = http, url = "{service.url}", batch_rows = 3, concurrency = 4 }}'
    written = write_batch(sink_of(section), spark.range(100), batch_of(0))
    assert written.figures["requests"] == 34
    assert sorted(row["id"] for request in service.requests for row in json.loads(request.body)) == list(range(100))


def test_a_service_that_is_busy_is_asked_again(spark: SparkSession, service: Webhook) -> None:
    service.answer = _answers(Answer(429, {"Retry-After": "0"}), Answer(503))
    sink = sink_of(f'{{ type = http, url = "{service.url}", {_QUICK} }}')
    assert write_batch(sink, spark.range(3), batch_of(0)).figures["retries"] == 2
    assert len({request.headers[IDEMPOTENCY_KEY] for request in service.requests}) == 1
    # It asks for more time than the policy gives, so the driver takes over.
    service.answer = _answers(Answer(503, {"Retry-After": "3600"}))
    with pytest.raises(SinkError, match=r"answered 503 Service Unavailable .tried once"):
        write_batch(sink, spark.range(3), batch_of(1))


def test_rows_that_are_refused_are_found_and_told(spark: SparkSession, service: Webhook) -> None:
    def picky(request: Posted) -> Answer:
        bad = [row["id"] for row in json.loads(request.body) if row["id"] in (13, 14)]
        return Answer(422, body=b"no such station " + b"x" * 10_000) if bad else Answer(200)

    service.answer = picky
    refused = Refused()
    written = write_batch(sink_of(f'{{ type = http, url = "{service.url}" }}'), spark.range(50), batch_of(0, refused))
    assert [row for row, _ in refused.rows] == [{"id": 13}, {"id": 14}]
    assert re.fullmatch(r"answered 422 Unprocessable Entity: no such station x{200,300}", refused.rows[0][1])
    assert (written.figures["rows"], written.figures["refused"]) == (48, 2)


@pytest.mark.parametrize("status", [301, 401, 403, 404])
def test_a_service_that_refuses_us_is_no_fault_of_rows(spark: SparkSession, service: Webhook, status: int) -> None:
    service.answer = lambda request: Answer(status, body=b"go away")
    sink = sink_of(f'{{ type = http, url = "{service.url}/s3cret?token=s3cret", password = s3cret, username = u }}')
    with pytest.raises(SinkError, match=rf"HTTP POST http://127\.0\.0\.1:\d+ answered {status} .*: go away") as error:
        write_batch(sink, spark.range(3), batch_of(0))
    assert "s3cret" not in str(error.value)


def test_a_service_that_is_not_there_is_told(spark: SparkSession, service: Webhook) -> None:
    sink = sink_of(f'{{ type = http, url = "{service.url}" }}')
    assert isinstance(sink, HttpSink)
    away = replace(sink, url="http://127.0.0.1:9/", retry=RetryPolicy(attempts=2, first_pause_s=0.001))
    with pytest.raises(SinkError, match=r"HTTP POST http://127\.0\.0\.1:9: .*tried 2 times"):
        write_batch(away, spark.range(1), batch_of(0))

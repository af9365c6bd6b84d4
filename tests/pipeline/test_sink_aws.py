"""The sinks `kinesis`, `dynamo` and `sqs`: what the services hold, what was refused, what was tried again."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.runner.connections import KeptConnection
from heliograph.pipeline.sinks.kinesis import KinesisSink
from heliograph.pipeline.sinks.probing import target_fault
from heliograph.settings.aws import PROBED_NAME, region_of
from heliograph.settings.outbound import OutboundConfig
from support.aws import SECRET, Aws, aws, section_of
from support.cases import cases
from support.raw_server import listening, read_request
from support.sinks import Refused, Retries, batch_of, sink_of, write_rows

pytestmark = [pytest.mark.service, pytest.mark.slow]

ONCE = "timeout = 10s, retry { attempts = 1 }"
QUICK = "retry { attempts = 3, first_pause = 1ms }"
KINESIS = 'stream_name = obs, partition_key = "${payload.key}", payload = "${payload}"'
DYNAMO = 'table = obs, hash_key = id, range_key = at, template = "${payload}"'
SQS = 'message_body = "${payload.body}"'


@pytest.fixture(scope="module")
def server() -> Iterator[Aws]:
    with aws() as running:
        running.stream("obs")
        running.table("obs", "id", "at")
        yield running


def reasons_of(refused: Refused) -> dict[int, str]:
    """Why rows were refused, by their numbers `n`."""
    return {json.loads(row["payload"])["n"]: reason for row, reason in refused.rows}


def test_a_stream_has_each_row_in_the_order_of_its_key(server: Aws) -> None:
    rows = [{"n": n, "key": f"k{n % 7}"} for n in range(620)]
    bad = [{"n": 1000, "key": ""}, {"n": 1001, "key": "k" * 257}, {"n": 1002, "key": "large", "x": "x" * (1 << 20)}]
    refused, kept = Refused(), KeptConnection()
    batch = replace(batch_of(0, refused), connections=kept)
    written = write_rows(sink_of(server.section("kinesis", KINESIS)), batch, *rows[:300], *bad, *rows[300:])
    kept.close()
    assert (written.figures["rows"], written.figures["refused"], written.figures["retries"]) == (620, 3, 0)
    reasons = reasons_of(refused)
    assert sorted(reasons) == [1000, 1001, 1002]
    assert "has 0 characters" in reasons[1000]
    assert "has 257 characters" in reasons[1001]
    assert re.match(r"(Validation|InvalidArgument)Exception: ", reasons[1002])
    of_key: dict[str, list[int]] = {}
    for key, data in server.records("obs"):
        of_key.setdefault(key, []).append(json.loads(data)["n"])
    assert of_key == {f"k{k}": list(range(k, 620, 7)) for k in range(7)}


def test_an_item_replaces_that_of_its_key_and_others_cost_themselves_only(server: Aws) -> None:
    sink = sink_of(server.section("dynamo", DYNAMO))
    rows: list[dict[str, Any]] = [
        {"n": n, "id": f"id{n % 40}", "at": "now", "temp": 0.1 + n, "deep": {"list": [True, None, n]}}
        for n in range(60)
    ]
    bad = [
        {"n": 100, "at": "now"},
        {"n": 101, "id": "", "at": "now"},
        {"n": 102, "id": 5, "at": "now"},
        {"n": 103, "id": "a", "at": ["now"]},
        {"n": 104, "id": "a", "at": "now", "x": "x" * (400 << 10)},
        {"n": 105, "id": "a", "at": "now", "x": 10**39 + 1},
        {"n": 106, "id": "a", "at": "now", "x": 1e300},
        {"n": 107, "id": "a", "at": "now", "x": json.loads("[" * 40 + "]" * 40)},
    ]
    refused = Refused()
    for _ in range(2):
        written = write_rows(sink, batch_of(0, refused), *rows[:30], *bad, *rows[30:])
        assert (written.figures["rows"], written.figures["refused"], written.figures["retries"]) == (60, 8, 0)
    reasons = reasons_of(refused)
    assert sorted(reasons) == list(range(100, 108))
    assert reasons[100] == "the item has no text or number as its key id"
    assert reasons[101].startswith("ValidationException: ")
    assert reasons[102].startswith("ValidationException: ")
    assert reasons[103] == "the item has no text or number as its key at"
    assert "and DynamoDB takes 409,600" in reasons[104]
    assert "a number that DynamoDB does not take" in reasons[105]
    assert "a number that DynamoDB does not take" in reasons[106]
    assert "more than 32 levels" in reasons[107]
    items = {item["id"]["S"]: item for item in server.items("obs")}
    assert {name: int(item["n"]["N"]) for name, item in items.items()} == {
        f"id{k}": k + 40 if k < 20 else k for k in range(40)
    }
    assert items["id0"]["temp"] == {"N": "40.1"}
    assert items["id0"]["deep"] == {"M": {"list": {"L": [{"BOOL": True}, {"NULL": True}, {"N": "40"}]}}}


def test_a_fifo_queue_has_each_row_once_in_the_order_of_its_group(server: Aws) -> None:
    queue = server.queue("obs.fifo", FifoQueue="true")
    sink = sink_of(server.section("sqs", f'queue_url = "{queue}", message_group_id = "${{payload.group}}", {SQS}'))
    rows = [{"n": n, "group": f"g{n % 3}", "body": f"{n}"} for n in range(25)]
    bad = [
        {"n": 100, "group": "g0", "body": ""},
        {"n": 101, "group": "g0", "body": "a\x00b"},
        {"n": 102, "group": "no blanks", "body": "x"},
        {"n": 103, "group": "g0", "body": "x" * (1 << 20) + "x"},
    ]
    refused = Refused()
    for _ in range(2):
        write_rows(sink, batch_of(0, refused), *rows[:10], *bad, *rows[10:])
    reasons = reasons_of(refused)
    assert reasons[100] == "the body is empty"
    assert reasons[101] == "the body has the character U+0000, which no message has"
    assert "message_group_id is 'no blanks'" in reasons[102]
    assert sorted(reasons) == [100, 101, 102, 103]
    of_group: dict[str, list[int]] = {}
    for message in server.messages(queue):
        of_group.setdefault(message["Attributes"]["MessageGroupId"], []).append(int(message["Body"]))
    assert of_group == {f"g{k}": list(range(k, 25, 3)) for k in range(3)}


def test_a_queue_without_an_order_takes_rows_too(server: Aws) -> None:
    queue = server.queue("obs")
    sink = sink_of(server.section("sqs", f'queue_url = "{queue}", {SQS}'))
    assert write_rows(sink, batch_of(0), *({"n": n, "body": f"é{n}"} for n in range(12))).figures["rows"] == 12
    assert sorted(message["Body"] for message in server.messages(queue)) == sorted(f"é{n}" for n in range(12))


def test_connections_are_tested_and_the_environment_has_no_say(server: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = server.queue("probed")
    good = {
        "kinesis": (KINESIS, f"stream_name = {PROBED_NAME}, partition_key = k"),
        "dynamo": (DYNAMO, f"table = {PROBED_NAME}, hash_key = k"),
        "sqs": (f'queue_url = "{queue}"', f'queue_url = "https://queues/0/{PROBED_NAME}"'),
    }
    bad = {
        "kinesis": (("stream_name = gone, partition_key = k", "ResourceNotFoundException: .*gone"),),
        "dynamo": (
            ("table = gone, hash_key = id", "ResourceNotFoundException"),
            ("table = obs, hash_key = id", r"the keys of the table are id \(HASH\), at \(RANGE\)"),
        ),
        "sqs": ((f'queue_url = "{queue}-gone"', "NonExistentQueue: .*does not exist"),),
    }
    for name in ("AWS_ENDPOINT_URL", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_DEFAULTS_MODE", "auto")
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
    for kind, texts in good.items():
        assert [target_fault(sink_of(server.section(kind, f"{text}, {ONCE}")), "") for text in texts] == [None, None]
    for kind, faults in bad.items():
        for text, reason in faults:
            sink = sink_of(server.section(kind, f"{text}, {ONCE}"))
            assert re.search(reason, target_fault(sink, "") or "")
            with pytest.raises(SinkError, match=reason):
                write_rows(sink, batch_of(0), {"n": 1})
    broken = sink_of(section_of("kinesis", "http://[::1", KINESIS))
    assert "Invalid" in (target_fault(broken, "") or "")
    outbound = OutboundConfig(denied_networks=("127.0.0.0/8",))
    denied = replace(cast(KinesisSink, sink_of(server.section("kinesis", KINESIS))), outbound=outbound)
    assert "denied by outbound.denied_networks" in (target_fault(denied, "") or "")


@contextmanager
def answering(*answers: object) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A service that lets anybody in, and gives these answers to what writes, the last one ever after.

    An answer is the body, or status and body; yields the endpoint and the requests that write.
    """
    requests: list[dict[str, Any]] = []

    def serve(connected: socket.socket) -> None:
        while (request := read_request(connected))[0]:
            head, body = request
            status, answer = 200, b"{}"
            if re.search(rb"(?i)x-amz-target: \S+\.(PutRecords|BatchWriteItem|SendMessageBatch)\r\n", head):
                found = answers[min(len(requests), len(answers) - 1)]
                requests.append(json.loads(body))
                status, found = found if isinstance(found, tuple) else (200, found)
                answer = found if isinstance(found, bytes) else json.dumps(found).encode()
            connected.sendall(b"HTTP/1.1 %d Oh\r\nContent-Length: %d\r\n\r\n%s" % (status, len(answer), answer))

    with listening(serve) as port:
        yield f"http://127.0.0.1:{port}", requests


def test_only_what_was_not_taken_is_sent_again_and_progress_is_no_failure() -> None:
    taken = {"SequenceNumber": "1", "ShardId": "s"}
    busy = {"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": "slow down"}
    throttled = (400, {"__type": "ThrottlingException", "message": "wait"})
    retries = Retries()
    answers = [{"Records": [busy] * left + [taken]} for left in range(5, 0, -1)]
    with answering(*answers, throttled, {"Records": [taken]}) as (endpoint, requests):
        sink = sink_of(section_of("kinesis", endpoint, f"{KINESIS}, {QUICK}"))
        batch = replace(batch_of(0), tell_retry=retries.tell)
        written = write_rows(sink, batch, *({"n": n, "key": "k"} for n in range(6)))
    assert (written.figures["rows"], written.figures["retries"]) == (6, 6)
    assert [len(request["Records"]) for request in requests] == [6, 5, 4, 3, 2, 1, 1]
    assert "5 of 6 messages were not taken: ProvisionedThroughputExceededException" in (retries.reasons[0] or "")
    assert retries.reasons[-1] is None

    items = [{"PutRequest": {"Item": {"id": {"N": "1.0"}}}}]
    with answering({"UnprocessedItems": {"obs": items}}, {"UnprocessedItems": {}}) as (endpoint, requests):
        more = f'table = obs, hash_key = id, template = "${{payload}}", {QUICK}'
        sink = sink_of(section_of("dynamo", endpoint, more))
        write_rows(sink, batch_of(0), {"id": 1, "x": "old"}, {"id": 2}, {"id": 1, "x": "new"})
    sent = [[one["PutRequest"]["Item"] for one in request["RequestItems"]["obs"]] for request in requests]
    newest = {"id": {"N": "1"}, "x": {"S": "new"}}
    assert sent == [[newest, {"id": {"N": "2"}}], [newest]]


@cases(
    ("kind", "more", "answer", "reason"),
    [
        ("kinesis", KINESIS, {"Records": 7}, "this is not an answer of the service"),
        ("kinesis", KINESIS, [], "this is not an answer of the service|not taken: no answer"),
        ("kinesis", KINESIS, b"[" * 100_000, "this is not an answer of the service|not taken: no answer"),
        ("kinesis", KINESIS, {"Records": []}, "not taken: no answer"),
        ("kinesis", KINESIS, (503, b"<html>"), "503"),
        ("kinesis", KINESIS, (302, b""), "302"),
        ("kinesis", KINESIS, (400, {"__type": "InvalidSignatureException"}), "InvalidSignatureException"),
        ("kinesis", KINESIS, (400, {"__type": "AccessDeniedException", "Message": "no"}), "AccessDeniedException: no"),
        ("dynamo", DYNAMO, {"UnprocessedItems": {"obs": [{"DeleteRequest": {}}]}}, "items that were not sent"),
        ("dynamo", DYNAMO, b"<html>", "this is not an answer of the service"),
        ("dynamo", DYNAMO, b'{"UnprocessedItems": {"obs": [', "this is not an answer of the service"),
        ("dynamo", DYNAMO, {"UnprocessedItems": [1]}, "this is not an answer of the service"),
        (
            "sqs",
            f'queue_url = "https://q/0/q", {SQS}',
            {"Failed": [{"Id": "0", "SenderFault": True, "Code": "KMS.DisabledException", "Message": "key"}]},
            "KMS.DisabledException: key",
        ),
        ("sqs", f'queue_url = "https://q/0/q", {SQS}', {"Failed": [{"Id": "x"}], "Successful": [{}]}, "no answer"),
    ],
)
def test_an_answer_that_takes_nothing_costs_no_row(kind: str, more: str, answer: object, reason: str) -> None:
    with (
        answering(answer) as (endpoint, requests),
        pytest.raises(SinkError, match=reason) as error,
    ):
        write_rows(
            sink_of(section_of(kind, endpoint, f"{more}, {ONCE}")), batch_of(0), {"id": "a", "at": "b", "key": "c"}
        )
    assert len(requests) == 1
    assert SECRET not in str(error.value)
    assert len(str(error.value)) < 600


@cases(
    ("endpoint", "region"),
    [
        ("https://kinesis.eu-west-1.amazonaws.com", "eu-west-1"),
        ("https://vpce-0a1b-c2.sqs.eu-central-1.vpce.amazonaws.com", "eu-central-1"),
        ("https://dynamodb.cn-north-1.amazonaws.com.cn/", "cn-north-1"),
        ("https://kinesis-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("http://127.0.0.1:4566", "us-east-1"),
        ("https://kinesis.eu-west-1.amazonaws.com.evil.example", "us-east-1"),
    ],
)
def test_the_name_of_an_endpoint_says_the_region(endpoint: str, region: str) -> None:
    assert region_of(endpoint) == region

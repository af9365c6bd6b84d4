"""External registries of Confluent's kind, against a small one on this machine."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from heliograph.rules import CompiledRule, RuleEvaluationError
from heliograph.rules.schemas import INSTALLED
from heliograph.rules.schemas.confluent import ConfluentRegistry
from heliograph.rules.schemas.settings import HttpService, SchemaSettings, build
from heliograph.rules.values import Value

SCHEMA = '{"type":"record","name":"r","fields":[{"name":"n","type":"int"}]}'


class Registry(BaseHTTPRequestHandler):
    """Knows the schemas that were registered, by number."""

    schemas: ClassVar[dict[int, str]] = {}
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        number = int(self.path.rpartition("/")[2])
        if number == 99:
            self.answer(200, {"schema": "syntax", "schemaType": "PROTOBUF"})
        elif number in self.schemas:
            self.answer(200, {"schema": self.schemas[number]})
        else:
            self.answer(404, {"error_code": 40403, "message": "Schema not found"})

    def do_POST(self) -> None:
        self.asked.append(self.path)
        schema = json.loads(self.rfile.read(int(self.headers["content-length"])))["schema"]
        self.schemas[7] = schema
        self.answer(200, {"id": 7})

    def answer(self, status: int, fields: dict[str, object]) -> None:
        if self.headers["authorization"] != "Basic bWU6c2VjcmV0":
            status, fields = 401, {}
        body = json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nothing is logged."""


@pytest.fixture(autouse=True)
def registry() -> Iterator[list[str]]:
    """The paths that were asked for."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    service = HttpService(f"http://127.0.0.1:{server.server_port}/api", basic_auth=("me", "secret"))
    before = list(INSTALLED.all().values())
    schemas = build(
        [SchemaSettings.of_text("local", "avro", SCHEMA), SchemaSettings("x", "confluent", service=service)]
    )
    INSTALLED.replace(schemas)
    Registry.schemas.clear()
    Registry.asked.clear()
    yield Registry.asked
    INSTALLED.replace(before)
    server.shutdown()
    thread.join()
    server.server_close()
    assert isinstance(schemas[1], ConfluentRegistry)
    schemas[1].close()


def value_of(expression: str) -> Value:
    """What an expression gives."""
    (row,) = CompiledRule(f'SELECT {expression} AS x FROM "#"').apply({"topic": "t", "payload": b""})
    return row["x"]


def test_tagged_messages(registry: list[str]) -> None:
    tagged = "schema_encode_and_tag('local', 'x', json_decode('{\"n\":1}'), 'my subject')"
    assert value_of(tagged) == "\0\0\0\0\7\2"
    assert value_of(f"schema_decode_tagged('x', {tagged})") == {"n": 1}
    assert value_of(f"avro_decode('x', {tagged})") == {"n": 1}
    assert registry == ["/api/subjects/my%20subject/versions", "/api/schemas/ids/7"]


def test_schemas_by_number(registry: list[str]) -> None:
    Registry.schemas[3] = SCHEMA
    assert value_of("avro_encode('x', json_decode('{\"n\":1}'), 3)") == "\2"
    assert value_of("avro_decode('x', avro_encode('x', json_decode('{\"n\":1}'), 3), 3)") == {"n": 1}
    assert registry == ["/api/schemas/ids/3"]


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("avro_decode('x', 'untagged')", "the data is not tagged"),
        ("avro_decode('x', '', 4)", "answered with status 404: .*Schema not found"),
        ("avro_decode('x', '', 99)", "is of type PROTOBUF, not AVRO"),
        ("avro_decode('x', '', -1)", "-1 is no number of a schema"),
        ("avro_decode('local', '', 4)", "is a schema of type avro, not an external registry"),
        ("avro_decode('none', '', 4)", "there is no schema 'none'"),
        ("schema_encode('x', 1)", "name a schema to encode with"),
        ("schema_encode_and_tag('x', 'x', 1, 's')", "the schema 'x' is of type confluent, not avro"),
    ],
)
def test_failures(expression: str, problem: str) -> None:
    with pytest.raises(RuleEvaluationError, match=problem):
        value_of(expression)


def test_a_number_that_nobody_knows_is_not_asked_for_again_at_once(registry: list[str]) -> None:
    for _ in range(3):
        with pytest.raises(RuleEvaluationError, match="status 404"):
            value_of("avro_decode('x', '', 4)")
    assert registry == ["/api/schemas/ids/4"]

"""External registries of Confluent's kind, against a small one on this machine."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from heliograph.rules.environment import Environment
from heliograph.rules.errors import RuleEvaluationError
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.schemas import SchemaRegistry
from heliograph.rules.schemas.registry import build
from heliograph.rules.schemas.settings import HttpService, SchemaSettings
from heliograph.rules.values import Value
from support.cases import cases

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


Ask = Callable[[str], Value]


@pytest.fixture
def value_of() -> Iterator[Ask]:
    """What an expression gives where the registry `x` is known; `Registry.asked` are the paths that it asks for."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    service = HttpService(f"http://127.0.0.1:{server.server_port}/api", basic_auth=("me", "secret"))
    schemas = build(
        [SchemaSettings.of_text("local", "avro", SCHEMA), SchemaSettings("x", "confluent", service=service)]
    )
    Registry.schemas.clear()
    Registry.asked.clear()
    environment = Environment(SchemaRegistry(schemas))

    def ask(expression: str) -> Value:
        rule = CompiledRule(f'SELECT {expression} AS x FROM "#"', environment=environment)
        (row,) = rule.apply({"topic": "t", "payload": b""})
        return row["x"]

    yield ask
    environment.close()
    server.shutdown()
    thread.join()
    server.server_close()


def test_tagged_messages(value_of: Ask) -> None:
    tagged = "schema_encode_and_tag('local', 'x', json_decode('{\"n\":1}'), 'my subject')"
    assert value_of(tagged) == "\0\0\0\0\7\2"
    assert value_of(f"schema_decode_tagged('x', {tagged})") == {"n": 1}
    assert value_of(f"avro_decode('x', {tagged})") == {"n": 1}
    assert Registry.asked == ["/api/subjects/my%20subject/versions", "/api/schemas/ids/7"]


def test_schemas_by_number(value_of: Ask) -> None:
    Registry.schemas[3] = SCHEMA
    assert value_of("avro_encode('x', json_decode('{\"n\":1}'), 3)") == "\2"
    assert value_of("avro_decode('x', avro_encode('x', json_decode('{\"n\":1}'), 3), 3)") == {"n": 1}
    assert Registry.asked == ["/api/schemas/ids/3"]


@cases(
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
def test_failures(expression: str, problem: str, value_of: Ask) -> None:
    with pytest.raises(RuleEvaluationError, match=problem):
        value_of(expression)


def test_a_number_that_nobody_knows_is_not_asked_for_again_at_once(value_of: Ask) -> None:
    for _ in range(3):
        with pytest.raises(RuleEvaluationError, match="status 404"):
            value_of("avro_decode('x', '', 4)")
    assert Registry.asked == ["/api/schemas/ids/4"]

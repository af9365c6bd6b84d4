"""Rules, schemas, validations and transformations are made, changed, tried and deleted while the node runs."""

import json
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from heliograph.rpc.methods import RpcError
from support.asked_node import AskedNode
from support.live_node import BASE

SQL = 'SELECT payload.x + 1 AS y FROM "in/#"'
_KEEPS = "SELECT kv_store_put('seen', payload.x) AS x"
REPUBLISH = {"function": "republish", "args": {"topic": "out", "payload": "${y}", "qos": 0}}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AskedNode]:
    base = BASE + 'rule_engine.rules.base.sql = "SELECT * FROM \\"base\\""\n'
    running = AskedNode(tmp_path_factory.mktemp("node"), "", base)
    await running.start()
    yield running
    await running.stop()


async def refused(node: AskedNode, name: str, args: dict[str, object]) -> RpcError:
    with pytest.raises(RpcError) as found:
        await node.ask(name, args)
    return found.value


@pytest.mark.parametrize("topic", ["$SYS/x", "${$}SYS/x", "$events/${y}", "$delayed/0/$SYS/x"])
async def test_a_rule_does_not_speak_for_the_broker(node: AskedNode, topic: str) -> None:
    action = {"function": "republish", "args": {"topic": topic}}
    error = await refused(node, "rules.put", {"name": "forges", "text": json.dumps({"sql": SQL, "actions": [action]})})
    assert error.code == "config_change_refused"
    text = (
        f"action 1, args.topic: {topic!r} is the broker's own: rules publish there only with sys_topics.allow_publish"
    )
    assert error.message.startswith(text)


async def test_a_rule_is_made_replaced_as_a_whole_and_deleted(node: AskedNode) -> None:
    settings = {"sql": SQL, "actions": [REPUBLISH], "name": "Add", "description": "adds", "metadata": {"team": "a"}}
    await node.ask("rules.put", {"name": "add", "text": json.dumps(settings), "is_new": True})
    rule = await node.ask("rules.one", {"id": "add"})
    assert (rule.name, rule.description, rule.enable, rule.topics) == ("Add", "adds", True, ["in/#"])
    (action,) = json.loads(rule.actions)
    assert action["args"] == {
        "topic": "out",
        "payload": "${y}",
        "qos": 0,
        "retain": "${retain}",
        "user_properties": "",
        "mqtt_properties": {},
        "direct_dispatch": False,
    }
    assert json.loads(rule.metadata)["team"] == "a"
    assert 0 < rule.created_at == rule.last_modified_at
    assert (await refused(node, "rules.put", {"name": "add", "text": "{}", "is_new": True})).code == "already_exists"
    await node.ask("rules.put", {"name": "add", "text": json.dumps({"sql": SQL, "enable": False})})
    changed = await node.ask("rules.one", {"id": "add"})
    assert (changed.name, changed.description, changed.enable, changed.actions) == ("", "", False, "[]")
    assert changed.created_at == rule.created_at <= changed.last_modified_at
    await node.ask("rules.delete", {"name": "add"})
    assert "add" not in node.cluster
    assert (await refused(node, "rules.one", {"id": "add"})).code == "not_found"
    assert (await refused(node, "rules.delete", {"name": "add"})).code == "not_found"


async def test_a_rule_that_is_none_changes_nothing_and_says_where(node: AskedNode) -> None:
    before = node.cluster
    error = await refused(node, "rules.put", {"name": "no", "text": json.dumps({"sql": "SELECT FROM t"})})
    assert error.code == "config_change_refused"
    assert "rule_engine.rules.no.sql" in error.message
    for name, text in (("no name", "{}"), ("a", "[1]"), ("a", "{"), ("a", '{"sql": 1, "unknown": 2}')):
        assert (await refused(node, "rules.put", {"name": name, "text": text})).code == "config_change_refused"
    assert node.cluster == before


async def test_a_rule_of_another_layer_is_not_deleted(node: AskedNode) -> None:
    error = await refused(node, "rules.delete", {"name": "base"})
    assert error.code == "config_change_hidden"
    assert "base.hocon:" in error.message


async def test_counts_and_rates_of_a_rule_begin_anew(node: AskedNode) -> None:
    await node.ask("rules.put", {"name": "count", "text": json.dumps({"sql": SQL, "actions": [REPUBLISH]})})
    client = await node.connect("counted")
    await client.subscribe("out")
    await client.publish("in/1", b'{"x": 1}')
    await client.publish("in/1", b"no JSON")
    await client.ping()
    rule = await node.ask("rules.one", {"id": "count"})
    assert (rule.counts["matched"], rule.counts["passed"], rule.counts["failed.exception"]) == (2, 1, 1)
    assert rule.counts["actions.success"] == 1
    assert set(rule.rates) == {"rate", "rate.max", "rate.last5m"}
    after = await node.ask("rules.reset", {"id": "count"})
    assert set(after.counts.values()) == {0}
    assert await client.payloads() == [b"2"]
    client.close()


async def test_a_rule_is_tried_with_and_without_its_actions(node: AskedNode) -> None:
    await node.ask("rules.put", {"name": "tried", "text": json.dumps({"sql": SQL, "actions": [REPUBLISH]})})
    client = await node.connect("trying")
    await client.subscribe("out")
    context = json.dumps({"event_type": "message_publish", "topic": "in/a", "payload": '{"x": 41}'})
    tried = await node.ask("rules.try", {"id": "tried", "context": context})
    assert json.loads(tried.output) == {"y": 42}
    assert await client.payloads() == []
    assert json.loads((await node.ask("rules.run", {"id": "tried", "context": context})).output) == {"y": 42}
    await client.ping()
    assert await client.payloads() == [b"42"]
    other = json.dumps({"topic": "else", "payload": "{}"})
    assert not (await node.ask("rules.try", {"sql": SQL, "context": other})).is_match
    each = 'FOREACH payload.a AS one DO one FROM "t"'
    listed = await node.ask("rules.try", {"sql": each, "context": '{"payload": "{\\"a\\": [1, 2]}"}'})
    assert json.loads(listed.output) == [{"one": 1}, {"one": 2}]
    connected = await node.ask("rules.try", {"sql": 'SELECT clientid FROM "$events/client_connected"', "context": "{}"})
    assert json.loads(connected.output) == {"clientid": "rule-test"}
    client.close()


async def test_what_a_rule_keeps_while_it_is_tried_is_forgotten(node: AskedNode) -> None:
    kept = "SELECT kv_store_get('tried', 0) AS before, kv_store_put('tried', payload.x) AS now FROM \"keep/tried\""
    await node.ask("rules.put", {"name": "keeper", "text": json.dumps({"sql": kept})})

    async def told(method: str, x: int, **rule: str) -> object:
        context = json.dumps({"topic": "keep/tried", "payload": json.dumps({"x": x})})
        return json.loads((await node.ask(method, {**rule, "context": context})).output)

    assert await told("rules.run", 1, id="keeper") == {"before": 0, "now": 1}
    for rule in ({"sql": kept}, {"id": "keeper"}, {"sql": kept}):
        assert await told("rules.try", 2, **rule) == {"before": 1, "now": 2}, "it sees what the broker keeps"
    assert await told("rules.run", 3, id="keeper") == {"before": 1, "now": 3}
    await node.ask("rules.delete", {"name": "keeper"})


@pytest.mark.parametrize(
    ("sql", "context", "code"),
    [
        ("SELECT FROM", "{}", "rule_syntax"),
        (SQL, '{"payload": "no JSON"}', "rule_evaluation"),
        (SQL, "[]", "bad_arguments"),
        (SQL, "no JSON", "bad_arguments"),
        (SQL, '{"event_type": "no_such"}', "bad_arguments"),
        (SQL, '{"topic": "in/+"}', "bad_arguments"),
    ],
)
async def test_a_trial_that_makes_no_sense_says_why(node: AskedNode, sql: str, context: str, code: str) -> None:
    assert (await refused(node, "rules.try", {"sql": sql, "context": context})).code == code


async def test_each_event_has_an_example_that_is_a_rule(node: AskedNode) -> None:
    for event in await node.ask("rules.events"):
        tested = {name: value for name, (value, _) in json.loads(event.test_columns).items()}
        context = json.dumps({"event_type": event.event, **tested})
        assert (await node.ask("rules.try", {"sql": event.sql_example, "context": context})).is_match
        assert set(tested) <= set(event.columns)


async def test_schemas_and_registries_are_made_and_deleted(node: AskedNode) -> None:
    avro = {"type": "avro", "source": '{"type": "string"}', "description": "text"}
    await node.ask("schemas.put", {"name": "text", "text": json.dumps(avro), "is_new": True})
    assert json.loads((await node.ask("schemas.show", {"name": "text"})).text) == avro
    error = await refused(node, "schemas.put", {"name": "bad", "text": json.dumps({**avro, "source": "{"})})
    assert error.code == "config_change_refused"
    sql = "SELECT schema_decode('text', payload) AS t FROM \"t\""
    await node.ask("rules.put", {"name": "uses", "text": json.dumps({"sql": sql})})
    await node.ask("schemas.delete", {"name": "text"})
    assert await node.ask("schemas.list") == []
    registry = {"type": "confluent", "url": "http://127.0.0.1:9", "auth": {"username": "u", "password": "s3cret"}}
    await node.ask("schema_registries.put", {"name": "far", "text": json.dumps(registry)})
    (shown,) = await node.ask("schema_registries.list")
    assert json.loads(shown.text)["auth"] == {"username": "u", "password": "******"}
    await node.ask("schema_registries.put", {"name": "far", "text": shown.text})
    assert "s3cret" in node.cluster, "stars keep what is there"
    await node.ask("schema_registries.delete", {"name": "far"})
    assert "s3cret" not in node.cluster


async def test_validations_are_added_switched_ordered_counted_and_deleted(node: AskedNode) -> None:
    check = {"type": "sql", "sql": "SELECT payload.x AS x WHERE x > 0"}
    for name in ("one", "two"):
        settings = {"name": name, "topics": ["v"], "checks": [check], "failure_action": "drop"}
        await node.ask("validations.add", {"name": name, "text": json.dumps(settings)})
    client = await node.connect("validated")
    await client.subscribe("v")
    await client.publish("v", b'{"x": 0}')
    await client.publish("v", b'{"x": 1}')
    assert await client.payloads() == [b'{"x": 1}']
    assert (await node.ask("validations.show", {"name": "one"})).counts == {"matched": 2, "succeeded": 1, "failed": 1}
    assert (await node.ask("validations.reset", {"name": "one"})).counts == {"matched": 0, "succeeded": 0, "failed": 0}
    await node.ask("validations.order", {"names": ["two", "one"]})
    assert [row.name for row in await node.ask("validations.list")] == ["two", "one"]
    for name in ("one", "two"):
        await node.ask("validations.switch", {"name": name, "is_enabled": False})
    await client.publish("v", b'{"x": 0}')
    assert await client.payloads() == [b'{"x": 0}']
    assert (await refused(node, "validations.order", {"names": ["one"]})).code == "config_change_refused"
    assert (await refused(node, "validations.switch", {"name": "no", "is_enabled": True})).code == "not_found"
    settings = {"name": "one", "topics": ["w"], "checks": [check]}
    await node.ask("validations.update", {"name": "one", "text": json.dumps(settings)})
    assert json.loads((await node.ask("validations.show", {"name": "one"})).text) == settings
    for name in ("one", "two"):
        await node.ask("validations.delete", {"name": name})
    assert await node.ask("validations.list") == []
    client.close()


async def test_a_validation_is_tried_and_leaves_nothing_behind(node: AskedNode) -> None:
    await node.ask("rules.put", {"name": "keep", "text": json.dumps({"sql": _KEEPS + ' FROM "kept"'})})
    client = await node.connect("keeping")
    await client.subscribe("$event/#")
    await client.publish("kept", b'{"x": 1}')
    await client.ping()
    keeps = {"type": "sql", "sql": "SELECT kv_store_get('seen') AS s, kv_store_put('seen', 9) AS n WHERE s = 1"}
    settings = {"name": "v", "topics": ["v/+"], "checks": [keeps, {"type": "sql", "sql": "SELECT * WHERE qos = 1"}]}
    await node.ask("validations.add", {"name": "v", "text": json.dumps(settings)})
    for _ in range(2):  # the second time it sees what the first one saw
        message = {"topic": "v/1", "payload": b"p"}
        tried = await node.ask("validations.dry_run", {"text": json.dumps(settings), "message": message})
        assert (tried.fault, tried.outcome) == ("the SQL selects nothing", "dropped")
        assert [(one.type, one.fault) for one in tried.checks] == [("sql", ""), ("sql", tried.fault)]
    assert (await node.ask("validations.show", {"name": "v"})).counts == {"matched": 0, "succeeded": 0, "failed": 0}
    await client.publish("v/1", b"p", 1)
    counted = (await node.ask("validations.show", {"name": "v"})).counts
    assert counted == {"matched": 1, "succeeded": 1, "failed": 0}, "the broker says the same"
    for wrong, said in (
        ({"checks": []}, "checks: "),
        ({"checks": [{}]}, "checks.1.type: "),
        ({"checks": [{"type": "sql", "sql": "SELECT *"}, {"type": "sql", "sql": "SELECT"}]}, "checks.2.sql: "),
        ({"checks": [{"type": "json", "schema": "none"}]}, "checks.1.schema: "),
    ):
        error = await refused(node, "validations.dry_run", {"text": json.dumps(wrong), "message": message})
        assert (error.code, error.message.startswith(said)) == ("bad_arguments", True), error.message
    await node.ask("validations.delete", {"name": "v"})
    await node.ask("rules.delete", {"name": "keep"})
    client.close()


async def test_a_transformation_is_tried_before_it_is_added(node: AskedNode) -> None:
    settings = {
        "operations": [{"key": "topic", "value": "concat([topic, '/x'])"}, {"key": "user_property.a", "value": "'b'"}]
    }
    message = {"topic": "t", "payload": b"p", "qos": 1}
    out = await node.ask("transformations.dry_run", {"text": json.dumps(settings), "message": message})
    assert (out.topic, out.payload, out.qos, out.user_properties) == ("t/x", b"p", 1, [("a", "b")])
    broken = json.dumps({"operations": [{"key": "topic", "value": "concat("}]})
    error = await refused(node, "transformations.dry_run", {"text": broken, "message": message})
    assert (error.code, error.message.startswith("operations.1.value: ")) == ("bad_arguments", True)
    decodes = json.dumps({"payload_decoder": {"type": "json"}, "operations": []})
    error = await refused(node, "transformations.dry_run", {"text": decodes, "message": message})
    assert error.code == "transformation_failed"
    named = json.dumps({"name": "x", "topics": ["t"], **settings})
    await node.ask("transformations.add", {"name": "x", "text": named})
    client = await node.connect("transformed")
    await client.subscribe("t/x")
    await client.publish("t", b"p")
    assert await client.payloads() == [b"p"]
    assert (await node.ask("transformations.show", {"name": "x"})).counts["succeeded"] == 1
    await node.ask("transformations.delete", {"name": "x"})
    client.close()


async def test_changes_are_in_the_audit_log_and_contexts_are_not(node: AskedNode) -> None:
    await node.ask("rules.put", {"name": "audited", "text": json.dumps({"sql": SQL})})
    told = [str(line.get("args")) for line in await node.audit()]
    assert "the rule audited is made" in told[-1]


async def test_a_trace_of_a_rule_has_its_evaluations_and_actions(node: AskedNode) -> None:
    start = {"name": "r", "kind": "rule", "value": "traced", "payload": "text", "formatter": "text"}
    await node.ask("trace.start", start)
    await node.ask("rules.put", {"name": "traced", "text": json.dumps({"sql": SQL, "actions": [REPUBLISH]})})
    client = await node.connect("tracing")
    await client.publish("in/1", b'{"x": 1}')
    await client.publish("in/1", b"no JSON")
    await client.publish("else", b'{"x": 1}')
    await client.ping()
    read = await node.ask("trace.read", {"name": "r", "bytes": 100_000})
    assert "matched rule=traced" in read.text
    assert '{"y":2}' in read.text
    assert "rule action" in read.text
    assert "failed rule=traced" in read.text
    assert "else" not in read.text
    assert (await node.ask("trace.read", {"name": "r", "position": read.position})).text == ""
    assert (await node.ask("trace.stop", {"name": "r"})).state == "stopped"
    await client.publish("in/1", b'{"x": 5}')
    whole, position = "", 0
    while (piece := await node.ask("trace.read", {"name": "r", "position": position, "bytes": 1})).text:
        assert piece.text.count("\n") == 1
        whole, position = whole + piece.text, piece.position
    assert whole.startswith(read.text)
    assert '{"y":6}' not in whole
    await node.ask("trace.delete", {"name": "r"})
    client.close()


async def test_a_trace_waits_for_its_time(node: AskedNode) -> None:
    start = {"name": "later", "kind": "client", "value": "c", "start_at": time.time() + 3600, "duration_s": 60}
    row = await node.ask("trace.start", start)
    assert (row.state, row.duration_s) == ("waiting", 60)
    assert (await refused(node, "trace.start", {**start, "name": "same"})).code == "trace_duplicate"
    assert (await refused(node, "trace.start", start)).code == "trace_exists"
    assert [row.state for row in await node.ask("trace.list") if row.name == "later"] == ["waiting"]
    assert (await node.ask("trace.stop", {"name": "later"})).state == "stopped"
    await node.ask("trace.delete", {"name": "later"})
    soon = {"name": "now", "kind": "client", "value": "c", "start_at": time.time()}
    assert (await node.ask("trace.start", soon)).state == "running"
    await node.ask("trace.delete", {"name": "now"})

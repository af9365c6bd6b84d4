"""Probes of rules, schemas, validations, transformations and Sparkplug B."""

import json
from collections.abc import AsyncIterator

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.rules.schemas.sparkplug import sparkplug_schema
from live_settings.table import Run, World, probe_text


def rule(sql: str, more: str = "") -> str:
    """The text of a rule that publishes what it makes to `out`, and of other options of rules."""
    action = '{ function = republish, args { topic = "out", payload = "${r}" } }'
    return f"rule_engine {{ {more}\nrules.one {{ sql = {json.dumps(sql)}, actions = [{action}] }} }}\n"


def _gives(expected: list[bytes], *published: tuple[str, bytes]) -> Run:
    """What is published to `out` after the change, of messages that made nothing before."""

    async def run(world: World) -> AsyncIterator[None]:
        client = await world.connect()
        await client.subscribe("out")
        for topic, payload in published:
            await client.publish(topic, payload, 1)
        assert await client.payloads() == []
        yield
        for topic, payload in published:
            await client.publish(topic, payload, 1)
        assert [(await client.take(p.Publish)).payload for _ in expected] == expected

    return run


ADDS = "SELECT jq('. + 1', payload) as r FROM \"in\""
probe_text("rule_engine.rules", rule('SELECT payload as r FROM "in"'))(_gives([b"x"], ("in", b"x")))
probe_text("rule_engine.blocking_threads", rule(ADDS, "blocking_threads = 1"))(
    _gives([b"[2]", b"[3]"], ("in", b"1"), ("in", b"2"))
)


@probe_text("rule_engine.ignore_sys_message", rule('SELECT topic as r FROM "$SYS/#"', "ignore_sys_message = false"))
async def ignore_sys_message(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    await client.subscribe("out")
    yield
    await world.connect("other")
    await client.take(p.Publish, lambda one: b"other/connected" in one.payload)  # the node tells of itself, too


async def until(world: World, name: str, count: float = 1) -> None:
    """Have the node work until a counter is so high."""
    client = await world.connect("waiting")
    while world.number(name) < count:
        await client.ping()


def _counts(name: str, messages: int, payload: bytes) -> Run:
    async def run(world: World) -> AsyncIterator[None]:
        client = await world.connect()
        yield
        for _ in range(messages):
            await client.publish("in", payload)
        await until(world, name)

    return run


EACH = 'FOREACH payload.a as e DO e as r FROM "in"'
probe_text("rule_engine.jq_function_default_timeout", rule("SELECT jq('def f: f; f', payload) as r FROM \"in\"",
           "jq_function_default_timeout = 10ms"))(_counts("rules.one.failed.exception", 1, b"1"))  # fmt: skip
probe_text("rule_engine.max_queued_messages", rule(EACH, "max_queued_messages = 1"))(
    _counts("rules.one.actions.failed.out_of_service", 1, b'{"a":[1,2,3]}')
)
probe_text("rule_engine.max_blocked_messages", rule(ADDS, "max_blocked_messages = 1"))(
    _counts("rules.one.failed.out_of_service", 200, b"1")
)

VALIDATION = """schema_validation.validations = [{ name = v, topics = in, strategy = all_pass, failure_action = drop
  checks = [{ CHECK }] }]\n"""
SCHEMA = 'schema_registry.schemas.s { type = json, source = "{\\"type\\":\\"object\\"}" }\n'


def _validates(settings: str, path: str) -> None:
    @probe_text(path, settings)
    async def run(world: World) -> AsyncIterator[None]:
        client = await world.connect()
        await client.subscribe("in")
        await client.publish("in", b"1", 1)
        yield
        assert await client.publish("in", b"1", 1) == rc.IMPLEMENTATION_SPECIFIC_ERROR


_validates(
    VALIDATION.replace("CHECK", 'type = sql, sql = "SELECT * WHERE payload.a = 1"'), "schema_validation.validations"
)
_validates(SCHEMA + VALIDATION.replace("CHECK", "type = json, schema = s"), "schema_registry.schemas")
probe_text(
    "message_transformation.transformations",
    """message_transformation.transformations = [{ name = t, topics = in, failure_action = drop
  operations = [{ key = topic, value = "concat(['o', 'ut'])" }] }]\n""",
)(_gives([b"x"], ("in", b"x")))


# Nothing listens at its address; a rule that names a schema which is not there would be refused.
REGISTRY = 'schema_registry.external.s { type = confluent, url = "http://127.0.0.1:9", connect_timeout = 10ms }\n'
probe_text("schema_registry.external", REGISTRY + rule("SELECT schema_decode('s', payload) as r FROM \"in\""))(
    _counts("rules.one.failed.exception", 1, b"\0\0\0\0\1\2x")
)

SPARKPLUG = "spBv1.0/g/NBIRTH/e"
BIRTH = sparkplug_schema().encode(
    {"timestamp": 1, "seq": 0, "metrics": [
        {"name": name, "alias": alias, "datatype": 10, "double_value": 1.5} for alias, name in enumerate(("a", "b"))
    ]}
)  # fmt: skip


def _learns(setting: str, group: str, name: str) -> None:
    path = f"schema_registry.sparkplug_b.{setting}"

    @probe_text(path, f"schema_registry.sparkplug_b {{ {group} }}")
    async def run(world: World) -> AsyncIterator[None]:
        client = await world.connect()
        await client.subscribe("$sparkplug/#")
        await client.publish(SPARKPLUG, BIRTH, 1)
        yield
        await client.publish(SPARKPLUG, BIRTH, 1)
        await until(world, name)


_learns("enable_alias_mapping", "enable_alias_mapping = true", "sparkplug.aliases")
_learns("metric_messages", "metric_messages = true", "sparkplug.metrics.published")
_learns(
    "max_aliases",
    "enable_alias_mapping = true, max_aliases = 1",
    "sparkplug.births.refused",
)

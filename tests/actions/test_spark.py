"""Actions made through the API, on one node with one pipeline: the rows of rules, seen at real targets."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
import redis

from heliograph.actions.names import query_name
from heliograph.mqtt import packets as p
from support.managed_clients import connected
from support.management import ManagedNode
from support.postgresql import Postgresql, postgresql
from support.redis import RedisServer, redis_server
from support.running import MqttClient
from support.waiting import wait_until
from support.webhook import Answer, Webhook, webhook

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.timeout(400)]

NAMES: Final = ("http:web", "pgsql:db", "redis:cache", "mqtt:hub", "parquet:lake")
ACCEPTED: Final = (0x00, 0x10)  # also where nobody subscribes
PAYLOAD: Final = {"n": 1, "name": 'it\'s "quoted"', "deep": {"list": [1, {"x": 2.5}]}}
SETTINGS: Final = """
durable_storage { messages.topics = ["only/this"], flight.bind = "127.0.0.1:0" }
pipeline { enable = true, master = "local[2]", trigger = 1s, spark_conf { "spark.driver.memory" = 512m } }
"""


@dataclass
class World:
    """A node, its API, and where rows go."""

    managed: ManagedNode
    web: Webhook
    database: Postgresql
    cache: redis.Redis
    output: Path

    @property
    def api(self) -> Any:
        """A client of the API."""
        return self.managed.api

    def make(self, path: str, **body: Any) -> None:
        """Make a connector, an action or a rule."""
        answer = self.api.post(path, json=body)
        assert answer.status_code == 201, answer.text

    def wait_for(self, action: str, found: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait until an action is shown as it is to be, and tell how: a moment later it may be another way again."""
        shown: dict[str, Any] = {}

        def is_as_wanted() -> object:
            shown.update(self.api.get(f"/actions/{action}").json())
            return found(shown)

        wait_until(is_as_wanted, lambda: self.told(action))
        return shown

    def told(self, action: str) -> str:
        """What is told of an action, and by the pipeline."""
        log = self.output.parent / "pipeline.log"
        return f"{self.api.get(f'/actions/{action}').text}\n{log.read_text()[-3000:] if log.exists() else 'no log'}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    pytest.importorskip("pyspark")
    directory = tmp_path_factory.mktemp("actions")
    with ExitStack() as stack:
        database = stack.enter_context(postgresql())
        server = stack.enter_context(redis_server(tmp_path_factory.mktemp("redis")))
        cache = stack.enter_context(server.client())
        web = stack.enter_context(webhook())
        managed = stack.enter_context(ManagedNode(directory, SETTINGS))
        database.query("CREATE TABLE obs (topic text, n int, x double precision, nothing text, deep jsonb)")
        made = World(managed, web, database, cache, directory / "data" / "pipeline" / "output")
        _make_connectors(made, server)
        _make_actions(made)
        yield made


def _make_connectors(world: World, server: RedisServer) -> None:
    database = world.database
    world.make("/connectors", type="http", name="web", url=f"{world.web.url}/base", headers={"x-key": "secret"})
    world.make(
        "/connectors",
        type="pgsql",
        name="db",
        server=f"127.0.0.1:{database.port}",
        database=database.database,
        username=database.user,
        password=database.password,
    )
    place = {"server": f"127.0.0.1:{server.port}", "password": server.password, "redis_type": "single"}
    world.make("/connectors", type="redis", name="cache", parameters=place)
    world.make("/connectors", type="mqtt", name="hub", server=f"127.0.0.1:{world.managed.node.port}")
    world.make("/connectors", type="parquet", name="lake")


def _make_actions(world: World) -> None:
    body = '{"n": ${payload.n}, "nothing": ${nothing}, "x": ${payload.deep.list[1].x}, "row": ${.}}'
    parameters: dict[str, dict[str, Any]] = {
        "http:web": {"path": "/t/${topic}", "headers": {"x-client": "${clientid}"}, "body": body, "max_retries": 0},
        "pgsql:db": {
            "sql": "INSERT INTO obs (topic, n, x, nothing, deep) "
            "VALUES (${topic}, ${payload.n}, ${payload.deep.list[1].x}, ${nothing}, ${payload.deep})"
        },
        "redis:cache": {"command_template": ["RPUSH", "rows:${topic}", "${payload}"]},
        "mqtt:hub": {"topic": "out/${clientid}", "payload": "${payload.name}"},
        "parquet:lake": {"path": "obs", "columns": {"topic": "string", "qos": "int", "payload": "string"}},
    }
    for action, said in parameters.items():
        kind, _, name = action.partition(":")
        world.make("/actions", type=kind, name=name, connector=name, parameters=said)
    world.make("/rules", id="one", sql='SELECT * FROM "in/#"', actions=list(NAMES))


def publish(world: World, topic: str, payload: bytes) -> None:
    async def run() -> None:
        async with connected(world.managed, "device") as client:
            assert await client.publish(topic, payload, 1) in ACCEPTED

    asyncio.run(run())


def test_rows_arrive_at_every_target(world: World) -> None:
    text = json.dumps(PAYLOAD)

    async def send_and_hear() -> p.Publish:
        async with connected(world.managed, "listener") as listener:
            await listener.subscribe("out/#", 1)
            async with connected(world.managed, "device") as device:
                assert await device.publish("in/1", text.encode(), 1) in ACCEPTED
            return await _heard(listener)

    message = asyncio.run(send_and_hear())
    assert (message.topic, message.payload) == (b"out/device", str(PAYLOAD["name"]).encode())
    wait_until(lambda: world.web.requests)
    (posted,) = world.web.requests
    assert (posted.method, posted.path) == ("POST", "/base/t/in/1")
    assert (posted.headers["x-key"], posted.headers["x-client"]) == ("secret", "device")
    body = json.loads(posted.body)
    assert (body["n"], body["nothing"], body["x"]) == (1, None, 2.5)
    assert (body["row"]["topic"], body["row"]["payload"], body["row"]["clientid"]) == ("in/1", text, "device")
    wait_until(lambda: world.database.query("SELECT 1 FROM obs"))
    assert world.database.query("SELECT * FROM obs") == [("in/1", 1, 2.5, None, PAYLOAD["deep"])]
    wait_until(lambda: world.cache.exists("rows:in/1"))
    assert world.cache.lrange("rows:in/1", 0, -1) == [text]
    wait_until(lambda: list((world.output / "obs").glob("*.parquet")))
    assert pq.read_table(world.output / "obs").to_pylist() == [{"topic": "in/1", "qos": 1, "payload": text}]


async def _heard(listener: MqttClient) -> p.Publish:
    while True:  # until Spark has started
        try:
            message = await listener.take(p.Publish)
        except TimeoutError:
            await listener.ping()
        else:
            listener.acknowledge(message)
            return message


def _has_one_success(world: World, path: str) -> bool:
    return bool(world.api.get(path).json()["metrics"]["success"] == 1)


def test_each_is_connected_and_counts(world: World) -> None:
    for action in NAMES:
        shown = world.wait_for(action, lambda shown: shown["status"] == "connected")
        assert (shown["status_reason"], shown["rules"]) == ("", ["one"])
        path = f"/actions/{action}/metrics"
        wait_until(partial(_has_one_success, world, path))
        assert world.api.put(f"{path}/reset").status_code == 204
        assert world.api.get(path).json()["metrics"]["matched"] == 0
    metrics = world.api.get("/rules/one/metrics").json()["metrics"]
    assert (metrics["matched"], metrics["actions.total"], metrics["actions.success"]) == (1, 5, 5)
    secrets = world.output.parent / "actions.hocon"
    assert secrets.stat().st_mode & 0o077 == 0
    assert world.database.password not in world.api.get("/connectors").text


def test_what_the_target_does_not_take_is_told_and_arrives_later(world: World) -> None:
    world.web.requests.clear()
    world.web.answer = lambda request: Answer(500, body=b"not today")
    publish(world, "in/2", b"{}")
    shown = world.wait_for("http:web", lambda shown: "not today" in shown["status_reason"])
    assert shown["status"] == "disconnected"
    assert world.api.get("/actions/redis:cache").json()["status"] == "connected"
    world.web.answer = lambda request: Answer()
    assert world.api.post("/actions/http:web/start").status_code in (204, 400)  # it has yet to begin
    world.wait_for("http:web", lambda shown: shown["status"] == "connected")
    wait_until(lambda: any(request.path == "/base/t/in/2" for request in world.web.requests))


def test_a_rule_of_an_event_and_a_changed_action(world: World) -> None:
    world.make("/rules", id="came", sql='SELECT clientid FROM "$events/client_connected"', actions=["redis:cache"])
    changed = world.api.get("/actions/redis:cache").json()
    changed["parameters"]["command_template"] = ["SADD", "came", "${clientid}"]
    assert world.api.put("/actions/redis:cache", json=changed).status_code == 200
    wait_until(lambda: pq.read_table(world.output / "obs").num_rows == 2, "the table has what came before")
    assert world.api.put("/actions/parquet:lake/enable/false").status_code == 204
    # The pipeline looks at its file now and then; until then rows go where they went before.
    taken = f"{query_name('redis:cache')} was changed and starts again"
    wait_until(
        lambda: taken in (world.output.parent / "pipeline.log").read_text(), "the pipeline has the changed action"
    )
    publish(world, "in/3", b"{}")
    wait_until(lambda: "device" in world.cache.smembers("came"))
    wait_until(lambda: len(world.database.query("SELECT 1 FROM obs")) == 3)
    assert pq.read_table(world.output / "obs").num_rows == 2
    metrics = world.api.get("/rules/one/metrics").json()["metrics"]
    assert metrics["actions.failed.out_of_service"] == 1
    assert sorted(world.api.get("/actions/redis:cache").json()["rules"]) == ["came", "one"]


def test_a_mistake_that_only_the_target_knows_stops_one_action(world: World) -> None:
    parameters = {"sql": "INSERT INTO nowhere VALUES (${topic})"}
    world.make("/actions", type="pgsql", name="lost", connector="db", parameters=parameters)
    world.make("/rules", id="lost", sql='SELECT * FROM "lost"', actions=["pgsql:lost"])
    publish(world, "lost", b"x")
    shown = world.wait_for("pgsql:lost", lambda shown: shown["status"] == "disconnected")
    assert 'relation "nowhere" does not exist' in shown["status_reason"]
    assert world.api.get("/actions/pgsql:db").json()["status"] == "connected"
    refused = world.api.post(
        "/actions",
        json={"type": "pgsql", "name": "quoted", "connector": "db", "parameters": {"sql": "SELECT '${x}'"}},
    )
    assert refused.status_code == 201  # nothing runs it yet
    refused = world.api.put("/rules/lost", json={"sql": 'SELECT * FROM "lost"', "actions": ["pgsql:quoted"]})
    assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST")
    assert "stands in quotes" in refused.json()["message"]


def test_a_row_that_the_target_refuses_is_a_dead_letter(world: World) -> None:
    api, name = world.api, query_name("pgsql:db")
    publish(world, "in/4", b'{"n": "no number"}')

    def letters() -> list[int]:
        queries = api.get("/heliograph/pipeline").json()["queries"]
        return [one["figures"]["dead_letters"] for one in queries if one["figures"].get("dead_letters")]

    wait_until(letters, lambda: world.told("pgsql:db"))
    (count,) = api.get("/heliograph/pipeline/dead_letters").json()
    assert (count["rule"], count["waiting"]) == (name, 1)
    (letter,) = api.get(f"/heliograph/pipeline/dead_letters/{name}").json()
    assert "no number" in json.dumps(letter)
    told = api.get("/heliograph/pipeline").json()
    assert (told["enable"], told["is_running"]) == (True, True)
    assert name in {query["name"] for query in told["queries"]}
    for refused in (
        api.get("/heliograph/pipeline/dead_letters/..%2Fx"),
        api.post("/heliograph/pipeline/dead_letters/none/replay", timeout=120),
        api.post("/heliograph/pipeline/plan", params={"rule": "none"}, timeout=120),
    ):
        assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST")


@pytest.mark.parametrize(
    ("connector", "wrong", "told"),
    [
        ("pgsql:db", {"password": "wrong"}, "password authentication failed"),
        ("redis:cache", {"parameters": {"server": "", "password": "wrong"}}, "invalid username-password pair"),
        ("mqtt:hub", {"server": "127.0.0.1:9"}, "Connection refused"),
    ],
)
def test_a_connection_is_tested(world: World, connector: str, wrong: dict[str, Any], told: str) -> None:
    settings = world.api.get(f"/connectors/{connector}").json()
    assert world.api.post("/connectors_probe", json=settings).status_code == 204
    if "parameters" in wrong:
        wrong = {"parameters": {**wrong["parameters"], "server": settings["parameters"]["server"]}}
    answer = world.api.post("/connectors_probe", json={**settings, **wrong})
    assert (answer.status_code, answer.json()["code"]) == (400, "TEST_FAILED")
    assert told in answer.json()["message"]

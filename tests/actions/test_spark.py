"""Actions made through the API, on one node with one pipeline: the rows of rules, seen at real targets."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
import redis

from heliograph.actions.figures import query_name
from heliograph.actions.pipeline_file import probe_section
from heliograph.actions.reachability import unreachable_reason
from heliograph.actions.sinks import sample_action
from heliograph.cli.main import main
from heliograph.config.actions.roots import all_connectors
from heliograph.config.loading import load_config
from heliograph.mqtt import packets as p
from heliograph.outbound import Outbound
from support.managed_clients import connected
from support.management import ManagedNode
from support.postgresql import Postgresql, postgresql
from support.quick_spark import SESSION, workers
from support.redis import RedisServer, redis_server
from support.running import MqttClient
from support.waiting import wait_until
from support.webhook import Answer, Posted, Webhook, webhook

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.timeout(400)]

NAMES: Final = ("http:web", "pgsql:db", "redis:cache", "mqtt:hub", "parquet:lake")
ACCEPTED: Final = (0x00, 0x10)  # also where nobody subscribes
PAYLOAD: Final = {"n": 1, "name": 'it\'s "quoted"', "deep": {"list": [1, {"x": 2.5}]}}
SETTINGS: Final = f"""
actions.engine = spark
durable_storage {{ messages.topics = ["only/this"], flight.bind = "127.0.0.1:0" }}
pipeline {{
  enable = true, master = "local[2]", trigger = 1s
  spark_conf {json.dumps({**SESSION, "spark.driver.memory": "512m"})}
}}
"""
PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "http:web": {
        "path": "/t/${topic}",
        "headers": {"x-client": "${clientid}"},
        "body": '{"n": ${payload.n}, "nothing": ${nothing}, "x": ${payload.deep.list[1].x}, "row": ${.}}',
        "max_retries": 1,
    },
    "pgsql:db": {
        "sql": "INSERT INTO obs (topic, n, x, nothing, deep) "
        "VALUES (${topic}, ${payload.n}, ${payload.deep.list[1].x}, ${nothing}, ${payload.deep})"
    },
    "redis:cache": {"command_template": ["RPUSH", "rows:${topic}", "${payload}"]},
    "mqtt:hub": {"topic": "out/${clientid}", "payload": "${payload.name}"},
    "parquet:lake": {"path": "obs", "columns": {"topic": "string", "qos": "int", "payload": "string"}},
}


@dataclass(frozen=True)
class Targets:
    """Servers that take rows."""

    database: Postgresql
    cache: RedisServer

    def connectors(self) -> dict[str, dict[str, Any]]:
        """The settings of their connectors."""
        database, cache = self.database, self.cache
        return {
            "pgsql:db": {
                "server": f"127.0.0.1:{database.port}",
                "database": database.database,
                "username": database.user,
                "password": database.password,
            },
            "redis:cache": {
                "parameters": {
                    "server": f"127.0.0.1:{cache.port}",
                    "password": cache.password,
                    "redis_type": "single",
                }
            },
        }


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

        wait_until(is_as_wanted, lambda: self.described(action))
        return shown

    def described(self, action: str) -> str:
        """An action as the API shows it, and the end of the pipeline's log."""
        log = self.output.parent / "pipeline.log"
        return f"{self.api.get(f'/actions/{action}').text}\n{log.read_text()[-3000:] if log.exists() else 'no log'}"


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Targets]:
    pytest.importorskip("pyspark")
    with ExitStack() as stack:
        database = stack.enter_context(postgresql())
        cache = stack.enter_context(redis_server(tmp_path_factory.mktemp("redis")))
        yield Targets(database, cache)


@pytest.fixture(scope="module")
def world(targets: Targets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("actions")
    with ExitStack() as stack:
        cache = stack.enter_context(targets.cache.client())
        web = stack.enter_context(webhook())
        places = {
            "http:web": {"url": f"{web.url}/base", "headers": {"x-key": "secret"}},
            **targets.connectors(),
            "parquet:lake": {},
        }
        # What the API makes has a process of its own look at it, so most is there from the start.
        settings = [SETTINGS]
        for action, place in places.items():
            kind, _, name = action.partition(":")
            made = {"connector": name, "parameters": PARAMETERS[action]}
            settings += (f"connectors.{kind}.{name} {json.dumps(place)}", f"actions.{kind}.{name} {json.dumps(made)}")
        with pytest.MonkeyPatch.context() as patch:
            for variable, program in workers().items():
                patch.setenv(variable, program)
            managed = stack.enter_context(ManagedNode(directory, "\n".join(settings)))
        targets.database.query("CREATE TABLE obs (topic text, n int, x double precision, nothing text, deep jsonb)")
        made_world = World(managed, web, targets.database, cache, directory / "data" / "pipeline" / "output")
        made_world.make("/connectors", type="mqtt", name="hub", server=f"127.0.0.1:{managed.node.port}")
        made_world.make("/actions", type="mqtt", name="hub", connector="hub", parameters=PARAMETERS["mqtt:hub"])
        made_world.make("/rules", id="one", sql='SELECT * FROM "in/#"', actions=list(NAMES))
        yield made_world


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
    assert (metrics["matched"], metrics["actions.total"], metrics["actions.pending"]) == (1, 5, 5)
    assert metrics["actions.success"] == 0
    secrets = world.output.parent / "actions.hocon"
    assert secrets.stat().st_mode & 0o077 == 0
    assert world.database.password not in world.api.get("/connectors").text


def test_what_the_target_does_not_take_is_told_and_arrives_later(world: World) -> None:
    world.web.requests.clear()
    seen = Event()

    def refuse(request: Posted) -> Answer:
        if len(world.web.requests) > 1:
            seen.wait(60)  # with the second attempt
        return Answer(503, body=b"not today")

    world.web.answer = refuse
    publish(world, "in/2", b"{}")
    shown = world.wait_for("http:web", lambda shown: "not today" in shown["status_reason"])
    assert shown["status"] == "disconnected"
    queries = {one["name"]: one["state"] for one in world.api.get("/heliograph/pipeline").json()["queries"]}
    assert queries[query_name("http:web")] == "retrying"
    seen.set()
    wait_until(lambda: "pipeline_query_failing/http:web" in world.api.get("/alarms").text, "the alarm has begun")
    assert world.api.get("/actions/redis:cache").json()["status"] == "connected"
    world.web.answer = lambda request: Answer()
    assert world.api.post("/actions/http:web/start").status_code == 204
    assert world.api.get("/actions/http:web").json()["status"] in ("connecting", "connected")
    world.wait_for("http:web", lambda shown: shown["status"] == "connected")
    wait_until(lambda: any(request.path == "/base/t/in/2" for request in world.web.requests))
    wait_until(lambda: "pipeline_query_failing" not in world.api.get("/alarms").text, "the alarm has ended")
    metrics = world.api.get("/prometheus/stats").text
    assert 'heliograph_pipeline_query_running{query="http:web"} 1' in metrics
    wait_until(
        lambda: 'heliograph_pipeline_query_lag{query="http:web"} 0' in world.api.get("/prometheus/stats").text,
        "the lag counts no rows of other actions",
    )


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


def test_a_row_that_the_target_refuses_is_a_dead_letter(world: World) -> None:
    api, name = world.api, query_name("pgsql:db")
    publish(world, "in/4", b'{"n": "no number"}')

    def letters() -> list[int]:
        queries = api.get("/heliograph/pipeline").json()["queries"]
        return [one["figures"]["dead_letters"] for one in queries if one["figures"].get("dead_letters")]

    wait_until(letters, lambda: world.described("pgsql:db"))
    assert letters() == [1]
    (count,) = api.get("/heliograph/pipeline/dead_letters").json()
    assert (count["rule"], count["waiting"]) == (name, 1)
    (letter,) = api.get(f"/heliograph/pipeline/dead_letters/{name}").json()
    assert "no number" in json.dumps(letter)
    for refused in (
        api.get("/heliograph/pipeline/dead_letters/..%2Fx"),
        api.post("/heliograph/pipeline/dead_letters/none/replay", timeout=120),
        api.post("/heliograph/pipeline/plan", params={"rule": "none"}, timeout=120),
    ):
        assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST")
    pipeline = api.get("/heliograph/pipeline").json()
    assert (pipeline["enable"], pipeline["is_running"]) == (True, True)
    assert name in {query["name"] for query in pipeline["queries"]}


def test_a_row_that_the_target_refuses_goes_to_the_fallback_actions(world: World) -> None:
    fell = {"command_template": ["RPUSH", "fell", "${payload}"]}
    sql = "INSERT INTO obs (topic, n) VALUES (${topic}, ${payload.n})"
    fallbacks = [
        {"kind": "reference", "type": "redis", "name": "fell"},
        {"kind": "republish", "args": {"topic": "fell/${clientid}", "payload": "${payload}", "retain": True}},
    ]
    world.make("/actions", type="redis", name="fell", connector="cache", parameters=fell)
    strict: dict[str, Any] = {"connector": "db", "parameters": {"sql": sql}, "fallback_actions": fallbacks}
    world.make("/actions", type="pgsql", name="strict", **strict)
    world.make("/rules", id="strict", sql='SELECT * FROM "strict/#"', actions=["pgsql:strict"])
    publish(world, "strict/1", b'{"n": "bad"}')
    publish(world, "strict/1", b'{"n": 77}')
    wait_until(lambda: world.database.query("SELECT 1 FROM obs WHERE n = 77"), lambda: world.described("pgsql:strict"))
    wait_until(lambda: world.cache.exists("fell"), lambda: world.described("redis:fell"))
    assert world.cache.lrange("fell", 0, -1) == ['{"n": "bad"}']
    assert world.api.get("/mqtt/retainer/message/fell%2Fdevice").json()["topic"] == "fell/device"
    wait_until(lambda: _failed(world, "pgsql:strict") == 1, lambda: world.described("pgsql:strict"))
    letters = world.output / "dead_letters" / query_name("pgsql:strict")
    assert not letters.exists()
    # What a fallback action does not take is a dead letter, with both reasons.
    assert world.api.put("/actions/redis:fell/enable/false").status_code == 204
    publish(world, "strict/1", b'{"n": "worse"}')
    wait_until(lambda: list(letters.glob("*/*.parquet")), lambda: world.described("pgsql:strict"))
    (letter,) = world.api.get(f"/heliograph/pipeline/dead_letters/{letters.name}").json()
    assert letter["reason"].endswith("; the fallback action redis:fell is disabled")
    assert "worse" in letter["reason"]


def _failed(world: World, action: str) -> float:
    return float(world.api.get(f"/actions/{action}/metrics").json()["metrics"]["failed"])


@pytest.mark.parametrize(
    ("name", "wrong", "why"),
    [
        ("pgsql:db", {"password": "wrong"}, "password authentication failed"),
        ("redis:cache", {"parameters": {"password": "wrong"}}, "invalid username-password pair"),
        ("mqtt:hub", {"server": "127.0.0.1:9"}, "127.0.0.1:9: Connection refused"),
    ],
)
def test_a_connection_is_tested(
    world: World,
    targets: Targets,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    wrong: dict[str, Any],
    why: str,
) -> None:
    # In this process what the API has a process of its own do, as `tests/management/test_actions.py` shows.
    hub = {"mqtt:hub": {"server": f"127.0.0.1:{world.managed.node.port}"}}
    settings = {**targets.connectors(), **hub}[name]
    assert fault(tmp_path, capsys, name, settings) == ""
    if "parameters" in wrong:
        wrong = {"parameters": {**settings["parameters"], **wrong["parameters"]}}
    assert why in fault(tmp_path, capsys, name, {**settings, **wrong})


def fault(directory: Path, capsys: pytest.CaptureFixture[str], name: str, settings: dict[str, Any]) -> str:
    """Why the server of a connector cannot be used; empty where it can."""
    kind, _, own_name = name.partition(":")
    file = directory / "connector.conf"
    file.write_text(f"connectors.{kind}.{own_name} {json.dumps(settings)}")
    ((_, _, connector),) = all_connectors(load_config(file).connectors)
    problem = asyncio.run(unreachable_reason(connector, Outbound().dialer("test")))
    if problem:
        return problem
    probed = directory / "probe.hocon"
    sample = sample_action(kind)
    assert sample is not None
    probed.write_text(json.dumps({"rules": {"probe": probe_section(connector, sample)}}))
    code = main(["pipeline", "probe", str(probed)])
    printed = capsys.readouterr().err
    assert (code, bool(printed)) in ((0, False), (1, True))
    return printed


def test_a_mistake_that_only_the_target_knows_stops_one_action(world: World) -> None:
    # Late, since its query starts again and again from here on.
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


def _are_posted(world: World, paths: set[str]) -> bool:
    return {request.path for request in world.web.requests} >= paths


def _has_row(world: World, topic: str) -> bool:
    return len(world.database.query(f"SELECT 1 FROM obs WHERE topic = '{topic}'")) == 1


def test_either_engine_goes_on_where_the_other_one_was(world: World) -> None:
    assert world.api.put("/rules/lost", json={"sql": 'SELECT * FROM "lost"', "actions": ["console"]}).status_code == 200
    world.web.requests.clear()
    expected = {"/base/t/in/10"}
    publish(world, "in/10", b"{}")
    answer = world.api.put("/configs", content="actions.engine = local")
    assert answer.status_code == 400
    assert "only Spark writes the target of parquet:lake" in answer.text
    for number, engine in enumerate(("auto", "spark"), 11):
        assert world.api.put("/configs", content=f"actions.engine = {engine}").status_code == 200
        publish(world, f"in/{number}", b"{}")
        expected.add(f"/base/t/in/{number}")
        wait_until(partial(_are_posted, world, set(expected)), lambda: world.described("http:web"))
        wait_until(partial(_has_row, world, f"in/{number}"), lambda: world.described("pgsql:db"))
    assert len(world.web.requests) == len(expected), "each row is posted once where nothing fails"
    rows = world.database.query("SELECT topic FROM obs WHERE topic LIKE 'in/1_' ORDER BY topic")
    assert [topic for (topic,) in rows] == ["in/10", "in/11", "in/12"]


def test_the_pipeline_ends_with_its_node_even_killed(world: World) -> None:
    # The last of those with the node.
    directory = world.managed.node.directory
    log = world.output.parent / "pipeline.log"
    assert drivers(directory)
    begin = log.stat().st_size
    world.managed.node.kill()
    wait_until(lambda: not drivers(directory), lambda: f"the pipeline ends: {log.read_bytes()[begin:]!r}")
    assert b"Traceback" not in log.read_bytes()[begin:]


def drivers(directory: Path) -> list[int]:
    """The drivers of pipelines that have a directory in their command lines."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"pipeline" in words and str(directory).encode() in b" ".join(words):
            found.append(int(file.parent.name))
    return found

"""Actions without Spark: the rows of rules, seen at real targets, whatever is killed meanwhile."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from heliograph.actions.figures import query_name
from heliograph.cli.main import main
from heliograph.mqtt import packets as p
from support.managed_clients import connected
from support.management import ManagedNode
from support.postgresql import Postgresql, postgresql
from support.redis import redis_server
from support.running import MqttClient
from support.waiting import wait_until
from support.webhook import Answer, Webhook, webhook

pytestmark = [pytest.mark.service, pytest.mark.timeout(300)]

ACCEPTED: Final = (0x00, 0x10)  # also where nobody subscribes
NAMES: Final = ("http:web", "pgsql:db", "redis:cache", "mqtt:hub")
PAYLOAD: Final = {"n": 1, "name": 'it\'s "quoted"', "deep": {"list": [1, {"x": 2.5}]}}
SETTINGS: Final = """
durable_storage { messages.topics = ["only/this"], flight.bind = "127.0.0.1:0" }
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
}


@dataclass
class World:
    """A node without a pipeline, and where rows go."""

    managed: ManagedNode
    web: Webhook
    database: Postgresql
    cache: redis.Redis
    directory: Path

    @property
    def api(self) -> Any:
        """A client of the API."""
        return self.managed.api

    def make(self, path: str, **body: Any) -> None:
        """Make a connector, an action or a rule."""
        answer = self.api.post(path, json=body)
        assert answer.status_code == 201, answer.text

    def wait_for(self, action: str, status: str) -> dict[str, Any]:
        """Wait until an action has a status."""
        shown: dict[str, Any] = {}

        def has_status() -> bool:
            shown.update(self.api.get(f"/actions/{action}").json())
            return bool(shown["status"] == status)

        wait_until(has_status, lambda: f"{shown}\n{self.log}")
        return shown

    @property
    def log(self) -> str:
        """The end of the runner's log."""
        file = self.directory / "runner" / "runner.log"
        return file.read_text()[-3000:] if file.exists() else "no log"

    def letters(self, action: str) -> Path:
        """Where the dead letters of an action are."""
        return self.directory / "output" / "dead_letters" / query_name(action)

    def runner(self) -> int | None:
        """The process of the runner; None while it does not run."""
        try:
            pid = int(json.loads((self.directory / "runner" / "status.json").read_bytes())["pid"])
            os.kill(pid, 0)
        except (FileNotFoundError, ProcessLookupError):
            return None
        return pid


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("local")
    with ExitStack() as stack:
        database = stack.enter_context(postgresql())
        server = stack.enter_context(redis_server(tmp_path_factory.mktemp("redis")))
        cache = stack.enter_context(server.client())
        web = stack.enter_context(webhook())
        places: dict[str, dict[str, Any]] = {
            "http:web": {"url": f"{web.url}/base", "headers": {"x-key": "secret"}},
            "pgsql:db": {
                "server": f"127.0.0.1:{database.port}",
                "database": database.database,
                "username": database.user,
                "password": database.password,
            },
            "redis:cache": {
                "parameters": {
                    "server": f"127.0.0.1:{server.port}",
                    "password": server.password,
                    "redis_type": "single",
                }
            },
        }
        settings = [SETTINGS]
        for action, place in places.items():
            kind, _, name = action.partition(":")
            made = {"connector": name, "parameters": PARAMETERS[action]}
            settings += (f"connectors.{kind}.{name} {json.dumps(place)}", f"actions.{kind}.{name} {json.dumps(made)}")
        # What the node starts finds neither, as where they are not installed.
        absent = tmp_path_factory.mktemp("absent")
        (absent / "sitecustomize.py").write_text(
            "import sys\nsys.modules['pyspark'] = sys.modules['confluent_kafka'] = None\n"
        )
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PYTHONPATH", f"{absent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        # Copies have loaded already what is absent here.
        managed = stack.enter_context(ManagedNode(directory, "\n".join(settings), are_programs_copies=False))
        database.query("CREATE TABLE obs (topic text, n int, x double precision, nothing text, deep jsonb)")
        database.query("CREATE TABLE kills (n int)")
        made_world = World(managed, web, database, cache, directory / "data" / "pipeline")
        assert made_world.runner() is None, "no rule names an action"
        made_world.make("/connectors", type="mqtt", name="hub", server=f"127.0.0.1:{managed.node.port}")
        made_world.make("/actions", type="mqtt", name="hub", connector="hub", parameters=PARAMETERS["mqtt:hub"])
        made_world.make("/rules", id="one", sql='SELECT * FROM "in/#"', actions=list(NAMES))
        yield made_world


def publish(world: World, topic: str, *payloads: bytes) -> None:
    async def run() -> None:
        async with connected(world.managed, "device") as client:
            for payload in payloads:
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
    wait_until(lambda: world.web.requests, lambda: world.log)
    (posted,) = world.web.requests
    assert (posted.method, posted.path) == ("POST", "/base/t/in/1")
    assert (posted.headers["x-key"], posted.headers["x-client"]) == ("secret", "device")
    body = json.loads(posted.body)
    assert (body["n"], body["nothing"], body["x"]) == (1, None, 2.5)
    assert (body["row"]["topic"], body["row"]["payload"], body["row"]["clientid"]) == ("in/1", text, "device")
    wait_until(lambda: world.database.query("SELECT 1 FROM obs"), lambda: world.log)
    assert world.database.query("SELECT * FROM obs") == [("in/1", 1, 2.5, None, PAYLOAD["deep"])]
    wait_until(lambda: world.cache.exists("rows:in/1"), lambda: world.log)
    assert world.cache.lrange("rows:in/1", 0, -1) == [text]


def test_a_payload_that_is_no_text_arrives_as_it_was(world: World) -> None:
    payload, text = bytes(range(256)), b'{"$base64":"AP8="}'
    whole = {"topic": "out/raw", "payload": "${payload}"}
    world.make("/actions", type="mqtt", name="raw", connector="hub", parameters=whole)
    world.make("/rules", id="raw", sql='SELECT * FROM "raw"', actions=["mqtt:raw"])

    async def send_and_hear() -> list[bytes]:
        async with connected(world.managed, "listener") as listener:
            await listener.subscribe("out/raw", 1)
            async with connected(world.managed, "device") as device:
                for each in (payload, text):
                    assert await device.publish("raw", each, 1) in ACCEPTED
            return [(await _heard(listener)).payload for _ in range(2)]

    assert asyncio.run(send_and_hear()) == [payload, text]
    assert world.api.delete("/rules/raw").status_code == 204
    assert world.api.delete("/actions/mqtt:raw").status_code == 204


async def _heard(listener: MqttClient) -> p.Publish:
    while True:  # until the runner has started
        try:
            message = await listener.take(p.Publish)
        except TimeoutError:
            await listener.ping()
        else:
            listener.acknowledge(message)
            return message


def _metrics(world: World, action: str) -> dict[str, float]:
    found: dict[str, float] = world.api.get(f"/actions/{action}/metrics").json()["metrics"]
    return found


def _has_one_success(world: World, action: str) -> bool:
    return _metrics(world, action)["success"] == 1


def test_each_is_connected_and_counts(world: World) -> None:
    for action in NAMES:
        shown = world.wait_for(action, "connected")
        assert (shown["status_reason"], shown["rules"]) == ("", ["one"])
        wait_until(partial(_has_one_success, world, action), lambda: world.log)
    assert "is tried again" not in world.log, "the first batch of each goes well"
    assert "pipeline_off" not in world.api.get("/alarms").text
    secrets = world.directory / "runner" / "settings.json"
    assert secrets.stat().st_mode & 0o077 == 0


def test_a_target_that_is_away_is_an_alarm_and_holds_no_other_up(world: World) -> None:
    world.web.requests.clear()
    world.web.answer = lambda request: Answer(503, body=b"not today")
    publish(world, "in/2", b"{}")
    wait_until(lambda: world.cache.exists("rows:in/2"), lambda: world.log)
    shown = world.wait_for("http:web", "disconnected")
    assert "not today" in shown["status_reason"]
    wait_until(lambda: "pipeline_query_failing/http:web" in world.api.get("/alarms").text, "the alarm has begun")
    world.web.answer = lambda request: Answer()
    assert world.api.post("/actions/http:web/start").status_code == 204
    world.wait_for("http:web", "connected")
    wait_until(lambda: any(request.path == "/base/t/in/2" for request in world.web.requests), lambda: world.log)
    wait_until(lambda: "pipeline_query_failing" not in world.api.get("/alarms").text, "the alarm has ended")


def test_a_row_that_the_target_refuses_is_a_dead_letter_and_is_replayed(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(world, "in/3", b'{"n": "no number"}', b'{"n": 3}')
    wait_until(lambda: world.database.query("SELECT 1 FROM obs WHERE n = 3"), lambda: world.log)
    wait_until(lambda: _metrics(world, "pgsql:db")["failed"] == 1, lambda: world.log)
    letters = "/heliograph/pipeline/dead_letters"
    counts = world.api.get(letters).json()
    assert isinstance(counts, list), counts
    (count,) = counts
    assert (count["action"], count["rule"]) == ("pgsql:db", query_name("pgsql:db"))
    assert (count["cause"], count["waiting"], count["replayed"]) == ("sink", 1, 0)
    (letter,) = world.api.get(f"{letters}/pgsql:db").json()
    assert world.api.get(f"{letters}/{query_name('pgsql:db')}").json() == [letter]
    assert "no number" in letter["reason"]
    assert "no number" in json.loads(letter["row"])["payload"]
    assert (letter["topic"], letter["clientid"], letter["replayed_at"]) == ("$pipeline/pgsql:db/one", "one", None)
    in_ctl = partial(_ctl, world, capsys)
    assert "no number" in in_ctl("show", "pgsql:db")
    assert world.api.post(f"{letters}/pgsql:db/replay").json() == {"letters": 0, "rows": 0, "kept": 1}
    world.database.query("ALTER TABLE obs ALTER n TYPE text")
    assert in_ctl("replay", "pgsql:db") == "1 letter replayed, 1 row written, 0 letters stay\n"
    assert world.database.query("SELECT topic FROM obs WHERE n = 'no number'") == [("in/3",)]
    assert world.api.post(f"{letters}/pgsql:db/replay").json() == {"letters": 0, "rows": 0, "kept": 0}
    assert len(world.database.query("SELECT 1 FROM obs WHERE topic = 'in/3'")) == 2
    assert world.api.get(f"{letters}/pgsql:db").json() == []
    (marked,) = world.api.get(f"{letters}/pgsql:db", params={"replayed": True}).json()
    assert marked["replayed_at"] is not None
    assert "pgsql:db" in in_ctl("ls")
    for none in ("none", "http:none"):
        assert world.api.post(f"{letters}/{none}/replay").status_code == 404
    assert world.api.put("/actions/pgsql:db/enable/false").status_code == 204
    refused = world.api.post(f"{letters}/pgsql:db/replay")
    assert (refused.status_code, "is disabled" in refused.text) == (400, True)
    assert world.api.put("/actions/pgsql:db/enable/true").status_code == 204


def _ctl(world: World, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["ctl", "pipeline", "dlq", *words, "--data-dir", str(world.managed.node.data_dir)]) == 0
    return capsys.readouterr().out


def test_what_cannot_run_is_refused_with_what_to_install(world: World) -> None:
    world.make("/connectors", type="kafka_producer", name="k", bootstrap_hosts="127.0.0.1:9")
    world.make("/actions", type="kafka_producer", name="k", connector="k", parameters={"topic": "t"})
    refused = world.api.post("/rules", json={"id": "k", "sql": 'SELECT * FROM "k"', "actions": ["kafka_producer:k"]})
    assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST")
    assert "needs the package confluent-kafka: pip install 'heliograph[actions,sinks]'" in refused.json()["message"]
    world.make("/connectors", type="parquet", name="p")
    columns = {"topic": "string"}
    world.make("/actions", type="parquet", name="p", connector="p", parameters={"path": "p", "columns": columns})
    waits = world.api.post("/rules", json={"id": "p", "sql": 'SELECT * FROM "p"', "actions": ["parquet:p"]})
    assert (waits.status_code, "set pipeline.enable = true" in waits.headers["warning"]) == (201, True)
    assert "parquet:p" in world.api.get("/alarms").text
    assert world.api.delete("/rules/p").status_code == 204


def test_a_row_that_the_target_refuses_goes_to_the_fallback_actions(world: World) -> None:
    world.web.answer = lambda request: Answer(422 if b"bad" in request.body else 204, body=b"not this one")
    command = ["RPUSH", "fell", "${payload}"]
    world.database.query("CREATE TABLE fell (n int)")
    sql = "INSERT INTO fell VALUES (${payload.n})"
    # The second fallback refuses rows too, which are dead letters then: what came as a fallback goes no further.
    last = {"kind": "reference", "type": "redis", "name": "fell"}
    world.make("/actions", type="redis", name="fell", connector="cache", parameters={"command_template": command})
    world.make("/actions", type="pgsql", name="fell", connector="db", parameters={"sql": sql}, fallback_actions=[last])
    again = {"kind": "republish", "args": {"topic": "fall/bad/${clientid}", "qos": 1, "payload": "${payload.n}"}}
    fallbacks = [last, {**last, "type": "pgsql"}, again]
    world.make("/actions", type="http", name="strict", connector="web", fallback_actions=fallbacks)
    world.make("/rules", id="strict", sql='SELECT * FROM "fall/#"', actions=["http:strict"])
    assert world.api.get("/actions/http:strict").json()["fallback_actions"] == fallbacks
    assert refusal(world.api.delete("/actions/redis:fell"))["active_channels"] == ["http:strict", "pgsql:fell"]

    async def send_and_hear() -> p.Publish:
        async with connected(world.managed, "listener") as listener:
            await listener.subscribe("fall/bad/#", 1)
            async with connected(world.managed, "device") as device:
                for payload in (b'{"n": 1}', b'{"n": "bad"}'):
                    assert await device.publish("fall/1", payload, 1) in ACCEPTED
            return await _heard(listener)

    message = asyncio.run(send_and_hear())
    assert (message.topic, message.payload, message.qos) == (b"fall/bad/device", b"bad", 1)
    wait_until(lambda: world.cache.exists("fell"), lambda: world.log)
    assert world.cache.lrange("fell", 0, -1) == ['{"n": "bad"}']
    wait_until(lambda: _metrics(world, "pgsql:fell")["failed"] == 1, lambda: world.log)
    (letter,) = world.api.get("/heliograph/pipeline/dead_letters/pgsql:fell").json()
    assert "it came from http:strict as a fallback, and does not fall back again" in letter["reason"]
    assert (letter["topic"], letter["clientid"]) == ("$pipeline/pgsql:fell/strict", "http:strict")
    wait_until(lambda: _metrics(world, "http:strict")["matched"] == 2, lambda: world.log)
    assert (_metrics(world, "http:strict")["success"], _metrics(world, "http:strict")["failed"]) == (1, 1)
    assert not world.letters("http:strict").exists()
    assert "pipeline_query_failing" not in world.api.get("/alarms").text
    # The rule, which gets the republished message too, does not give it to the action that refused its row.
    assert world.api.get("/rules/strict/metrics").json()["metrics"]["actions.failed.unknown"] == 1

    # So does a row that waited for too long: any is older than a millisecond here.
    aged = {"resource_opts": {"request_ttl": "1ms"}, "fallback_actions": [last]}
    world.make("/actions", type="http", name="aged", connector="web", **aged)
    world.make("/rules", id="aged", sql='SELECT * FROM "aged/#"', actions=["http:aged"])
    publish(world, "aged/1", b"old")
    wait_until(lambda: world.cache.llen("fell") == 2, lambda: world.log)
    assert world.cache.lrange("fell", 0, -1) == ['{"n": "bad"}', "old"]
    wait_until(lambda: _metrics(world, "http:aged")["dropped.expired"] == 1, lambda: world.log)
    assert world.api.delete("/rules/aged").status_code == 204

    # What a fallback action does not take is a dead letter, with both reasons.
    assert world.api.put("/actions/redis:fell/enable/false").status_code == 204
    publish(world, "fall/1", b'{"n": "bad", "x": 2}')
    wait_until(lambda: world.letters("http:strict").exists(), lambda: world.log)
    (letter,) = world.api.get("/heliograph/pipeline/dead_letters/http:strict").json()
    assert "not this one" in letter["reason"]
    assert letter["reason"].endswith("; the fallback action redis:fell is disabled")
    assert world.api.delete("/rules/strict").status_code == 204
    assert world.api.delete("/actions/redis:fell", params={"also_delete_dep_actions": True}).status_code == 204
    assert len(world.api.get("/actions/http:strict").json()["fallback_actions"]) == 2
    world.web.answer = lambda request: Answer()


def refusal(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 400
    found: dict[str, Any] = answer.json()
    return found


def _runs_again(world: World, killed: int) -> bool:
    """Whether another runner than the one that was killed has said which process it is."""
    return world.runner() not in (None, killed)


def _has_rows(world: World, least: int) -> bool:
    return int(world.cache.llen("kills")) >= least


def test_no_row_is_lost_or_doubled_when_the_runner_is_killed(world: World) -> None:
    sql = "INSERT INTO kills VALUES (${payload.n})"
    world.make("/actions", type="pgsql", name="kills", connector="db", parameters={"sql": sql})
    command = ["RPUSH", "kills", "${payload.n}"]
    world.make("/actions", type="redis", name="kills", connector="cache", parameters={"command_template": command})
    world.make("/rules", id="kills", sql='SELECT * FROM "kill/#"', actions=["pgsql:kills", "redis:kills"])
    count, killed = 0, 0
    for kill in range(5):
        publish(world, "kill/1", *(b'{"n": %d}' % number for number in range(count, count + 40)))
        count += 40
        wait_until(partial(_runs_again, world, killed), lambda: world.log)
        if kill % 2:  # in the middle of what was sent last, or behind its first rows
            wait_until(partial(_has_rows, world, count - 39), lambda: world.log)
        killed = world.runner() or 0
        assert killed
        os.kill(killed, signal.SIGKILL)
    wait_until(lambda: len(world.database.query("SELECT n FROM kills")) >= count, lambda: world.log)
    wait_until(lambda: world.cache.llen("kills") >= count, lambda: world.log)
    assert [n for (n,) in world.database.query("SELECT n FROM kills ORDER BY n")] == list(range(count))
    assert [int(n) for n in world.cache.lrange("kills", 0, -1)] == list(range(count))


def test_the_runner_ends_with_the_last_action_that_a_rule_names(world: World) -> None:
    wait_until(lambda: world.runner() is not None, lambda: world.log)  # its file names the killed one until it reports
    for rule in ("one", "kills"):
        assert world.api.delete(f"/rules/{rule}").status_code == 204
    wait_until(lambda: world.runner() is None, lambda: world.log)

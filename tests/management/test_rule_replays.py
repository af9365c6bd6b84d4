"""The rule time machine: rules run over what a node has stored, through the API and the command."""

import asyncio
import io
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import httpx
import pytest

from heliograph.cli.main import main
from support.api_node import ApiNode
from support.managed_clients import connected
from support.management import Served
from support.python_copies import python
from support.quick_spark import CONF, workers
from support.waiting import wait_until

PATH = "/heliograph/rule_replays"
WARM = 'SELECT payload.n AS n, topic FROM "kept/#" WHERE payload.n > 4'
EDITED = 'SELECT payload.n AS n, topic FROM "kept/a", "kept/b" WHERE payload.n > 6 OR payload.n = 0'
SETTINGS = f"""durable_storage.messages.topics = ["kept/#", "many"]
rule_engine.jq_function_default_timeout = 300s
rule_engine.rules.warm {{ sql = {json.dumps(WARM)}, actions = [
  {{ function = republish, args {{ topic = "out/${{n}}" }} }}, console ] }}
rule_engine.rules.slow {{ enable = false, sql = "SELECT jq('def f: f; f', payload) AS x FROM \\"kept/#\\"" }}
rule_engine.rules.counts {{ enable = false, sql = "SELECT kv_store_put(topic, 1) AS x, peerhost FROM \\"kept/a\\"" }}
pipeline {{ master = "local[1]", spark_conf {json.dumps({**CONF, "spark.driver.memory": "512m"})} }}"""
NUMBERS = 1_000
MESSAGES_OF_NUMBERS = 100
TEXT = 20_000


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A node that has stored eleven messages of `kept`, one of them no JSON, and a hundred of a thousand numbers."""
    with pytest.MonkeyPatch.context() as patch, ApiNode(tmp_path_factory.mktemp("replayed"), SETTINGS) as node:
        for variable, program in workers().items():
            patch.setenv(variable, program)
        asyncio.run(_publish(node))
        found: dict[str, str | int] = {"topic": "many", "payload": "none", "limit": 1000}
        wait_until(
            lambda: len(node.api.get("/heliograph/messages", params=found).json()["data"]) == MESSAGES_OF_NUMBERS,
            "the reader has all of them",
        )
        yield node


async def _publish(node: Served) -> None:
    async with connected(node, "c") as client:
        for number in range(10):
            await client.publish(f"kept/{'abc'[number % 3]}", b'{"n": %d}' % number, 1)
        await client.publish("kept/c", b"no JSON", 1)
        for _ in range(MESSAGES_OF_NUMBERS):
            await client.publish("many", json.dumps({"v": [0] * NUMBERS, "more": "x" * TEXT}).encode(), 1)


def begun(node: Served, **body: Any) -> str:
    answer = node.api.post(PATH, json={"from": "earliest", **body})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def replayed(node: Served, **body: Any) -> dict[str, Any]:
    """The result of a replay, which is deleted then."""
    replay = begun(node, **body)
    with node.api.stream("GET", f"{PATH}/{replay}/events", timeout=240) as events:
        lines = list(events.iter_lines())
    assert lines[0].startswith("event: ")
    assert "event: end" in lines
    found = node.api.get(f"{PATH}/{replay}").json()
    assert node.api.delete(f"{PATH}/{replay}").status_code == 204
    assert node.api.get(f"{PATH}/{replay}").status_code == 404
    assert found["state"] == "finished", found
    result: dict[str, Any] = found["result"]
    return result


def numbers(examples: list[dict[str, Any]]) -> list[int]:
    return [example["row"]["n"] for example in examples]


def counts_of_warm(node: Served) -> dict[str, float]:
    metrics: dict[str, float] = node.api.get("/rules/warm/metrics").json()["metrics"]
    return {name: count for name, count in metrics.items() if "rate" not in name}


def test_a_rule_is_run_over_the_past_and_does_nothing(managed: Served) -> None:
    before = counts_of_warm(managed)
    result = replayed(managed, rule="warm")
    assert result["complete"]
    assert (result["messages"], result["rows_count"], result["failures_count"], result["no_result_count"]) == (
        *(11, 5, 1),
        5,
    )
    assert numbers(result["rows"]) == [5, 6, 7, 8, 9]
    first = result["rows"][0]
    assert (first["topic"], first["clientid"], first["row"]) == ("kept/c", "c", {"n": 5, "topic": "kept/c"})
    stored = managed.api.get(f"/heliograph/messages/{first['id'].replace('/', '%2F')}", params={"payload": "plain"})
    assert stored.json()["payload"] == '{"n": 5}'
    (failure,) = result["failures"]
    assert "JSON" in failure["error"]
    assert [(one["action"], one["rows"]) for one in result["not_done"]] == [("republish", 5), ("console", 5)]
    assert counts_of_warm(managed) == before


def test_rows_that_are_added_gone_and_changed(managed: Served) -> None:
    compared = replayed(managed, rule="warm", sql=EDITED, compare="warm")["comparison"]
    assert (compared["added_count"], compared["gone_count"], compared["changed_count"]) == (1, 3, 0)
    assert compared["equal_count"] == 2
    assert numbers(compared["added"]) == [0]
    assert numbers(compared["gone"]) == [5, 6, 8]
    assert (compared["compared_rows_count"], compared["compared_failures_count"]) == (5, 1)
    changed = replayed(
        managed, sql='SELECT payload.n * 2 AS n FROM "kept/a"', compare='SELECT payload.n AS n FROM "kept/#"'
    )
    (first, *others) = changed["comparison"]["changed"]
    assert (first["before"], first["row"], len(others)) == ({"n": 3}, {"n": 6}, 2)
    # Nothing becomes of 0 * 2, and the rule of all topics sees more.
    assert changed["comparison"]["equal_count"] == 1
    assert changed["comparison"]["gone_count"] == 6


def test_what_a_replay_tells_of_itself(managed: Served) -> None:
    notes = " ".join(replayed(managed, rule="counts")["notes"])
    assert "kv_store_put" in notes
    assert "peerhost" in notes
    notes = " ".join(
        replayed(managed, sql='SELECT nothing_like(1) AS x FROM "kept/a", "$events/client/connected"')["notes"]
    )
    assert "no such function" in notes
    assert "$events/client/connected" in notes


def test_a_stretch_with_nothing_in_it(managed: Served) -> None:
    result = replayed(managed, rule="warm", **{"from": "2001-01-01T00:00:00Z", "to": "2001-01-02T00:00:00Z"})
    assert (result["messages"], result["rows"], result["failures"], result["complete"]) == (0, [], [], True)


def test_all_rows_are_counted_and_a_few_are_shown(managed: Served) -> None:
    result = replayed(managed, sql='FOREACH payload.v AS e DO e AS v FROM "many"', limit=50)
    assert (result["messages"], result["failures_count"]) == (MESSAGES_OF_NUMBERS, 0)
    assert result["rows_count"] == NUMBERS * MESSAGES_OF_NUMBERS
    assert [one["row"] for one in result["rows"]] == [{"v": 0}] * 50
    long = replayed(managed, sql='SELECT payload AS p FROM "many"', limit=1000)
    assert long["rows_count"] == MESSAGES_OF_NUMBERS
    assert len(json.dumps(long)) < 1 << 20
    assert str(long["rows"][0]["row"]).endswith("characters)")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"sql": "SELEC"}, "sql"),
        ({"rule": "none"}, "rule"),
        ({"rule": "pipeline:none"}, "rule"),
        ({"rule": "warm", "compare": "SELECT FROM"}, "compare"),
        ({"rule": "warm", "compare": "none"}, "compare"),
        ({"sql": 'SELECT * FROM "$events/client/connected"'}, "sql"),
        ({"rule": "warm", "to": "2001-01-01T00:00:00Z", "from": "2002-01-01T00:00:00Z"}, "to"),
        ({"rule": "warm", "from": "soon"}, "from"),
        ({"rule": "warm", "engine": "fast"}, "engine"),
        ({}, "rule"),
    ],
)
def test_what_cannot_be_replayed(managed: Served, body: dict[str, str], field: str) -> None:
    answer = managed.api.post(PATH, json={"from": "earliest", **body})
    assert answer.status_code == 400, answer.text
    assert answer.json()["message"].startswith(f"{field}: ")


@pytest.mark.parametrize(("named", "why"), [("rule", "runs in the broker"), ("sql", "no rule of the pipeline")])
def test_what_is_no_rule_of_the_pipeline_is_not_started_from_then_on(managed: Served, named: str, why: str) -> None:
    replay = begun(managed, **{named: {"rule": "warm", "sql": WARM}[named]})
    wait_until(lambda: managed.api.get(f"{PATH}/{replay}").json()["state"] == "finished", "it has finished")
    answer = managed.api.post(f"{PATH}/{replay}/start")
    assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
    assert why in answer.json()["message"]
    managed.api.delete(f"{PATH}/{replay}")


@contextmanager
def caller(node: Served, role: str) -> Iterator[httpx.Client]:
    """A client of the API with a key of that role."""
    keys = ("ctl", "--data-dir", str(node.data_dir), "api_keys")
    with redirect_stdout(io.StringIO()) as out:
        assert main([*keys, "add", f"replaying-{role}", "--role", role, "--json"]) == 0
    made = json.loads(out.getvalue())
    with node.client((made["key"]["api_key"], made["secret"])) as client:
        yield client
    with redirect_stdout(io.StringIO()):
        assert main([*keys, "del", f"replaying-{role}"]) == 0


def test_a_replay_is_seen_by_who_began_it_and_by_administrators(managed: Served) -> None:
    with caller(managed, "operator") as operator, caller(managed, "viewer") as viewer:
        body = {"rule": "warm", "from": "earliest"}
        assert viewer.post(PATH, json=body).status_code == 403
        ours, theirs = begun(managed, rule="warm"), operator.post(PATH, json=body).json()["id"]
        for method, path in (("GET", ""), ("GET", "/events"), ("DELETE", ""), ("POST", "/start")):
            assert operator.request(method, f"{PATH}/{ours}{path}").status_code == 404
        assert viewer.get(f"{PATH}/{theirs}").status_code == 404
        assert operator.get(f"{PATH}/{theirs}").status_code == 200
        assert managed.api.get(f"{PATH}/{theirs}").status_code == 200
        for replay in (ours, theirs):
            assert managed.api.delete(f"{PATH}/{replay}").status_code == 204


def test_a_replay_ends_with_the_key_of_who_began_it(managed: Served) -> None:
    with caller(managed, "operator") as operator:
        replay = operator.post(PATH, json={"rule": "slow", "from": "earliest"}).json()["id"]
        assert operator.get(f"{PATH}/{replay}").json()["state"] == "running"
    with managed.api.stream("GET", f"{PATH}/{replay}/events") as events:
        lines = list(events.iter_lines())
    assert "event: end" in lines
    found = managed.api.get(f"{PATH}/{replay}").json()
    assert (found["state"], found["owner"]) == ("failed", "replaying-operator")
    assert "was deleted or disabled" in found["error"]["message"]
    managed.api.delete(f"{PATH}/{replay}")


def test_a_replay_ends_when_its_time_is_over(managed: Served) -> None:
    sql = "SELECT jq('def f: f; f', payload, 1500) AS x FROM \"kept/#\""
    result = replayed(managed, sql=sql, seconds=1)
    assert not result["complete"]
    assert result["messages"] < 11


def command(node: Served, *words: str) -> list[str]:
    program = (python(), "-m", "heliograph.cli.main", "rule", "replay")
    return [*program, *words, "--data-dir", str(node.data_dir)]


def test_the_command(managed: Served) -> None:
    words = command(managed, EDITED, "--from", "earliest", "--compare", "warm")
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line[0] for line in said[:4]] == ["+", "-", "-", "-"]
    assert said[4].startswith("7 messages, 3 rows, 0 failed, 4 gave none, in ")
    assert said[5].startswith("compared: 1 added, 3 gone, 0 changed, 2 equal")
    as_json = subprocess.run(
        command(managed, "warm", "--from", "2026-01-31T00:00", "--json"), capture_output=True, check=True
    )
    assert numbers(json.loads(as_json.stdout)["rows"]) == [5, 6, 7, 8, 9]
    for more, told in (
        (("warm", "--from", "soon"), "--from"),
        (("none", "--from", "earliest"), "there is no rule 'none'"),
        (("SELECT FROM", "--from", "earliest"), "rule_syntax"),
        (("warm", "--from", "earliest", "--start"), "cannot be started from then on"),
    ):
        refused = subprocess.run(command(managed, *more), capture_output=True, text=True, check=False)
        assert refused.returncode == 1
        assert told in refused.stderr


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_spark_and_the_broker_agree(managed: Served) -> None:
    natively = 'SELECT topic, clientid FROM "kept/#" WHERE qos = 1'
    with_udf = 'SELECT topic, int(payload.n) * 2 AS n FROM "kept/a", "kept/c" WHERE payload.n > 1'
    broker, spark = (replayed(managed, sql=natively, compare=with_udf, engine=engine) for engine in ("broker", "spark"))
    for name in ("rows", "messages", "rows_count", "failures_count", "no_result_count", "comparison"):
        assert spark[name] == broker[name], name
    assert broker["comparison"]["changed_count"] > 0
    assert broker["comparison"]["compared_failures_count"] == 1

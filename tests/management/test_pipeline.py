"""The pipeline of a node through the API: its queries, the rows that they refused, and what is done about them."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from support.managed_clients import connected
from support.management import ManagedNode
from support.waiting import wait_until

RULES = 'rules.obs { sql = "SELECT 10 / payload.n AS n FROM \\"a/#\\"", sink { type = parquet, path = obs } }'
# It starts Spark three times; dead letters and what is refused are asked in actions/test_spark.py, too.
pytestmark = [pytest.mark.service, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedNode]:
    """A node whose pipeline reads messages, of which two fail in a rule."""
    directory = tmp_path_factory.mktemp("piped")
    file = directory / "pipeline.hocon"
    file.write_text(RULES)
    settings = f"""durable_storage.messages.topics = ["a/#"]
    pipeline {{ enable = true, file = "{file}", master = "local[1]", trigger = 100ms
      spark_conf {{ spark.driver.memory = 512m }} }}"""
    with ManagedNode(directory, settings) as node:
        asyncio.run(_publish(node))
        yield node


async def _publish(node: ManagedNode) -> None:
    async with connected(node, "c") as client:
        for payload in (b'{"n": 5}', b'{"n": 0}', b"no JSON"):
            await client.publish("a/1", payload, 1)


def _counts(node: ManagedNode) -> dict[str, int]:
    answer = node.api.get("/heliograph/pipeline/dead_letters")
    assert answer.status_code == 200, answer.text
    return {str(row["rule"]): int(row["waiting"]) for row in answer.json()}


def test_dead_letters_are_shown_planned_and_replayed(managed: ManagedNode) -> None:
    api = managed.api

    def figures() -> list[dict[str, Any]]:
        queries: list[dict[str, Any]] = api.get("/heliograph/pipeline").json()["queries"]
        return [one["figures"] for one in queries if one["figures"].get("dead_letters") == 2]

    wait_until(figures, "two messages were refused", deadline_s=120)
    told = api.get("/heliograph/pipeline").json()
    (query,) = told["queries"]
    assert (told["enable"], told["is_running"], query["name"]) == (True, True, "obs")
    assert _counts(managed) == {"obs": 2}
    letters = api.get("/heliograph/pipeline/dead_letters/obs").json()
    assert {one["topic"] for one in letters} == {"a/1"}
    assert any("zero" in one["reason"] for one in letters)
    plan = api.post("/heliograph/pipeline/plan", timeout=120)
    assert plan.status_code == 200, plan.text
    assert plan.json()[0]
    file = managed.node.data_dir.parent / "pipeline.hocon"
    file.write_text(RULES.replace("10 / payload.n", "10 + payload.n"))
    replayed = api.post("/heliograph/pipeline/dead_letters/obs/replay", timeout=120)
    assert replayed.status_code == 200, replayed.text
    assert (replayed.json()["letters"], replayed.json()["kept"]) == (1, 1)
    assert _counts(managed) == {"obs": 1}
    assert (
        api.get("/heliograph/pipeline/late_rows").json() == api.get("/heliograph/pipeline/late_rows/obs").json() == []
    )
    for body in ({}, {"table": "a", "sink": "b"}, {"table": "../x"}, {"table": "obs"}, {"sink": "none"}):
        refused = api.post("/heliograph/pipeline/late_rows/obs/replay", json=body, timeout=60)
        assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST"), body
    assert "there are: none" in refused.json()["message"]
    bad = api.get("/heliograph/pipeline/dead_letters/..%2Fx")
    assert (bad.status_code, bad.json()["code"]) == (400, "BAD_REQUEST")
    absent = api.post("/heliograph/pipeline/dead_letters/none/replay", timeout=120)
    assert (absent.status_code, absent.json()["code"]) == (400, "BAD_REQUEST")


def test_a_rule_is_replayed_and_started_from_then_on(managed: ManagedNode) -> None:
    path = "/heliograph/rule_replays"
    file = managed.node.data_dir.parent / "pipeline.hocon"
    file.write_text(RULES)
    obs, found = _replayed(managed, "obs")
    assert (found["rows_count"], found["failures_count"]) == (1, 2)
    assert [(one["action"], one["rows"]) for one in found["not_done"]] == [("pipeline", 1)]
    assert managed.api.post(f"{path}/{obs}/start").status_code == 202
    assert "began at the earliest message" in _started(managed, obs)["message"]

    # A query that began behind the messages leaves them to the start from then on.
    behind = 1 + max(one["stored_at"] for one in (*found["rows"], *found["failures"]))
    sink = "sink { type = parquet, path = late }"
    late = f'rules.late {{ sql = "SELECT topic, payload.n AS n FROM \\"a/#\\"", source = past, {sink} }}'
    file.write_text(f'{RULES}\nsources.past {{ topics = ["a/#"], options {{ start = "{behind}" }} }}\n{late}')

    def queries() -> list[str]:
        told = managed.api.get("/heliograph/pipeline").json()["queries"]
        return [one["name"] for one in told if one["state"] == "running"]

    wait_until(lambda: "late" in queries(), "its query has begun", deadline_s=120)
    replay, found = _replayed(managed, "pipeline:late")
    assert (found["rows_count"], found["failures_count"]) == (2, 1)
    edited = managed.api.post(path, json={"rule": "late", "sql": 'SELECT topic FROM "a/#"', "from": "earliest"}).json()
    wait_until(lambda: managed.api.get(f"{path}/{edited['id']}").json()["state"] == "finished", "it has finished")
    assert managed.api.post(f"{path}/{edited['id']}/start").status_code == 409
    assert managed.api.post(f"{path}/{replay}/start").status_code == 202
    started = _started(managed, replay)
    assert started["state"] == "finished", started
    ((written,),) = [[one["rows_written"] for one in told["queries"]] for told in started["figures"]]
    assert written == 2


def _replayed(node: ManagedNode, rule: str) -> tuple[str, dict[str, Any]]:
    """A replay that has finished, and its result."""
    begun = node.api.post("/heliograph/rule_replays", json={"rule": rule, "from": "earliest"})
    assert begun.status_code == 201, begun.text
    path = f"/heliograph/rule_replays/{begun.json()['id']}"
    wait_until(lambda: node.api.get(path).json()["state"] != "running", "it has ended")
    result: dict[str, Any] = node.api.get(path).json()["result"]
    return str(begun.json()["id"]), result


def _started(node: ManagedNode, replay: str) -> dict[str, Any]:
    """What became of the start of its rule."""

    def start() -> dict[str, Any]:
        found: dict[str, Any] = node.api.get(f"/heliograph/rule_replays/{replay}").json()["start"]
        return found

    wait_until(lambda: start()["state"] != "running", "its start has ended", deadline_s=120)
    return start()

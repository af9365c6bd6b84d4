"""Rules through the API: what a tool does that knows the reference, and what clients of the broker get of it."""

import asyncio
from typing import Any

import pytest

from support.managed_clients import connected
from support.management import Served

SQL = 'SELECT payload.x + 1 AS y FROM "in/#"'
REPUBLISH = {"function": "republish", "args": {"topic": "out/${y}", "payload": "${y}", "qos": 0}}


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_a_rule_made_by_post_republishes_a_message(managed: Served) -> None:
    body = {"id": "add", "name": "Add", "sql": SQL, "actions": [REPUBLISH, {"function": "console"}], "metadata": {}}
    made = managed.api.post("/rules", json=body)
    assert made.status_code == 201
    rule = made.json()
    assert (rule["id"], rule["from"], rule["enable"], rule["description"]) == ("add", ["in/#"], True, "")
    assert rule["actions"][0]["args"]["mqtt_properties"] == {}
    assert rule["created_at"] == rule["last_modified_at"]
    assert managed.api.get("/rules/add").json() == rule

    async def heard() -> list[bytes]:
        async with connected(managed, "c") as client:
            await client.subscribe("out/#")
            await client.publish("in/1", b'{"x": 41}')
            await client.publish("in/1", b"no JSON")
            await client.ping()
            return await client.payloads()

    assert asyncio.run(heard()) == [b"42"]
    told = managed.api.get("/rules/add/metrics").json()
    metrics = told["metrics"]
    assert told["node_metrics"] == [{"node": "heliograph@127.0.0.1", "metrics": metrics}]
    assert (metrics["matched"], metrics["passed"], metrics["failed"], metrics["failed.exception"]) == (2, 1, 1, 1)
    assert (metrics["actions.total"], metrics["actions.success"]) == (2, 2)
    assert {"matched.rate", "matched.rate.max", "matched.rate.last5m", "actions.discarded"} <= set(metrics)
    assert managed.api.put("/rules/add/metrics/reset").status_code == 204
    assert managed.api.get("/rules/add/metrics").json()["metrics"]["matched"] == 0
    assert managed.api.delete("/rules/add").status_code == 204
    assert asyncio.run(heard()) == []
    for method, path in (
        ("GET", "/rules/add"),
        ("DELETE", "/rules/add"),
        ("GET", "/rules/add/metrics"),
        ("PUT", "/rules/add/metrics/reset"),
    ):
        assert refused(managed.api.request(method, path)) == (404, "NOT_FOUND")


def test_a_body_of_very_many_levels_is_refused_by_name(managed: Served) -> None:
    deep = '{"a":' * 900 + "1" + "}" * 900
    headers = {"content-type": "application/json"}
    answer = managed.api.post("/rule_test", content='{"sql": "x", "context": ' + deep + "}", headers=headers)
    assert refused(answer) == (400, "BAD_REQUEST")
    assert "more than 64 levels" in answer.json()["message"]


def test_put_replaces_a_rule_and_makes_one_that_is_not_there(managed: Served) -> None:
    answer = managed.api.put("/rules/made", json={"sql": SQL, "actions": [], "description": "d"})
    assert (answer.status_code, answer.json()["description"]) == (200, "d")
    answer = managed.api.put("/rules/made", json={**answer.json(), "description": "e", "enable": False})
    assert (answer.status_code, answer.json()["description"], answer.json()["enable"]) == (200, "e", False)
    managed.api.delete("/rules/made")
    unnamed = managed.api.post("/rules", json={"sql": SQL, "actions": []}).json()
    assert unnamed["id"]
    managed.api.delete(f"/rules/{unnamed['id']}")


@pytest.mark.parametrize(
    "body",
    [
        {"id": "no", "sql": "SELECT FROM t", "actions": []},
        {"id": "no", "actions": []},
        {"id": "", "sql": SQL, "actions": []},
        {"id": "no", "sql": SQL, "actions": [{"function": "fly"}]},
        {"id": "no", "sql": SQL, "actions": "console"},
        {"id": "no", "sql": SQL, "enable": "yes"},
        {"id": "no rule", "sql": SQL},
        [],
    ],
)
def test_a_rule_that_is_none_is_refused(managed: Served, body: Any) -> None:
    assert refused(managed.api.post("/rules", json=body)) == (400, "BAD_REQUEST")
    assert managed.api.get("/rules/no").status_code == 404


def test_rules_are_filtered_and_paged(managed: Served) -> None:
    for number in range(5):
        body = {"id": f"page{number}", "sql": f'SELECT * FROM "t/{number}"', "description": f"the {number}th"}
        assert managed.api.post("/rules", json={**body, "enable": number != 4}).status_code == 201
    assert refused(managed.api.post("/rules", json={"id": "page0", "sql": SQL})) == (400, "BAD_REQUEST")

    def ids(**query: Any) -> list[str]:
        return [one["id"] for one in managed.api.get("/rules", params=query).json()["data"]]

    first = managed.api.get("/rules", params={"limit": 2}).json()
    assert (len(first["data"]), first["meta"]) == (2, {"page": 1, "limit": 2, "count": 5, "hasnext": True})
    assert managed.api.get("/rules", params={"limit": 2, "page": 9}).json()["data"] == []
    assert ids(enable="false") == ["page4"]
    assert ids(**{"from": "t/1"}) == ["page1"]
    assert ids(like_id="ge2") == ["page2"]
    assert ids(like_from="/3") == ["page3"]
    assert ids(like_description="0th") == ["page0"]
    assert len(ids(match_from="t/+")) == 5
    assert ids(action="http:x") == ids(source="mqtt:x") == []
    assert "count" not in managed.api.get("/rules", params={"like_id": "p"}).json()["meta"]
    for number in range(5):
        managed.api.delete(f"/rules/page{number}")


def test_a_rule_is_tried(managed: Served) -> None:
    context = {"event_type": "message_publish", "topic": "in/1", "payload": '{"x": 1}', "clientid": "c"}
    tried = managed.api.post("/rule_test", json={"sql": SQL, "context": context})
    assert (tried.status_code, tried.json()) == (200, {"y": 2})
    other = managed.api.post("/rule_test", json={"sql": SQL, "context": {**context, "topic": "else"}})
    assert refused(other) == (412, "NOT_MATCH")
    assert refused(managed.api.post("/rule_test", json={"sql": "SELECT", "context": context})) == (400, "BAD_REQUEST")
    assert refused(managed.api.post("/rules/none/test", json={"context": context})) == (404, "RULE_NOT_FOUND")
    managed.api.post("/rules", json={"id": "tried", "sql": SQL, "actions": [REPUBLISH]})

    async def heard(body: dict[str, Any]) -> tuple[Any, list[bytes]]:
        async with connected(managed, "c") as client:
            await client.subscribe("out/#")
            answer = await asyncio.to_thread(managed.api.post, "/rules/tried/test", json=body)
            await client.ping()
            return answer.json(), await client.payloads()

    assert asyncio.run(heard({"context": context})) == ({"y": 2}, [])
    acting = {"context": context, "stop_action_after_template_rendering": False}
    assert asyncio.run(heard(acting)) == ({"y": 2}, [b"2"])
    managed.api.delete("/rules/tried")


def test_events_have_columns_and_examples_that_can_be_tried(managed: Served) -> None:
    events = managed.api.get("/rule_events").json()
    assert {"$events/message_publish", "$events/client_connected", "$events/sys/alarm_activated"} <= {
        one["event"] for one in events
    }
    for one in events:
        context = {name: value for name, (value, _) in one["test_columns"].items()}
        event = one["event"].removeprefix("$events/")
        body = {"sql": one["sql_example"], "context": {"event_type": event, **context}}
        assert managed.api.post("/rule_test", json=body).status_code == 200
        assert one["title"]["en"]


def test_the_rule_engine_is_configured(managed: Served) -> None:
    before = managed.api.get("/rule_engine").json()
    assert (before["ignore_sys_message"], before["jq_function_default_timeout"]) == (True, "10s")
    after = managed.api.put("/rule_engine", json={**before, "jq_function_default_timeout": "5s"}).json()
    assert after == {**before, "jq_function_default_timeout": "5s"}
    bad = managed.api.put("/rule_engine", json={"jq_function_default_timeout": "soon"})
    assert refused(bad) == (400, "BAD_REQUEST")
    managed.api.put("/rule_engine", json=before)


def test_a_body_that_is_not_called_json_is_refused(managed: Served) -> None:
    content, headers = b'{"sql": "SELECT 1 FROM t", "actions": []}', {"content-type": "text/plain"}
    for method, path in (("POST", "/rules"), ("PUT", "/rules/one")):
        answer = managed.api.request(method, path, content=content, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_rule_is_explained_before_it_is_there(managed: Served) -> None:
    functions = {one["name"]: one for one in managed.api.get("/heliograph/rule_functions").json()}
    assert functions["substr"]["signature"] == "S text, I start[, I length]"
    assert (functions["substr"]["family"], functions["substr"]["result"]) == ("Strings", "string")
    sql = 'SELECT payload.x AS x, upper(topic) AS t, nothing(x) AS n\nFROM "in/#", "$events/client/connected"'
    told = managed.api.post("/heliograph/rule_explain", json={"sql": sql}).json()
    assert (told["problem"], told["events"], told["may_block"]) == (None, ["$events/client/connected"], False)
    assert told["unknown_functions"] == ["nothing"]
    assert {part["name"]: part["engine"] for part in told["parts"]}["n"] == "udf"
    assert told["engine"] == "udf"
    wrong = managed.api.post("/heliograph/rule_explain", json={"sql": 'SELECT payload.x\nFROM FROM "in/#"'}).json()
    assert (wrong["problem"]["line"], wrong["problem"]["column"]) == (2, 6)
    native = managed.api.post("/heliograph/rule_explain", json={"sql": 'SELECT qos FROM "in/#"'}).json()
    assert (native["engine"], native["spark_problem"]) == ("native", "")

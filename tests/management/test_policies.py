"""Schemas, validations and transformations through the API, and what they do to messages."""

import asyncio
from typing import Any

from support.managed_clients import connected
from support.management import Served

CHECK = {"type": "sql", "sql": "SELECT payload.x AS x WHERE x > 0"}
AVRO = {"name": "text", "type": "avro", "source": '{"type": "string"}', "description": "one text"}


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def heard(managed: Served, topics: list[str], *messages: tuple[str, bytes]) -> list[bytes]:
    """The payloads that a subscriber gets of some messages."""

    async def run() -> list[bytes]:
        async with connected(managed, "c") as client:
            for topic in topics:
                await client.subscribe(topic)
            for topic, payload in messages:
                await client.publish(topic, payload)
            return await client.payloads()

    return asyncio.run(run())


def test_schemas(managed: Served) -> None:
    api = managed.api
    made = api.post("/schema_registry", json=AVRO)
    assert (made.status_code, made.json()) == (201, AVRO)
    assert api.get("/schema_registry").json() == [AVRO]
    assert refused(api.post("/schema_registry", json=AVRO)) == (400, "ALREADY_EXISTS")
    changed = {**AVRO, "description": "other"}
    assert api.put("/schema_registry/text", json=changed).json() == changed
    assert api.get("/schema_registry/text").json() == changed
    bad = api.put("/schema_registry/text", json={"type": "avro", "source": "{"})
    assert refused(bad) == (400, "BAD_REQUEST")
    assert refused(api.post("/schema_registry", json={"name": "x", "type": "xml", "source": ""})) == (
        400,
        "BAD_REQUEST",
    )
    assert refused(api.put("/schema_registry/none", json=AVRO)) == (404, "NOT_FOUND")
    checked = api.post("/heliograph/schemas/text/check", json={"payload": "BGhp", "encoding": "base64"}).json()
    assert checked == {"fits": True, "fault": "", "value": "hi"}
    unfit = api.post("/heliograph/schemas/text/check", json={"payload": "hi"}).json()
    assert (unfit["fits"], bool(unfit["fault"])) == (False, True)
    no_text = api.post("/heliograph/schemas/text/check", json={"payload": "!", "encoding": "base64"})
    assert refused(no_text) == (400, "BAD_REQUEST")
    assert refused(api.post("/heliograph/schemas/none/check", json={"payload": ""})) == (404, "NOT_FOUND")
    assert api.delete("/schema_registry/text").status_code == 204
    assert refused(api.get("/schema_registry/text")) == (404, "NOT_FOUND")
    assert refused(api.delete("/schema_registry/text")) == (404, "NOT_FOUND")


def test_registries_of_others(managed: Served) -> None:
    api, path = managed.api, "/schema_registry_external/registry/far"
    auth = {"mechanism": "basic", "username": "u", "password": "s3cret"}
    body = {"name": "far", "type": "confluent", "url": "http://127.0.0.1:9", "auth": auth}
    made = api.post("/schema_registry_external", json=body)
    assert made.status_code == 201
    shown = {"type": "confluent", "url": "http://127.0.0.1:9", "auth": {**auth, "password": "******"}}
    assert api.get("/schema_registry_external").json() == {"far": shown}
    assert api.get(path).json() == shown
    assert api.put(path, json=shown).json() == shown
    assert "s3cret" in (managed.data_dir / "configs" / "cluster.hocon").read_text(), "stars keep the secret"
    assert api.put(path, json={"url": "http://127.0.0.1:8"}).json()["auth"] == "none"
    assert api.delete(path).status_code == 204
    assert refused(api.get(path)) == (404, "NOT_FOUND")
    assert refused(api.put(path, json={"url": "http://127.0.0.1:8"})) == (404, "NOT_FOUND")


def test_validations(managed: Served) -> None:
    api, path = managed.api, "/schema_validations/validation"
    body = {"name": "one", "topics": "v/#", "strategy": "all_pass", "checks": [CHECK], "failure_action": "drop"}
    made = api.post("/schema_validations", json=body)
    assert made.status_code == 201
    one = made.json()
    assert (one["topics"], one["enable"], one["log_failure"]) == (["v/#"], True, {"level": "info"})
    assert heard(managed, ["v/1"], ("v/1", b'{"x": 0}'), ("v/1", b'{"x": 1}')) == [b'{"x": 1}']
    counts = {"matched": 2, "succeeded": 1, "failed": 1}
    told = api.get(f"{path}/one/metrics").json()
    assert told == {"metrics": counts, "node_metrics": [{"node": "heliograph@127.0.0.1", "metrics": counts}]}
    assert api.post(f"{path}/one/metrics/reset").status_code == 204
    assert set(api.get(f"{path}/one/metrics").json()["metrics"].values()) == {0}
    assert api.post(f"{path}/one/enable/false").status_code == 204
    assert heard(managed, ["v/1"], ("v/1", b'{"x": 0}')) == [b'{"x": 0}']
    assert refused(api.post(f"{path}/one/enable/maybe")) == (400, "BAD_REQUEST")
    assert refused(api.post("/schema_validations", json=body)) == (400, "ALREADY_EXISTS")
    api.post("/schema_validations", json={**body, "name": "two"})
    assert api.post("/schema_validations/reorder", json={"order": ["two", "one"]}).status_code == 204
    assert [row["name"] for row in api.get("/schema_validations").json()] == ["two", "one"]
    wrong = api.post("/schema_validations/reorder", json={"order": ["two", "two", "no"]})
    assert wrong.status_code == 400
    assert {name: wrong.json()[name] for name in ("not_found", "not_reordered", "duplicated")} == {
        "not_found": ["no"],
        "not_reordered": ["one"],
        "duplicated": ["two"],
    }
    changed = api.put("/schema_validations", json={**one, "description": "d"})
    assert (changed.status_code, changed.json()["description"]) == (200, "d")
    assert refused(api.put("/schema_validations", json={**one, "name": "none"})) == (404, "NOT_FOUND")
    assert refused(
        api.post("/schema_validations", json={**body, "name": "x", "checks": [{"type": "sql", "sql": "no"}]})
    ) == (
        400,
        "BAD_REQUEST",
    )
    for name in ("one", "two"):
        assert api.delete(f"{path}/{name}").status_code == 204
    assert refused(api.get(f"{path}/one")) == (404, "NOT_FOUND")
    assert api.get("/schema_validations").json() == []


def test_a_validation_is_tried(managed: Served) -> None:
    api = managed.api
    second = {"type": "sql", "sql": "SELECT * WHERE qos = 1"}

    def answered(message: dict[str, Any], **changes: Any) -> Any:
        validation = {"topics": ["v/#"], "checks": [CHECK, second], **changes}
        body = {"validation": validation, "message": {"topic": "v/1", "payload": '{"x": 0}', "qos": 1, **message}}
        return api.post("/heliograph/schema_validations/dryrun", json=body)

    def tried(message: dict[str, Any], **changes: Any) -> Any:
        answer = answered(message, **changes)
        assert answer.status_code == 200, answer.text
        return answer.json()

    good = {"type": "sql", "passes": True, "fault": ""}
    bad = {"type": "sql", "passes": False, "fault": "the SQL selects nothing"}
    passed = tried({"payload": '{"x": 1}'})
    assert passed == {"passes": True, "fault": "", "outcome": "goes_on", "checks": [good, good]}
    failed = tried({})
    assert failed == {"passes": False, "fault": bad["fault"], "outcome": "dropped", "checks": [bad, good]}
    assert tried({}, strategy="any_pass") == {**passed, "checks": [bad, good]}
    for action, outcome in (("ignore", "goes_on"), ("disconnect", "disconnected")):
        assert tried({}, failure_action=action) == {**failed, "outcome": outcome}
    assert tried({"topic": "w"}) == {**failed, "outcome": "not_checked"}
    assert tried({"payload": "eyJ4IjogMX0=", "payload_encoding": "base64"}) == passed
    of_both = "SELECT * WHERE pub_props.'Content-Type' = 'a' AND pub_props.'User-Property'.u = 'b'"
    properties = {"pub_props": {"Content-Type": "a", "Other": 1}, "user_property": {"u": "b"}}
    assert tried(properties, checks=[{"type": "sql", "sql": of_both}])["passes"]
    wrong = answered({}, checks=[CHECK, {"type": "sql", "sql": "no"}])
    assert refused(wrong) == (400, "BAD_REQUEST")
    assert wrong.json()["message"].startswith("checks.2.sql: ")
    for message in ({"topic": "v/#"}, {"payload": "!", "payload_encoding": "base64"}, {"qos": 3}):
        assert refused(answered(message)) == (400, "BAD_REQUEST")
    assert api.get("/schema_validations").json() == []


def test_a_schema_that_a_validation_uses_is_not_deleted(managed: Served) -> None:
    api = managed.api
    api.post("/schema_registry", json=AVRO)
    body = {"name": "by_schema", "topics": ["s"], "checks": [{"type": "avro", "schema": "text"}]}
    assert api.post("/schema_validations", json=body).status_code == 201
    answer = api.delete("/schema_registry/text")
    assert refused(answer) == (400, "BAD_REQUEST")
    assert "schema_validation.validations.1" in answer.json()["message"]
    api.delete("/schema_validations/validation/by_schema")
    assert api.delete("/schema_registry/text").status_code == 204


def test_transformations(managed: Served) -> None:
    api, path = managed.api, "/message_transformations/transformation"
    operations = [{"key": "topic", "value": "concat([topic, '/x'])"}]
    message = {"topic": "t", "payload": "p", "qos": 1, "retain": False, "clientid": "c", "user_property": {"a": "b"}}
    tried = api.post(
        "/message_transformations/dryrun", json={"transformation": {"operations": operations}, "message": message}
    )
    assert (tried.status_code, tried.json()["topic"], tried.json()["payload"]) == (200, "t/x", "p")
    assert tried.json()["user_property"] == {"a": "b"}
    failing = {"payload_decoder": {"type": "json"}, "operations": operations}
    body = {"transformation": failing, "message": message}
    assert refused(api.post("/message_transformations/dryrun", json=body)) == (400, "BAD_REQUEST")
    made = api.post("/message_transformations", json={"name": "x", "topics": ["t"], "operations": operations})
    assert made.status_code == 201
    assert made.json()["payload_decoder"] == {"type": "none"}
    assert heard(managed, ["t/x"], ("t", b"p")) == [b"p"]
    assert api.get(f"{path}/x/metrics").json()["metrics"] == {"matched": 1, "succeeded": 1, "failed": 0}
    assert api.post(f"{path}/x/enable/false").status_code == 204
    assert heard(managed, ["t/x"], ("t", b"p")) == []
    assert api.get(f"{path}/x").json()["enable"] is False
    assert api.put("/message_transformations", json=made.json()).json()["enable"] is True
    assert api.post("/message_transformations/reorder", json={"order": ["x"]}).status_code == 204
    assert api.delete(f"{path}/x").status_code == 204
    assert api.get("/message_transformations").json() == []

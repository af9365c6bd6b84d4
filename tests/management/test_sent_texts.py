"""What actions send is for those who may change it: others see its placeholders, and no constant text."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout

import httpx
import pytest

from heliograph.cli.main import main
from support.management import Served

BODY = '{"token": "hunter2", "t": ${temp}}'
SENT = {"path": "/hooks/hunter2/${clientid}?key=hunter2", "body": BODY, "headers": {"x-key": "hunter2"}}
KAFKA = {
    "topic": "t",
    "message": {"value": BODY},
    "kafka_ext_headers": [{"kafka_ext_header_key": "k", "kafka_ext_header_value": "hunter2"}],
}


@pytest.fixture(scope="module")
def callers(managed: Served) -> Iterator[dict[str, httpx.Client]]:
    """The API by the role of the caller."""
    keys = ["ctl", "--data-dir", str(managed.data_dir), "api_keys"]
    found = {}
    for role in ("viewer", "operator"):
        with redirect_stdout(io.StringIO()) as out:
            assert main([*keys, "add", f"sent-{role}", "--role", role, "--json"]) == 0
        made = json.loads(out.getvalue())
        found[role] = managed.client((made["key"]["api_key"], made["secret"]))
    yield found
    for role, client in found.items():
        client.close()
        assert main([*keys, "del", f"sent-{role}"]) == 0


def test_viewers_see_no_constant_text_of_what_actions_send(managed: Served, callers: dict[str, httpx.Client]) -> None:
    api, viewer, operator = managed.api, callers["viewer"], callers["operator"]
    assert (
        api.post("/connectors", json={"type": "http", "name": "s", "url": "http://127.0.0.1:9/hunter2"}).status_code
        == 201
    )
    action = {"type": "http", "name": "s", "connector": "s"}
    made = api.post("/actions", json={**action, "parameters": {**SENT, "body": "none"}})
    assert made.status_code == 201, made.text
    first = api.get("/heliograph/configuration/revisions").json()[0]["number"]
    assert api.put("/actions/http:s", json={"connector": "s", "parameters": SENT}).status_code == 200
    hosts = {"type": "kafka_producer", "name": "s", "bootstrap_hosts": "127.0.0.1:9"}
    assert api.post("/connectors", json=hosts).status_code == 201
    made = api.post("/actions", json={**hosts, "connector": "s", "parameters": KAFKA} | {"bootstrap_hosts": None})
    assert made.status_code == 201, made.text
    last = api.get("/heliograph/configuration/revisions").json()[0]["number"]
    places = (
        *("/connectors", "/connectors/http:s", "/configs?key=connectors"),
        *("/actions", "/actions/http:s", "/bridges", "/configs?key=actions", "/configs"),
        "/heliograph/configuration?path=actions",
        f"/heliograph/configuration/revisions/{last}",
        f"/heliograph/configuration/diff?old={first}&new={last}",
    )
    for place in places:
        shown = viewer.get(place)
        assert shown.status_code == 200, place
        assert "hunter2" not in shown.text, place
        assert "hunter2" in operator.get(place).text, place
    parameters = viewer.get("/actions/http:s").json()["parameters"]
    assert (parameters["path"], parameters["body"]) == ("******${clientid}******", "******${temp}******")
    assert viewer.get("/connectors/http:s").json()["url"] == "http://127.0.0.1:9/******"
    shown = operator.get("/actions/http:s").json()["parameters"]
    assert (shown["body"], shown["headers"]) == (BODY, {"x-key": "******"})
    for one in ("/actions/http:s", "/actions/kafka_producer:s", "/connectors/http:s", "/connectors/kafka_producer:s"):
        assert api.delete(one).status_code == 204

"""A stored secret goes to another place only if who brings it there may change the configuration."""

from typing import Any, cast

import httpx
import pytest

from heliograph.control.proto_v1.conf import ConfSetting
from heliograph.management.api.secret_places import check_secrets_stay
from heliograph.management.asking.nodes import Node
from heliograph.management.web.callers import Caller
from heliograph.management.web.errors import ApiError
from support.management import Served

HERE, THERE = "http://127.0.0.1:9", "http://127.0.0.1:10"
CONNECTOR, ACTION = "/connectors/http:moved", "/actions/http:moved"
STARS = {"authorization": "******"}
NEW = {"authorization": "Bearer new"}


def told(answer: httpx.Response) -> str:
    """Why it is refused."""
    assert (answer.status_code, answer.json()["code"]) == (403, "UNAUTHORIZED_ROLE"), answer.text
    return str(answer.json()["message"])


def test_a_connector_keeps_its_secret_where_it_is(managed: Served, operator: httpx.Client) -> None:
    made = {"type": "http", "name": "moved", "url": HERE, "headers": {"authorization": "Bearer hunter2"}}
    assert managed.api.post("/connectors", json=made).status_code == 201
    shown = operator.get(CONNECTOR).json()
    assert operator.put(CONNECTOR, json={**shown, "pool_size": 5}).status_code == 200
    for moved in ({**shown, "url": THERE}, {"url": THERE}, {"url": THERE, "headers": STARS}):
        refusal = told(operator.put(CONNECTOR, json=moved))
        assert refusal.startswith(f"url changes from '{HERE}' to '{THERE}', and headers.authorization would go there: ")
    told(operator.post("/connectors_probe", json={**made, "url": THERE, "headers": STARS}))
    assert operator.put(CONNECTOR, json={**shown, "url": THERE, "headers": NEW}).status_code == 200
    shown = managed.api.get(CONNECTOR).json()
    assert managed.api.put(CONNECTOR, json={**shown, "url": HERE}).json()["headers"] == STARS
    gone = {**shown, "url": THERE, "headers": {"authorization": None}}
    assert operator.put(CONNECTOR, json=gone).json()["headers"] == {}
    assert operator.delete(CONNECTOR).status_code == 204


def test_an_action_keeps_its_secret_with_its_connector(managed: Served, operator: httpx.Client) -> None:
    for name in ("moved", "other"):
        assert managed.api.post("/connectors", json={"type": "http", "name": name, "url": HERE}).status_code == 201
    made = {"type": "http", "name": "moved", "connector": "moved", "parameters": {"headers": {"x-key": "hunter2"}}}
    assert managed.api.post("/actions", json=made).status_code == 201
    shown = operator.get(ACTION).json()
    assert operator.put(ACTION, json=shown).status_code == 200
    other = {**made, "connector": "other", "parameters": {"headers": {"x-key": "******"}}}
    assert told(operator.put(ACTION, json=other)).startswith("connector changes from 'moved' to 'other', and param")
    told(operator.post("/actions_probe", json=other))
    for path in (ACTION, CONNECTOR, "/connectors/http:other"):
        assert managed.api.delete(path).status_code == 204


def test_a_registry_keeps_its_password_where_it_is(managed: Served, operator: httpx.Client) -> None:
    made = {"name": "moved", "type": "confluent", "url": HERE, "auth": {"username": "u", "password": "hunter2"}}
    path = "/schema_registry_external/registry/moved"
    assert managed.api.post("/schema_registry_external", json=made).status_code == 201
    shown = operator.get(path).json()
    assert operator.put(path, json=shown).status_code == 200
    assert "auth.password would go there" in told(operator.put(path, json={**shown, "url": THERE}))
    assert managed.api.put(path, json={**shown, "url": THERE}).status_code == 200
    assert managed.api.delete(path).status_code == 204


class _Rows:
    """A node that answers what its configuration is."""

    def __init__(self, *rows: tuple[str, str, str]) -> None:
        self._rows = [
            ConfSetting(f"connectors.pgsql.db.{path}", value, origin, "live", value, ((),) * (path == "password"))
            for path, value, origin in rows
        ]

    async def rows(self, *asked: object) -> list[ConfSetting]:
        """Answer `conf.show`."""
        return self._rows


@pytest.mark.parametrize(
    ("origin", "settings", "is_refused"),
    [
        ("cluster: cluster.hocon:1", {"server": "there:1", "password": "new"}, False),
        ("cluster: cluster.hocon:1", {"server": "there:1", "password": "******"}, True),
        ("base: base.hocon:1", {"server": "there:1"}, True),
        ("node: heliograph.hocon:1", {"server": "there:1", "password": "new"}, True),
        ("environment: HELIOGRAPH_X", {"server": "there:1", "password": "new"}, True),
        ("environment: HELIOGRAPH_X", {"server": "here:1", "password": "******"}, False),
    ],
)
async def test_secrets_of_all_layers_count(origin: str, settings: dict[str, Any], is_refused: bool) -> None:
    node = cast(Node, _Rows(("server", '"here:1"', "cluster: c:1"), ("password", '"******"', origin)))
    place = ("connectors", "pgsql", "db")
    await check_secrets_stay(Caller("ann", "user", "administrator"), node, place, settings)
    try:
        await check_secrets_stay(Caller("olga", "user", "operator"), node, place, settings)
        has_refused = False
    except ApiError as error:
        has_refused = error.status == 403
    assert has_refused == is_refused


_OPTIONS: dict[str, Any] = {
    "place": "s3://here/x",
    "storage_options": {"AWS_REGION": "******", "AWS_SECRET_ACCESS_KEY": "******"},
}


@pytest.mark.parametrize(
    ("changes", "is_refused"),
    [
        ({}, False),
        ({"description": "other"}, False),
        ({"place": "s3://there/x"}, True),
        ({"storage_options": {**_OPTIONS["storage_options"], "AWS_REGION": "there"}}, True),
        ({"storage_options": {**_OPTIONS["storage_options"], "proxy_of_some_name": "http://there"}}, True),
        ({"storage_options": {"AWS_SECRET_ACCESS_KEY": "******"}}, True),
        ({"storage_options": {"AWS_REGION": "there", "AWS_SECRET_ACCESS_KEY": "new"}}, False),
    ],
)
def test_any_option_of_a_store_may_name_a_place(
    managed: Served, operator: httpx.Client, changes: dict[str, Any], is_refused: bool
) -> None:
    hidden = {"AWS_REGION": "here", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    made = {**_OPTIONS, "type": "delta", "name": "moved", "storage_options": hidden}
    assert managed.api.post("/connectors", json=made).status_code == 201
    try:
        answer = operator.put("/connectors/delta:moved", json={**_OPTIONS, **changes})
        assert answer.status_code == (403 if is_refused else 200), answer.text
        assert "hunter2" not in answer.text
    finally:
        assert managed.api.delete("/connectors/delta:moved").status_code == 204


async def test_a_secret_in_a_file_of_its_own_is_one() -> None:
    node = cast(Node, _Rows(("server", '"here:1"', "base: b:1"), ("password", '"file:///run/key"', "base: b:2")))
    place, olga = ("connectors", "pgsql", "db"), Caller("olga", "user", "operator")
    await check_secrets_stay(olga, node, place, {"server": "here:1"})
    for kept in ({}, {"password": "file:///run/key"}):
        with pytest.raises(ApiError, match="password would go there"):
            await check_secrets_stay(olga, node, place, {"server": "there:1", **kept})


async def test_what_only_looks_like_a_secret_is_none() -> None:
    rows = _Rows(("server", '"here:1"', "base: b:1"), ("description", '"******"', "base: b:2"))
    olga = Caller("olga", "user", "operator")
    await check_secrets_stay(olga, cast(Node, rows), ("connectors", "pgsql", "db"), {"server": "there:1"})

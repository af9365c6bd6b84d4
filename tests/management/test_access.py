"""Authenticators, users, sources and rules through the HTTP API, with effects seen over MQTT."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from heliograph.mqtt import packets as p
from support.management import Served
from support.running import MqttClient

BUILT_IN = {"mechanism": "password_based", "backend": "built_in_database", "user_id_type": "username"}
ID = "password_based:built_in_database"
RULES = "/authorization/sources/built_in_database/rules"


@pytest.fixture(autouse=True)
def _as_before(managed: Served) -> Iterator[None]:
    yield
    managed.api.put("/configs", content="authentication = null, authorization = null")


@pytest.fixture
def users(managed: Served) -> str:
    made = managed.api.post("/authentication", json=BUILT_IN)
    assert (made.status_code, made.json()["id"]) == (200, ID)
    return f"/authentication/{ID}/users"


async def _opened(managed: Served, username: str | None, password: bytes | None) -> MqttClient:
    client = MqttClient(*await asyncio.open_connection("127.0.0.1", managed.port), p.V5)
    client.send_connect("device", username=username, password=password)
    return client


async def _code(managed: Served, username: str | None, password: bytes | None) -> int:
    client = await _opened(managed, username, password)
    code = (await client.take(p.Connack)).code
    client.close()
    return code


def _answer(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def test_users_decide_who_connects(managed: Served, users: str) -> None:
    api = managed.api
    made = api.post(users, json={"user_id": "ann", "password": "secret"})
    assert (made.status_code, made.json()) == (201, {"user_id": "ann", "is_superuser": False})
    assert await _code(managed, "ann", b"secret") == 0
    assert await _code(managed, "ann", b"wrong") == 0x86
    assert api.put(f"{users}/ann", json={"password": "other"}).json()["user_id"] == "ann"
    assert await _code(managed, "ann", b"other") == 0
    assert _answer(api.post(users, json={"user_id": "ann", "password": "x"})) == (409, "ALREADY_EXISTS")
    assert _answer(api.post(users, json={"user_id": "bob"})) == (400, "BAD_REQUEST")
    assert api.get(users, params={"like_user_id": "an"}).json()["data"] == [{"user_id": "ann", "is_superuser": False}]
    status = api.get(f"/authentication/{ID}/status").json()
    assert status["status"] == "connected"
    assert (status["metrics"]["success"], status["metrics"]["failed"]) == (2, 1)
    assert api.delete(f"{users}/ann").status_code == 204
    assert _answer(api.get(f"{users}/ann")) == (404, "NOT_FOUND")


async def test_users_come_from_files(managed: Served, users: str) -> None:
    where = f"/authentication/{ID}/import_users"
    csv = b"user_id,password,is_superuser\njan,pw-1,true\nfeb,pw-2,false\n"
    taken = managed.api.post(where, params={"type": "plain"}, files={"filename": ("users.csv", csv)})
    assert taken.json() == {"total": 2, "success": 2, "override": 0, "skipped": 0, "failed": 0}
    assert await _code(managed, "feb", b"pw-2") == 0
    again = managed.api.post(where, params={"type": "auto"}, json=[{"user_id": "jan", "password": "pw-3"}])
    assert again.json()["override"] == 1
    broken = managed.api.post(where, params={"type": "plain"}, files={"filename": ("users.json", b"[{]")})
    assert _answer(broken) == (400, "BAD_REQUEST")


def test_chains_of_authenticators(managed: Served, users: str) -> None:
    api = managed.api
    http = {"mechanism": "password_based", "backend": "http", "method": "post", "url": "http://127.0.0.1:1/auth",
            "body": {"password": "${password}"}, "headers": {"authorization": "hidden"}}  # fmt: skip
    assert api.post("/authentication", json=http).json()["id"] == "password_based:http"
    assert _answer(api.post("/authentication", json=BUILT_IN)) == (409, "ALREADY_EXISTS")
    assert _answer(api.post("/authentication", json={"mechanism": "magic"})) == (400, "BAD_REQUEST")
    assert api.put(f"/authentication/{ID}/position/rear").status_code == 204
    assert [one["id"] for one in api.get("/authentication").json()] == ["password_based:http", ID]
    order = [{"id": ID}, {"id": "password_based:http"}]
    assert api.put("/authentication/order", json=order).status_code == 204
    assert [one["id"] for one in api.get("/authentication").json()] == [ID, "password_based:http"]
    assert api.put("/authentication/order", json=order[:1]).status_code == 400
    shown = api.get("/authentication/password_based%3Ahttp").json()
    assert "hidden" not in json.dumps(shown)
    assert api.put("/authentication/password_based:http", json={**shown, "enable": False}).status_code == 204
    assert api.get("/authentication/password_based:http/status").json()["status"] == "stopped"
    assert _answer(api.put("/authentication/password_based:http", json=BUILT_IN)) == (400, "BAD_REQUEST")
    assert api.delete("/authentication/password_based:http").status_code == 204
    assert _answer(api.get("/authentication/password_based:http")) == (404, "NOT_FOUND")
    assert _answer(api.get("/authentication/password_based:http/users")) == (404, "NOT_FOUND")


def test_constant_texts_of_a_request_are_shown_as_stars_and_kept(managed: Served) -> None:
    asked = {
        "mechanism": "password_based",
        "backend": "http",
        "method": "post",
        "url": "http://127.0.0.1:1/p?user=${username}&token=Sekret2",
        "body": {"username": "${username}", "key": "Sekret3"},
    }
    made = managed.api.post("/authentication", json=asked)
    assert made.status_code == 200, made.text
    path = "/authentication/password_based:http"
    shown = managed.api.get(path).json()
    assert shown["url"] == "http://127.0.0.1:1/p?user=${username}&token=******"
    assert shown["body"] == {"username": "${username}", "key": "******"}
    kept = {name: shown[name] for name in asked} | {"request_timeout": "7s"}
    assert managed.api.put(path, json=kept).status_code == 204
    for text in ("Sekret2", "Sekret3"):
        assert text in (managed.data_dir / "configs" / "cluster.hocon").read_text()
    moved = managed.api.put(path, json=kept | {"url": "http://elsewhere/p?token=******"})
    assert (moved.status_code, "give the secret itself" in moved.text) == (400, True), moved.text
    told = "".join(managed.api.get(one).text for one in ("/authentication", "/configs", "/audit"))
    assert "Sekret" not in told
    assert managed.api.delete(path).status_code == 204


def test_a_listener_has_its_own_chain(managed: Served) -> None:
    own = "/listeners/tcp:default/authentication"
    assert managed.api.post(own, json=BUILT_IN).status_code == 200
    assert managed.api.get("/authentication").json() == []
    assert managed.api.post(f"{own}/{ID}/users", json={"user_id": "a", "password": "b"}).status_code == 201
    assert [one["id"] for one in managed.api.get(own).json()] == [ID]
    assert managed.api.delete(f"{own}/{ID}").status_code == 204
    managed.api.put("/configs", content="listeners = null")


async def _may_publish(managed: Served, topic: str) -> bool:
    client = await _opened(managed, "ann", None)
    await client.take(p.Connack)
    code = await client.publish(topic, qos=1)
    client.close()
    return code != 0x87


async def test_rules_of_the_database_decide_what_clients_do(managed: Served) -> None:
    api = managed.api
    assert api.post("/authorization/sources", json={"type": "built_in_database", "enable": True}).status_code == 204
    rule = {"permission": "deny", "action": "publish", "topic": "up/#"}
    made = api.post(f"{RULES}/users", json=[{"username": "ann", "rules": [rule]}])
    assert made.status_code == 204
    assert not await _may_publish(managed, "up/1")
    assert await _may_publish(managed, "down/1")
    assert _answer(api.post(f"{RULES}/users", json=[{"username": "ann", "rules": []}])) == (409, "ALREADY_EXISTS")
    shown = api.get(f"{RULES}/users/ann").json()
    assert shown == {"username": "ann", "rules": [{**rule, "qos": [0, 1, 2], "retain": "all"}]}
    assert api.put(f"{RULES}/users/ann", json={"rules": [{**rule, "permission": "allow"}]}).status_code == 204
    assert await _may_publish(managed, "up/1")
    assert api.get("/authorization/sources/built_in_database/status").json()["metrics"]["deny"] == 1
    assert api.delete(f"{RULES}/users/ann").status_code == 204
    assert _answer(api.get(f"{RULES}/users/ann")) == (404, "NOT_FOUND")
    assert api.put(f"{RULES}/clients/device", json={"rules": [rule]}).status_code == 204
    assert api.get(f"{RULES}/clients", params={"like_clientid": "dev"}).json()["data"][0]["clientid"] == "device"
    assert api.post(f"{RULES}/all", json={"rules": [rule]}).status_code == 204
    assert api.get(f"{RULES}/all").json()["rules"] == [{**rule, "qos": [0, 1, 2], "retain": "all"}]
    assert _answer(api.delete(RULES)) == (400, "BAD_REQUEST")
    assert _answer(api.put(f"{RULES}/users/ann", json={"rules": [{"topic": "x"}]})) == (400, "BAD_REQUEST")
    assert api.put("/authorization/sources/built_in_database", json={"type": "built_in_database", "enable": False})
    assert api.delete(RULES).status_code == 204
    assert api.get(f"{RULES}/all").json()["rules"] == []


async def test_rules_of_a_file_come_with_the_request(managed: Served) -> None:
    api = managed.api
    rules = '{deny, all, publish, ["secret/#"]}.\n'
    source = {"type": "file", "enable": True, "rules": rules}
    assert api.put("/authorization/sources/file", json=source).status_code == 204
    assert not await _may_publish(managed, "secret/1")
    assert api.get("/authorization/sources/file").json()["rules"] == rules
    wrong = api.put("/authorization/sources/file", json={"type": "file", "enable": True, "rules": "{deny, all"})
    assert _answer(wrong) == (400, "BAD_REQUEST")
    assert not await _may_publish(managed, "secret/1")
    assert _answer(api.post("/authorization/sources", json={"type": "file", "rules": rules})) == (400, "BAD_REQUEST")
    assert api.post("/authorization/sources", json={"type": "built_in_database"}).status_code == 204
    types = [one["type"] for one in api.get("/authorization/sources").json()["sources"]]
    assert types == ["built_in_database", "file"]
    assert api.post("/authorization/sources/file/move", json={"position": "front"}).status_code == 204
    order = [{"type": "built_in_database"}, {"type": "file"}]
    assert api.put("/authorization/sources/order", json=order).status_code == 204
    assert api.delete("/authorization/sources/file").status_code == 204
    assert await _may_publish(managed, "secret/1")


def test_settings_beside_the_sources(managed: Served) -> None:
    settings = managed.api.get("/authorization/settings").json()
    assert settings["no_match"] == "allow"
    changed = managed.api.put("/authorization/settings", json={**settings, "no_match": "deny"})
    assert changed.json()["no_match"] == "deny"
    assert "sources" not in changed.json()
    assert _answer(managed.api.put("/authorization/settings", json={"no_match": "perhaps"})) == (400, "BAD_REQUEST")
    assert managed.api.delete("/authorization/cache").status_code == 204

"""Webhooks of others: who may send, what becomes of a request, and what is answered."""

import asyncio
import hashlib
import hmac
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from heliograph.mqtt import packets as p
from heliograph.mqtt.properties import ALLOWED_PUBLISH, properties_from_wire
from support.management import Served
from support.running import MqttClient

pytestmark = [pytest.mark.service]

TOKEN: Final = "a-token-of-24-characters"
SOURCE: Final = {
    "type": "http_in",
    "name": "hooks",
    "parameters": {"token": TOKEN, "max_body_size": "1KB"},
    "local": {"topic": "hooks/${topic}/${payload.kind}", "payload": "${payload} ${headers.'x-event'} ${query.n}"},
}


def post(managed: Served, path: str, token: str | None = TOKEN, **more: Any) -> httpx.Response:
    headers = {**({} if token is None else {"authorization": f"Bearer {token}"}), **more.pop("headers", {})}
    return httpx.post(f"{managed.url}/in{path}", headers=headers, timeout=100.0, **more)


def signature(key: str, body: bytes = b"body") -> dict[str, str]:
    """As GitHub signs."""
    return {"X-Hub-Signature-256": f"sha256={hmac.new(key.encode(), body, hashlib.sha256).hexdigest()}"}


def marks_of(packet: p.Publish) -> list[tuple[str, str]]:
    found = properties_from_wire(bytes(packet.property_bytes), ALLOWED_PUBLISH).user
    return [(name, text) for name, text in found if name == "heliograph-via"]


def guesses(managed: Served, count: int) -> list[int]:
    with httpx.Client(timeout=100.0) as client:
        return [client.post(f"{managed.url}/in/hooks/t?token=guess-{number}").status_code for number in range(count)]


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def test_a_request_is_a_message_after_its_commit(managed: Served, tmp_path: Path) -> None:
    api = managed.api
    made = api.post("/sources", json=SOURCE)
    assert made.status_code == 201, made.text
    assert made.json()["parameters"]["token"] == "******"
    assert (made.json()["status"], "connector" in made.json()) == ("connected", False)
    assert api.post("/sources", json={**SOURCE, "name": "x", "parameters": {"token": "short"}}).status_code == 400
    (tmp_path / "token").write_text("short\n")
    in_file = {"token": f"file://{tmp_path}/token"}
    refused = api.post("/sources", json={**SOURCE, "name": "x", "parameters": in_file})
    assert (refused.status_code, "5 characters; 16 at least" in refused.text) == (400, True), refused.text
    assert api.post("/sources_probe", json={**SOURCE, "name": "new"}).status_code == 204
    client = MqttClient(*await asyncio.open_connection("127.0.0.1", managed.port), p.V5)
    client.send_connect("reader")
    await client.take(p.Connack)
    await client.subscribe("hooks/#", 1)

    answer = await asyncio.to_thread(
        post, managed, "/hooks/git/a%20b?n=7&token=x", json={"kind": "push"}, headers={"x-event": "e"}
    )
    assert (answer.status_code, answer.json()) == (200, {"result": "ok"})
    packet = await client.take(p.Publish)
    assert (packet.topic, packet.qos) == (b"hooks/git/a b/push", 1)
    assert packet.payload == b'{"kind":"push"} e 7'
    ((_, site),) = marks_of(packet)
    answer = await asyncio.to_thread(post, managed, f"/hooks/t?token={TOKEN}", None, content=b'{"kind":1}')
    assert answer.status_code == 200
    assert (await client.take(p.Publish)).payload.endswith(b"undefined")

    for path, token in (("/hooks/t", None), ("/hooks/t", "wrong"), ("/hooks/t", TOKEN[:-1]), ("/other/t", TOKEN)):
        assert code(await asyncio.to_thread(post, managed, path, token, content=b"x")) == (401, "BAD_TOKEN")
    for mark, answers in (("other, null", (200, None)), (f"other,{site}", (400, "BAD_REQUEST"))):
        sent = await asyncio.to_thread(post, managed, "/hooks/t", content=b"{}", headers={"heliograph-via": mark})
        assert (sent.status_code, sent.json().get("code")) == answers, sent.text
    assert marks_of(await client.take(p.Publish)) == [("heliograph-via", f"other,{site}")]
    large = await asyncio.to_thread(post, managed, "/hooks/t", content=bytes(1025))
    assert code(large) == (413, "EXCEED_LIMIT")
    bad = await asyncio.to_thread(post, managed, "/hooks/t", content=b'{"kind": "#"}')
    assert code(bad) == (400, "BAD_REQUEST")
    assert "wildcard" in bad.json()["message"]
    metrics = api.get("/sources/http_in:hooks/metrics").json()["metrics"]
    assert (metrics["received"], metrics["dropped"], metrics["dropped.topic_invalid"], metrics["dropped.loop"]) == (
        5,
        2,
        1,
        1,
    )
    assert api.put("/sources/http_in:hooks/enable/false").status_code == 204
    assert code(await asyncio.to_thread(post, managed, "/hooks/t", content=b"x")) == (401, "BAD_TOKEN")
    assert (await asyncio.to_thread(httpx.get, f"{managed.url}/in/hooks/t")).status_code in (404, 405)
    assert api.put("/sources/http_in:hooks/enable/true").status_code == 204
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    signed = {
        **SOURCE,
        "name": "signed",
        "parameters": {"hmac": {"secret": f"file://{tmp_path}/token"}},
        "local": {"topic": "hooks/signed"},
    }
    assert api.post("/sources", json={**signed, "parameters": {}}).status_code == 400
    made = api.post("/sources", json=signed)
    assert (made.status_code, TOKEN in made.text) == (201, False), made.text
    for key, status in ((TOKEN, 200), ("b-token-of-24-characters", 401)):
        sent = await asyncio.to_thread(post, managed, "/signed", None, content=b"body", headers=signature(key))
        assert sent.status_code == status, sent.text
    (tmp_path / "token").write_text("b-token-of-24-characters")  # which holds without a change of the configuration
    for key, status in (("b-token-of-24-characters", 200), (TOKEN, 401)):
        sent = await asyncio.to_thread(post, managed, "/signed", None, content=b"body", headers=signature(key))
        assert (sent.status_code, key in sent.text) == (status, False), sent.text
    (tmp_path / "token").unlink()
    kept = signature("b-token-of-24-characters")
    assert (await asyncio.to_thread(post, managed, "/signed", None, content=b"body", headers=kept)).status_code == 200
    for headers in ({}, {"X-Hub-Signature-256": "sha256="}, {"X-Hub-Signature-256": kept["X-Hub-Signature-256"][7:]}):
        assert code(await asyncio.to_thread(post, managed, "/signed", None, headers=headers)) == (401, "BAD_TOKEN")
    assert [(await client.take(p.Publish)).payload for _ in range(3)] == [b"body"] * 3

    tries = await asyncio.to_thread(guesses, managed, 100)
    assert (set(tries[:90]), tries[-1]) == ({401}, 429)
    right = await asyncio.to_thread(post, managed, "/hooks/t", content=b'{"kind": 1}')
    assert (code(right), right.headers["retry-after"]) == ((429, "TOO_MANY_REQUESTS"), "10")
    (tmp_path / "token").write_text(TOKEN)
    assert api.delete("/sources/http_in:hooks").status_code == 204
    client.close()
    await client.until_closed()

"""Traces through the API: their files have the packets of clients, and end as they are told."""

import asyncio
import io
import json
import time
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, cast

import httpx
import pytest

from heliograph.control.proto_v1.trace import TraceStartArgs
from heliograph.management.api.live_trace import LiveTrace
from heliograph.management.asking.nodes import Node
from heliograph.rpc.asks import ListQuestion, Question
from support.managed_clients import connected
from support.management import KEY, SECRET, Served
from support.waiting import wait_until


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def publish(managed: Served, clientid: str, topic: str, payload: bytes) -> None:
    async def run() -> None:
        async with connected(managed, clientid) as client:
            await client.publish(topic, payload, 1)

    asyncio.run(run())


def test_a_trace_of_a_client_has_its_packets(managed: Served) -> None:
    api = managed.api
    made = api.post("/trace", json={"name": "mine", "type": "clientid", "clientid": "traced"})
    assert made.status_code == 200
    trace = made.json()
    assert (trace["type"], trace["clientid"], trace["status"], trace["enable"]) == (
        "clientid",
        "traced",
        "running",
        True,
    )
    begin, end = (datetime.fromisoformat(trace[name]) for name in ("start_at", "end_at"))
    assert (end - begin).total_seconds() == 600
    assert (trace["payload_encode"], trace["formatter"]) == ("text", "text")
    publish(managed, "traced", "t/1", b"to be seen")
    publish(managed, "other", "t/2", b"of no interest")
    text, position = "", 0
    while items := (log := api.get("/trace/mine/log", params={"bytes": 300, "position": position}).json())["items"]:
        text += items
        position = log["meta"]["position"]
    assert "PUBLISH" in text
    assert "to be seen" in text
    assert "of no interest" not in text
    (detail,) = api.get("/trace/mine/log_detail").json()
    assert detail["node"] == "heliograph@127.0.0.1"
    assert detail["size"] >= position > 0
    assert detail["mtime"] > begin.timestamp() * 1000 - 1000
    (listed,) = api.get("/trace").json()
    assert listed["log_size"] == {"heliograph@127.0.0.1": detail["size"]}
    answer = api.get("/trace/mine/download")
    assert answer.headers["content-type"] == "application/octet-stream"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.read("heliograph@127.0.0.1/mine.log").decode().startswith(text)
    stopped = api.put("/trace/mine/stop")
    assert (stopped.status_code, stopped.json()) == (200, {"name": "mine", "enable": False})
    assert api.get("/trace").json()[0]["status"] == "stopped"
    assert api.delete("/trace/mine").status_code == 204
    for method, path in (
        ("DELETE", "/trace/mine"),
        ("PUT", "/trace/mine/stop"),
        ("GET", "/trace/mine/log"),
        ("GET", "/trace/mine/log_detail"),
        ("GET", "/trace/mine/download"),
    ):
        assert refused(api.request(method, path)) == (404, "NOT_FOUND")


def test_traces_are_of_several_kinds_and_begin_at_their_time(managed: Served) -> None:
    api = managed.api
    later = datetime.fromtimestamp(int(time.time()) + 3600, UTC).isoformat()
    body = {"name": "later", "type": "topic", "topic": "t/#", "start_at": later, "formatter": "json"}
    assert api.post("/trace", json=body).json()["status"] == "waiting"
    assert refused(api.post("/trace", json=body)) == (409, "ALREADY_EXISTS")
    assert refused(api.post("/trace", json={**body, "name": "same"})) == (409, "DUPLICATE_CONDITION")
    until = int(time.time()) + 60
    for name, kind, value in (("ip", "ip_address", "127.0.0.1"), ("rule", "ruleid", "r")):
        made = api.post("/trace", json={"name": name, "type": kind, kind: value, "end_at": until})
        assert (made.status_code, made.json()["status"]) == (200, "running")
    record = json.loads(api.get("/trace/later/log").json()["items"].splitlines()[0])
    assert record["event"] == "trace_started"
    assert refused(api.get("/trace/ip/log", params={"node": "no@where"})) == (404, "NODE_ERROR")
    assert api.delete("/trace").status_code == 204
    assert api.get("/trace").json() == []


@pytest.mark.parametrize(
    "body",
    [
        {"name": "no", "type": "clientid"},
        {"name": "no", "type": "topic", "topic": "a/#/b"},
        {"name": "no", "type": "ip_address", "ip_address": "here"},
        {"name": "no", "type": "color", "clientid": "c"},
        {"name": "1no", "type": "clientid", "clientid": "c"},
        {"name": "no", "type": "clientid", "clientid": "c", "start_at": "soon"},
        {"name": "no", "type": "clientid", "clientid": "c", "end_at": 1},
        {"name": "no", "type": "clientid", "clientid": "c", "payload_encode": "all"},
    ],
)
def test_a_trace_that_makes_no_sense_is_refused(managed: Served, body: Any) -> None:
    answer = managed.api.post("/trace", json=body)
    assert answer.status_code == 400
    assert answer.json()["code"] in ("INVALID_PARAMS", "BAD_REQUEST")


async def test_a_live_trace_is_a_stream_of_events_and_leaves_nothing(managed: Served) -> None:
    query = {"type": "clientid", "value": "live", "payload_encode": "text"}
    events: list[dict[str, Any]] = []
    async with (
        httpx.AsyncClient(base_url=f"{managed.url}/api/v5", auth=(KEY, SECRET), timeout=30) as api,
        api.stream("GET", "/heliograph/trace/live", params=query) as stream,
        connected(managed, "live") as client,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        await client.publish("t", b"watched", 1)
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line.removeprefix("data: ")))
                if events[-1].get("payload") == "watched":
                    break
    assert events[0]["event"] == "trace_started"
    wait_until(lambda: not managed.api.get("/trace").json(), "its file is gone")
    assert refused(managed.api.get("/heliograph/trace/live", params={**query, "type": "topic", "value": "a/#/b"})) == (
        400,
        "INVALID_PARAMS",
    )


class Talkative:
    """A node whose trace says more than its reader takes."""

    @contextmanager
    def alone(self) -> Iterator["Talkative"]:
        yield self

    async def ask(self, question: Question[object], timeout_s: float | None = None) -> None:
        return None

    async def slices(self, question: ListQuestion[str], timeout_s: float | None = None) -> AsyncIterator[list[str]]:
        for number in range(100):
            yield [f'{{"record": {number * 30 + one}}}' for one in range(30)]


async def test_a_slow_reader_of_a_live_trace_is_told_what_it_lost() -> None:
    live = LiveTrace(cast(Node, Talkative()), TraceStartArgs("t", "topic", "#"))
    await live.begin()
    assert live.task is not None
    await live.task
    events = [event async for event in live.events()]
    assert events[0] == b'event: lost\ndata: {"records":2000}\n\n'
    assert [event.count(b"event: record") for event in events[1:-1]] == [1] * 1000
    assert b'{"record": 2000}' in events[1], "the oldest are lost"
    assert events[-1].startswith(b"event: end")

"""Live streams: what they say, how often nodes are looked at, and when they end."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from heliograph.management.asking.nodes import Nodes
from heliograph.management.live.events import LIVE_EVENTS
from heliograph.management.live.hub import LiveHub
from heliograph.management.live.subject import LiveSubject, Look
from heliograph.management.live.subjects import SUBJECTS
from support.api_node import ApiNode
from support.managed_clients import connected
from support.management import KEY, SECRET, ManagedNode, Served
from support.waiting import until, wait_until

USER = {"username": "ann", "password": "Sturdy-words-1"}
SETTINGS = f"""
durable_storage {{ messages.topics = ["kept/#"], flight.enable = false }}
dashboard {{ default_username = {USER["username"]}, default_password = "{USER["password"]}" }}
"""
PAGE = {"sec-fetch-site": "same-origin"}
SHARE = 25  # of the 50 streams that there may be


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A node with a user, which the last test kills."""
    with ApiNode(tmp_path_factory.mktemp("live"), SETTINGS) as node:
        yield node


class Events:
    """The events of a stream as they come."""

    def __init__(self, stream: httpx.Response) -> None:
        self._lines = stream.aiter_lines()

    async def next(self, name: str) -> dict[str, Any]:
        """The next event of that name."""
        found = ""
        async for line in self._lines:
            if line.startswith("event: "):
                found = line.removeprefix("event: ")
            elif line.startswith("data: ") and found == name:
                data: dict[str, Any] = json.loads(line.removeprefix("data: "))
                return data
        raise AssertionError(f"the stream ended without an event {name}")

    async def all(self) -> list[str]:
        """The names of those that are left, until the stream ends."""
        return [line.removeprefix("event: ") async for line in self._lines if line.startswith("event: ")]


@asynccontextmanager
async def watching(api: httpx.AsyncClient, of: str) -> AsyncIterator[Events]:
    async with api.stream("GET", "/heliograph/live", params={"of": of}) as stream:
        assert (stream.status_code, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        yield Events(stream)


def caller(managed: Served, **more: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"{managed.url}/api/v5", timeout=30, **more)


async def test_events_have_what_the_document_says(managed: Served) -> None:
    names = {subject.name for subject in SUBJECTS}
    assert names | {"failed", "end"} == LIVE_EVENTS.keys()
    async with caller(managed, auth=(KEY, SECRET)) as api:
        for name in sorted(names):
            async with watching(api, name) as events:
                TypeAdapter(LIVE_EVENTS[name]).validate_python(await events.next(name), strict=True)


async def test_two_streams_see_what_clients_do(managed: Served) -> None:
    async with (
        caller(managed, auth=(KEY, SECRET)) as api,
        watching(api, "overview") as one,
        watching(api, "overview,node,rules,alarms,pipeline") as other,
    ):
        await one.next("overview")
        async with connected(managed, "live") as client:
            for payload in range(50):
                await client.publish("nobody/wants", str(payload).encode(), 1)
            for events in (one, other):
                overview = await events.next("overview")
                while not (overview["connections"] and overview["rates"]["received"]):
                    overview = await events.next("overview")
                assert overview["drops"]["no_subscribers"] == overview["rates"]["dropped"] > 0
                assert overview["memory_bytes"] > 10 << 20
                assert [node["node"] for node in overview["nodes"]] == ["heliograph@127.0.0.1"]
        (node,) = (await other.next("node"))["nodes"]
        assert node["reader"]["restarts"] == 0
        assert ("tcp", "default") in [(each["type"], each["name"]) for each in node["listeners"]]
        assert "messages" in [database["database"] for database in node["storage"]]


def test_each_subject_begins_with_its_object(managed: Served) -> None:
    made = managed.api.post("/rules", json={"name": "warm", "sql": 'SELECT * FROM "a/#"', "actions": []})
    assert made.status_code == 201, made.text
    rule = made.json()["id"]
    subjects = {"rules": rule, "pipeline": "queries", "log": "entries", "configuration": '"confirm_until":null'}
    subjects["authorization"] = '"file":{"enable":true,"status":"connected"'
    for name in ("connectors", "actions", "authentication", "schema_validations", "message_transformations"):
        subjects[name] = f'"{name}":{{}}'
    for name, key in {**subjects, "alarms": "count"}.items():
        with managed.api.stream("GET", "/heliograph/live", params={"of": name}) as stream:
            text = ""
            for part in stream.iter_text():
                text += part
                if key in text.partition(f"event: {name}\n")[2]:
                    break  # the first event may be that of a stream before, which has not ended
            else:
                raise AssertionError(f"{name} ended: {text}")
    managed.api.delete(f"/rules/{rule}")


@pytest.mark.parametrize("of", ["weather", "", "overview,,node"])
def test_a_stream_of_nothing_is_refused(managed: Served, of: str) -> None:
    answer = managed.api.get("/heliograph/live", params={"of": of})
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_PARAMETER")
    assert "overview, node, rules, alarms, pipeline, log" in answer.json()["message"]


async def test_a_stream_ends_with_its_login(managed: Served) -> None:
    async with caller(managed, headers=PAGE) as page:
        assert (await page.get("/heliograph/live")).status_code == 401
        assert (await page.post("/login", json=USER)).status_code == 200
        async with watching(page, "overview,alarms") as events:
            await events.next("overview")
            assert (await page.post("/logout", json={"username": "ann"})).status_code == 204
            assert (await events.next("end"))["code"] == "BAD_TOKEN"
            assert await events.all() == []


async def test_one_caller_leaves_streams_to_others(managed: Served) -> None:
    async with AsyncExitStack() as open_streams:
        page, api = [
            await open_streams.enter_async_context(caller(managed, **more))
            for more in ({"headers": PAGE}, {"auth": (KEY, SECRET)})
        ]
        assert (await page.post("/login", json=USER)).status_code == 200
        async with AsyncExitStack() as own:
            for _ in range(SHARE):
                await own.enter_async_context(watching(api, "alarms"))
            refused = await api.get("/heliograph/live", params={"of": "alarms"})
            assert (refused.status_code, refused.json()["code"]) == (503, "SERVICE_UNAVAILABLE")
            assert f" has {SHARE} of 50 live streams, and others need the rest" in refused.json()["message"]
            assert refused.headers["retry-after"]
            await open_streams.enter_async_context(watching(page, "alarms"))

        def has_place() -> bool:
            with managed.api.stream("GET", "/heliograph/live", params={"of": "alarms"}) as stream:
                return stream.status_code == 200

        await asyncio.to_thread(wait_until, has_place, "closed streams have given their places back")


async def test_a_stream_ends_with_its_node(managed_process: ManagedNode) -> None:
    async with caller(managed_process, auth=(KEY, SECRET)) as api, watching(api, "overview") as events:
        await events.next("overview")
        await asyncio.to_thread(managed_process.node.kill)
        with suppress(httpx.RemoteProtocolError):  # the process may be gone before it can say so
            assert set(await events.all()) <= {"overview", "failed", "end"}


class Counted:
    """A subject that counts how often it is looked at."""

    def __init__(self) -> None:
        self.looks = 0
        self.begins = 0

    def begin(self, nodes: Nodes) -> Look:
        self.begins += 1

        async def look() -> dict[str, int]:
            self.looks += 1
            return {"look": self.looks}

        return look


async def may() -> None:
    """A check that lets its reader go on."""


async def test_a_subject_is_looked_at_once_for_all_streams(tmp_path: Path) -> None:
    counted = Counted()
    hub = LiveHub([LiveSubject("counted", "metrics:read", 0.01, counted.begin)], Nodes("n", tmp_path))
    streams = [hub.open(["counted"], may) for _ in range(3)]
    readers = [stream.events() for stream in streams]
    assert {await anext(reader) for reader in readers} == {b"retry: 2000\n\n"}
    seen = [await anext(reader) for reader in readers]
    assert set(seen) == {seen[0]}
    await until(lambda: counted.looks >= 20)  # nobody reads meanwhile
    waited = await anext(readers[0])
    assert waited.count(b"event:") == 1, "the newest event only"
    assert json.loads(waited.split(b"data: ")[1])["look"] >= 19
    for stream in streams:
        hub.close(stream)
    assert repr(hub) == "LiveHub(0 streams, 0 subjects)", "there is no look without a stream"
    assert counted.begins == 1
    await hub.stop()


async def test_streams_end_with_the_hub(tmp_path: Path) -> None:
    hub = LiveHub([LiveSubject("counted", "metrics:read", 1.0, Counted().begin)], Nodes("n", tmp_path))
    stream = hub.open(["counted"], may)
    await hub.stop()
    events = [event async for event in stream.events()]
    assert b"event: end" in events[-1]


async def test_a_look_that_hangs_is_told(tmp_path: Path) -> None:
    def begin(nodes: Nodes) -> Look:
        return asyncio.Event().wait

    hub = LiveHub([LiveSubject("hangs", "metrics:read", 1.0, begin)], Nodes("n", tmp_path), look_s=0.001)
    stream = hub.open(["hangs"], may)
    reader = stream.events()
    await anext(reader)
    assert b'"of":"hangs","code":"NODE_DOWN"' in await anext(reader)
    hub.close(stream)
    await hub.stop()

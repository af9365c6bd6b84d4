"""What a node is busy with: its memory by owner, long turns, the newest entries of its log, and charts of days."""

import asyncio
import threading
import time

import pytest

from heliograph.node.loop_probe import TurnWatch
from support.management import Served
from support.waiting import wait_until

NODE = "/heliograph/nodes/heliograph@127.0.0.1"


def test_memory_is_told_by_owner(managed: Served) -> None:
    memory = managed.api.get(f"{NODE}/memory").json()
    assert {"sessions", "queues", "retained", "storage", "interpreter"} <= memory["held"].keys()
    assert memory["used"] > memory["held"]["interpreter"] > 1 << 20
    assert memory["limit"] is None or memory["limit"] > memory["used"]


def test_the_newest_entries_of_the_log_are_told_by_level(managed: Served) -> None:
    log = f"{NODE}/log"
    entries = managed.api.get(log).json()["data"]
    numbers = [entry["number"] for entry in entries]
    assert numbers == sorted(numbers)
    assert all(entry["logger"] and entry["text"] for entry in entries)
    assert managed.api.get(log, params={"level": "critical"}).json() == {"data": []}
    assert managed.api.get(log, params={"after": numbers[-2], "limit": 1}).json()["data"][0]["number"] > numbers[-2]
    assert managed.api.get(log, params={"level": "loud"}).status_code == 400
    for what in ("log", "memory", "turns"):
        assert managed.api.get(f"/heliograph/nodes/nobody/{what}").json()["code"] == "NOT_FOUND"


def test_long_turns_are_told(managed: Served) -> None:
    turns = managed.api.get(f"{NODE}/turns").json()
    assert turns["longest_lag_s"] >= 0
    assert all(turn["seconds"] >= 0.02 for turn in turns["turns"])


def block(watch: TurnWatch) -> None:
    """Keep a loop busy until the watch has looked at what runs."""

    def was_looked_at() -> str:
        watch.alive(watch.alive_at, 0.5)
        return watch.turns[-1].ran

    wait_until(was_looked_at, "it was looked at")


async def test_what_runs_in_a_long_turn_is_seen() -> None:
    watch = TurnWatch()
    watch.start()
    watch.alive(time.monotonic(), 0.001)
    assert not watch.turns
    block(watch)
    watch.stop()
    assert watch.turns[-1].seconds == 0.5
    assert len(watch.turns) <= 100


def test_the_thread_that_looks_on_ends_with_its_loop() -> None:
    watch, before = TurnWatch(), set(threading.enumerate())

    async def begin() -> None:
        watch.start()

    asyncio.run(begin())
    wait_until(lambda: set(threading.enumerate()) <= before, "it has ended")
    watch.stop()


def test_charts_have_few_points(managed: Served) -> None:
    history = "/heliograph/history"

    def has_points() -> bool:
        values = managed.api.get(history, params={"of": "memory_bytes", "seconds": 60}).json()["values"]
        return any(values["memory_bytes"])

    wait_until(has_points, "a sample was taken")
    week = managed.api.get(history, params={"seconds": 7 * 86_400, "of": "received,sent,dropped.queue_full"})
    chart = week.json()
    assert (chart["step_s"], set(chart["values"])) == (1800, {"received", "sent", "dropped.queue_full"})
    assert {len(values) for values in chart["values"].values()} == {len(chart["at"])}
    assert len(chart["at"]) <= 338
    assert len(week.content) < 16_384
    assert managed.api.get(history, params={"of": "weather"}).json()["code"] == "INVALID_PARAMETER"


@pytest.mark.parametrize("query", [{"seconds": 5}, {"points": 1_000_000}, {"node": "nobody"}])
def test_a_chart_of_nothing_is_refused(managed: Served, query: dict[str, str]) -> None:
    assert managed.api.get("/heliograph/history", params=query).status_code in (400, 500)

"""Samples of nodes over a week that a fake clock makes short."""

import asyncio
import socket
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from heliograph.control.proto_v1.live import LiveNumbers, LiveWanted
from heliograph.control.proto_v1.metrics import MetricSample, MetricsWanted
from heliograph.management.asking.nodes import Nodes
from heliograph.management.history.history import History
from heliograph.management.history.sample import COUNTERS, GAUGES, HistorySample, deltas
from heliograph.management.history.series import NodePoints, series, step_of
from heliograph.management.history.store import FILE, HistoryStore
from heliograph.rpc.methods import Call, Method
from heliograph.rpc.server import RpcServer
from heliograph.rpc.socket_path import CONTROL_SOCKET

BEGAN_MS = 1_800_000_000_000
DAY_MS = 86_400_000


def sample(at_ms: int, received: int = 1, connections: int = 5) -> HistorySample:
    values = dict.fromkeys((*GAUGES, *COUNTERS), 0)
    return HistorySample(at_ms, {**values, "received": received, "connections": connections})


def test_a_week_is_kept_farther_and_farther_apart(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / FILE)
    store.open()
    steps = 8 * 8640
    for step in range(0, steps, 6):  # a sample a minute, thinned each hour: what a week leaves is the same
        now_ms = BEGAN_MS + step * 10_000
        store.add("n", sample(now_ms, 6, step))
        if step % 360 == 0:
            store.thin(now_ms)
    for step in range(steps - 360, steps):
        store.add("n", sample(BEGAN_MS + step * 10_000, 1, step))
    now_ms = BEGAN_MS + steps * 10_000
    store.thin(now_ms)
    found = store.read("n", 0)
    assert found[0].at_ms >= now_ms - 7 * DAY_MS
    assert len(found) <= 360 + 1380 + 576 + 576 + 4
    ages = [(now_ms - one.at_ms) // 1000 for one in found]
    assert sum(age <= 3600 for age in ages) >= 360
    assert sum(age > 3 * 86_400 for age in ages) == pytest.approx(576, abs=2)
    week = [one for one in found if one.at_ms < now_ms - 3 * DAY_MS]
    assert {one.values["received"] for one in week[1:]} == {60}  # nothing of what happened is lost
    assert [one.values["connections"] for one in found] == sorted(one.values["connections"] for one in found)
    assert (tmp_path / FILE).stat().st_size < 4 << 20
    store.close()


def test_a_damaged_file_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database" * 1000)
    store = HistoryStore(tmp_path / FILE)
    store.open()
    store.add("n", sample(BEGAN_MS))
    store.close()
    again = HistoryStore(tmp_path / FILE)
    again.open()
    assert again.read("n", 0) == [sample(BEGAN_MS)]
    again.clear()
    assert again.read("n", 0) == []
    again.close()
    assert list(tmp_path.glob("*.damaged"))


def test_a_file_that_cannot_be_used_stays_where_it_is(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    store = HistoryStore(tmp_path / FILE)
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        store.open()
    store.close()
    assert [one.name for one in tmp_path.iterdir()] == [FILE]


def test_few_points_are_made_of_a_week() -> None:
    assert [step_of(seconds, 360) for seconds in (3600, 6 * 3600, 86_400, 7 * 86_400)] == [10, 60, 300, 1800]
    names = ["received", "connections"]
    points = NodePoints(names, BEGAN_MS + 60_000, BEGAN_MS + 7 * DAY_MS - 60_000, 1800)
    for minute in range(7 * 1440):
        one = sample(BEGAN_MS + minute * 60_000, 60, minute)
        points.add(one.at_ms, one.values)
    chart = series([points, points], names, 1800)
    assert len(chart["at"]) == 336
    assert set(chart["values"]["received"][1:]) == {2.0}, "nobody knows when the first one began"
    assert chart["values"]["connections"][-1] == 2 * (7 * 1440 - 1)


def test_a_node_that_began_anew_counts_from_zero() -> None:
    assert deltas({"received": 12}, {"received": 10}) == {"received": 2}
    assert deltas({"received": 3}, {"received": 10}) == {"received": 3}


class SlowStore(HistoryStore):
    """One whose file is not open before a test says so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.may_open = threading.Event()

    def open(self) -> None:
        assert self.may_open.wait(60)
        super().open()


async def test_who_asks_before_the_file_is_open_finds_what_is_in_it(tmp_path: Path) -> None:
    before = HistoryStore(tmp_path / FILE)
    before.open()
    before.add("n", sample(BEGAN_MS))
    before.close()
    nodes, store = Nodes("n", tmp_path), SlowStore(tmp_path / FILE)
    history = History(nodes, store, lambda: BEGAN_MS)
    history.start(10)
    asked = asyncio.gather(history.read(nodes.all(), None), history.points(nodes.all(), ["received"], 60, 6))
    await asyncio.sleep(0)
    store.may_open.set()
    samples, _ = await asked
    assert samples == [sample(BEGAN_MS)]
    await history.clear()
    assert await history.read(nodes.all(), None) == []
    nodes.close()
    await history.stop()


async def test_samples_are_what_happened_between_them(tmp_path: Path) -> None:
    numbers = {"sessions.count": 2.0, "messages.received": 100.0, "retained.count": 7.0}

    def samples(args: MetricsWanted, call: Call) -> Iterator[Sequence[MetricSample]]:
        yield [MetricSample(name, value, []) for name, value in numbers.items() if name in args.names]

    def live(args: LiveWanted, call: Call) -> LiveNumbers:
        found = [MetricSample(name, value, []) for name, value in numbers.items() if name in args.names]
        return LiveNumbers(0, 1, 1 << 20, 0, 0, 0.5, numbers.get("turn", 0.0), found)

    asked = [Method("metrics.samples", MetricsWanted, samples), Method("live.numbers", LiveWanted, live)]
    server = RpcServer(asked, "a node", "control socket")
    now = [BEGAN_MS + 3]
    nodes = Nodes("n", tmp_path)
    store = HistoryStore(tmp_path / FILE)
    store.open()
    history = History(nodes, store, lambda: now[0])
    await history.take()  # nobody answers yet
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / CONTROL_SOCKET))
    listening.listen()
    await server.start(listening)
    for received, turn_s in ((100.0, 0.01), (160.0, 0.25), (5.0, 0.0)):
        numbers.update({"messages.received": received, "turn": turn_s, "bytes.sent": received * 10})
        await history.take()
        now[0] += 10_000
    found = await history.read(nodes.all(), None)
    assert [one.values["received"] for one in found] == [0, 60, 5]
    assert [one.at_ms for one in found] == [BEGAN_MS + step * 10_000 for step in range(3)]
    assert found[0].shown()["connections"] == 2
    assert set(found[1].shown()) == {"time_stamp", *GAUGES, *COUNTERS}, "as EMQX has it"
    now[0] += 3_000
    chart = await history.points(nodes.all(), ["received", "bytes_sent", "longest_turn_us"], 90, 3)
    assert chart["at"] == [BEGAN_MS + step * 30_000 for step in (-2, -1, 0, 1)]
    assert chart["values"]["received"] == [None, None, 1.3, None]
    assert chart["values"]["bytes_sent"] == [None, None, 13, None]
    assert chart["values"]["longest_turn_us"] == [None, None, 250_000, None]
    now[0] -= 3_000
    numbers["messages.received"] = 45.0
    current = await history.current(nodes.own())
    assert (current["received_msg_rate"], current["connections"], current["retained_msg_count"]) == (4, 2, 7)
    assert await history.read(nodes.all(), 15) == found[-1:]
    nodes.close()
    await server.stop()
    await history.stop()
    await asyncio.sleep(0)

"""A node whose event loop is really busy sheds in its order, says so, and recovers; clients and operators see it."""

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from heliograph.cli.main import main
from heliograph.control.proto_v1.node import NODE_STATUS
from heliograph.control.proto_v1.olp import OLP_STATUS, OverloadStatus
from heliograph.control.proto_v1.vm import VM_MEMORY
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.kernel import KernelPart
from heliograph.node.overload import FullCollections
from heliograph.rpc.asks import Question
from heliograph.rpc.client import RpcClient
from heliograph.rpc.methods import RpcError
from heliograph.rpc.socket_path import CONTROL_SOCKET
from support.live_node import LiveNode
from support.running import MqttClient, RunningNode

pytestmark = pytest.mark.service

ALARMS = "$SYS/brokers/heliograph@127.0.0.1/alarms/"
OPEN = """
listeners.tcp.default.bind = "127.0.0.1:0"
listeners.tcp.spared { bind = "127.0.0.1:0", zone = spared }
zones.spared.overload_protection.enable = false
durable_storage { messages.topics = [], flight.enable = false }
sysmon.overload { check_interval = 500ms, mean_loop_turn = 30ms, longest_loop_turn = disabled }
overload_protection { enable = true, backoff_gc = true }
"""
TURN_S = 0.05


class BusyLoop:
    """Keeps the event loop so busy that each turn takes a twentieth of a second, until the block ends."""

    def __enter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_soon(self._turn)

    def __exit__(self, *_ended: object) -> None:
        self._handle.cancel()

    def _turn(self) -> None:
        time.sleep(TURN_S)  # the load itself
        self._handle = self._loop.call_soon(self._turn)


T = TypeVar("T")


class Stage:
    """What the tests watch: the node, a client that was there before, and the alarms that it gets."""

    def __init__(self, running: RunningNode, directory: Path, client: MqttClient) -> None:
        self.running = running
        self.client = client
        self._socket = directory / "data" / CONTROL_SOCKET

    async def ask(self, question: Question[T]) -> T:
        """Ask the node as a command does, from another thread."""

        def asked() -> T:
            with RpcClient(self._socket) as node:
                return node.ask(question)

        return await asyncio.to_thread(asked)

    async def alarm(self, event: str) -> dict[str, Any]:
        """The next alarm about overload that begins or ends."""
        name = f"{ALARMS}{event}".encode()
        packet = await self.client.take(p.Publish, lambda one: one.topic == name and b'"runq_overload"' in one.payload)
        found: dict[str, Any] = json.loads(packet.payload)
        return found

    async def until_stage(self, stage: int) -> OverloadStatus:
        """The status when so much is shed, or less if it is 0."""
        while True:
            status = await self.ask(OLP_STATUS())
            if status.stage >= stage > 0 or status.stage == stage:
                return status

    def number(self, name: str) -> float:
        """A counter of the node."""
        return self.running.node.statistics()[f"overload_protection.{name}"]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with RunningNode(tmp_path, OPEN) as running:
        client = await running.connect("before")
        await client.subscribe(f"{ALARMS}#")
        yield Stage(running, tmp_path, client)


async def test_a_busy_node_sheds_says_so_and_recovers(stage: Stage) -> None:
    running = stage.running
    with BusyLoop():
        began = await stage.alarm("activate")
        assert "mean_loop_turn" in began["message"]
        assert began["details"]["causes"] == ["mean_loop_turn"]
        with pytest.raises(RpcError, match="the node is overloaded") as refused:
            await stage.ask(VM_MEMORY())
        assert refused.value.code == "overloaded"
        assert (await stage.ask(NODE_STATUS())).state == "ready"  # to start it again would not help
        status = await stage.until_stage(2)
        assert (status.enabled, status.overloaded) == (True, True)
        assert status.sheds[:2] == ["requests of operators are refused", "new connections wait and are refused"]
        assert await running.connack("late") == rc.QUOTA_EXCEEDED
        assert await running.connack("older", version=p.V3_1_1) == rc.SERVER_UNAVAILABLE
        assert await running.connack("vip", listener="tcp:spared") == rc.SUCCESS
        assert await stage.client.publish("t", b"x", 1) == rc.NO_MATCHING_SUBSCRIBERS  # those that are in go on
        assert len((await stage.until_stage(4)).sheds) == 4
    ended = await stage.alarm("deactivate")
    shed = ended["details"]["shed"]
    assert shed["overload_protection.new_conn"] == 2
    assert shed["overload_protection.requests"] >= 1
    assert "new_conn 2" in ended["message"]
    assert (await stage.until_stage(0)).sheds == []
    assert await running.connack("late") == rc.SUCCESS
    assert stage.number("new_conn") == stage.number("delay.timeout") == 2


async def test_connections_only_wait_where_they_are_not_to_be_refused(stage: Stage) -> None:
    assert await stage.running.change("overload_protection.backoff_new_conn = false")
    with BusyLoop():
        await stage.until_stage(2)
        assert await stage.running.connack("delayed") == rc.SUCCESS
    assert (stage.number("delay.timeout"), stage.number("new_conn")) == (1, 0)


async def test_where_nothing_may_be_shed_the_alarm_comes_all_the_same(stage: Stage) -> None:
    assert await stage.running.change("overload_protection.enable = false")
    with BusyLoop():
        assert "nothing may be shed" in (await stage.alarm("activate"))["message"]
        status = await stage.until_stage(2)
        assert (status.enabled, status.sheds) == (False, [])
        assert await stage.running.connack("c") == rc.SUCCESS


async def test_readers_that_are_slow_lose_qos_0_at_once_and_nothing_that_is_acknowledged(stage: Stage) -> None:
    running = stage.running
    assert await running.change("sysmon.overload.mean_loop_turn = disabled")  # nothing else begins or ends it
    slow = await running.connect("slow")
    await slow.subscribe("fast/#")
    await slow.subscribe("sure/#", 1)
    slow.is_reading.clear()
    payload = bytes(60_000)
    running.node.broker.pressure.shed_for_overload(True)
    while stage.number("qos0") == 0:
        await stage.client.publish("fast/1", payload)
        await stage.client.ping()
    assert await stage.client.publish("sure/1", b"kept", 1) == rc.SUCCESS
    slow.is_reading.set()
    assert (await slow.take(p.Publish, lambda one: one.topic == b"sure/1")).payload == b"kept"
    await slow.ping()
    running.node.broker.pressure.shed_for_overload(False)
    await stage.client.publish("fast/2", b"again")
    assert (await slow.take(p.Publish, lambda one: one.topic == b"fast/2")).payload == b"again"


async def test_memory_is_a_cause_too_and_then_sessions_may_leave_it(stage: Stage) -> None:
    running = stage.running
    settings = "sysmon.overload { memory = 1%, mean_loop_turn = disabled }\nnode.memory_limit = 1GB"
    before = gc.get_threshold()
    assert await running.change(settings)
    assert (await stage.alarm("activate"))["details"]["causes"] == ["memory"]
    assert (await stage.until_stage(4)).stage == 4
    assert not running.node.broker.pressure.keeps_awake
    assert gc.get_threshold() == before


def test_full_collections_are_put_off_and_counted() -> None:
    before = gc.get_threshold()
    collections = FullCollections()
    gc.set_threshold(100, 1, 1)
    try:
        collections.put_off(True)
        collections.put_off(True)
        made = gc.get_stats()[2]["collections"]
        kept = [[number] for number in range(10_000)]
        assert gc.get_stats()[2]["collections"] == made
        collections.put_off(False)
        assert gc.get_threshold() == (100, 1, 1)
        assert collections.skipped_count > 1
        assert len(kept) == 10_000
    finally:
        gc.set_threshold(*before)


async def test_the_command_shows_and_switches_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    live = await LiveNode(tmp_path).start()

    async def ctl(*words: str) -> str:
        assert await asyncio.to_thread(main, ["ctl", *words, "--data-dir", str(live.data_dir)]) == 0
        return capsys.readouterr().out

    try:
        assert (await ctl("olp", "status")).splitlines()[:2] == [
            "heliograph@127.0.0.1 is not overloaded",
            "protection is disabled",
        ]
        assert await ctl("olp", "enable") == "overload protection is enabled (revision 1)\n"
        status = json.loads(await ctl("olp", "status", "--json"))
        assert (status["enabled"], status["overloaded"]) == (True, False)
        assert "overload_protection" in live.cluster
        assert [reading["name"] for reading in status["readings"]] == [
            *("mean_loop_turn", "longest_loop_turn", "commit_queue", "memory", "open_files")
        ]
        assert await ctl("olp", "disable") == "overload protection is disabled (revision 2)\n"
        assert live.node.parts.get(KernelPart).alarms.active() == []
    finally:
        await live.stop()

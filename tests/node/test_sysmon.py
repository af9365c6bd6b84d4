"""Alarms of machine, process and slow readers on a node that runs, as subscribers, operators and a service see them."""

import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from heliograph.mqtt import packets as p
from heliograph.node.kernel import KernelPart
from heliograph.node.sysmon import Processors, memory_used
from heliograph.observe.alarms import Alarm
from support.running import MqttClient, RunningNode
from support.webhook import Answer, Posted, webhook

ALARMS = "$SYS/brokers/heliograph@127.0.0.1/alarms/"
OPEN = """
listeners.tcp.default.bind = "127.0.0.1:0"
listeners.tcp.quiet { bind = "127.0.0.1:0", zone = quiet }
zones.quiet.conn_congestion.enable_alarm = false
durable_storage { messages.topics = [], flight.enable = false }
sysmon.os { cpu_check_interval = 1h, mem_check_interval = disabled }
sysmon.vm.process_check_interval = 1h
"""


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with RunningNode(tmp_path, OPEN) as running:
        yield running


class Watcher:
    """A client that gets the alarms of a node."""

    def __init__(self, client: MqttClient) -> None:
        self._client = client

    async def next(self, event: str, name: str) -> dict[str, Any]:
        """The next time that an alarm of that name begins (`activate`) or ends (`deactivate`)."""
        wanted, topic = f'"name":"{name}"'.encode(), f"{ALARMS}{event}".encode()
        found = await self._client.take(p.Publish, lambda one: one.topic == topic and wanted in one.payload)
        told: dict[str, Any] = json.loads(found.payload)
        return told


async def watch(running: RunningNode) -> Watcher:
    client = await running.connect("watcher")
    await client.subscribe(f"{ALARMS}+")
    return Watcher(client)


def alarms(running: RunningNode) -> list[Alarm]:
    return running.node.parts.get(KernelPart).alarms.active()


@pytest.mark.service
async def test_thresholds_change_live_and_alarms_begin_and_end_with_them(running: RunningNode) -> None:
    watcher = await watch(running)
    low = """
    sysmon.os { cpu_high_watermark = 1%, cpu_low_watermark = 1%, cpu_check_interval = 1s }
    sysmon.os { mem_check_interval = 1h, sysmem_high_watermark = 1%, procmem_high_watermark = 100% }
    """
    assert await running.change(low)
    begun = await watcher.next("activate", "high_system_memory_usage")
    assert begun["details"]["usage"] > begun["details"]["high_watermark"] == 1
    assert "of the machine's memory are used" in begun["message"]
    assert await running.change("sysmon.os.mem_check_interval = disabled")
    await watcher.next("deactivate", "high_system_memory_usage")
    assert await running.change("sysmon.vm { process_high_watermark = 1%, process_low_watermark = 1% }")
    limited = running.node.parts.get(KernelPart).alarms
    assert "high_process_memory_usage" not in [alarm.name for alarm in limited.active()]


@pytest.mark.service
async def test_processors_that_are_busy_are_an_alarm_until_they_are_not(running: RunningNode) -> None:
    watcher = await watch(running)
    is_done = threading.Event()

    def work() -> None:
        while not is_done.is_set():
            sum(range(1000))

    busy = threading.Thread(target=work)
    busy.start()
    try:
        assert await running.change(
            "sysmon.os { cpu_high_watermark = 1%, cpu_low_watermark = 1% }\nsysmon.os.cpu_check_interval = 1s"
        )
        begun = await watcher.next("activate", "high_cpu_usage")
        assert set(begun["details"]) == {"usage", "high_watermark", "low_watermark", "machine", "event_loop"}
    finally:
        is_done.set()
        busy.join()
    assert await running.change(
        "sysmon.os { cpu_high_watermark = 100%, cpu_low_watermark = 100%, cpu_check_interval = 1s }"
    )
    await watcher.next("deactivate", "high_cpu_usage")


@pytest.mark.service
async def test_what_is_done_with_alarms_changes_live(running: RunningNode, caplog: pytest.LogCaptureFixture) -> None:
    node = running.node.parts.get(KernelPart).alarms
    watcher = await watch(running)
    node.activate("first", "it is wrong", {})
    await watcher.next("activate", "first")
    assert "alarm first has begun" in caplog.messages
    assert await running.change("alarm { actions = [], size_limit = 1, validity_period = 1h }")
    late = await running.connect("late")
    await late.subscribe(f"{ALARMS}#")
    assert await late.payloads() == []  # nor is what goes on retained
    node.activate("second", "it is wrong too", {})
    node.deactivate("second")
    node.deactivate("first")
    assert [alarm.name for alarm in node.history()] == ["first"]
    assert await late.payloads() == []
    assert not [line for line in caplog.messages if "second" in line]
    node.activate("third", "still wrong", {})
    assert await running.change("alarm { actions = [publish], validity_period = 1s }")
    again = await running.connect("again")
    await again.subscribe(f"{ALARMS}active/#")
    assert json.loads((await again.take(p.Publish)).payload)["name"] == "third"
    while node.history():
        await again.ping()


@pytest.mark.service
async def test_a_reader_that_is_stuck_is_an_alarm_with_its_name_until_it_reads(running: RunningNode) -> None:
    assert await running.change("conn_congestion.min_alarm_sustain_duration = 1s")
    watcher = await watch(running)
    slow = await running.connect("slow/1", username="joe")
    other = await running.connect("other", listener="tcp:quiet")
    for client in (slow, other):
        await client.subscribe("flood")
        client.is_reading.clear()
    publisher = await running.connect("pub")
    for _ in range(200):
        await publisher.publish("flood", bytes(50_000))
    begun = await watcher.next("activate", "conn_congestion/slow/1/joe")
    details = begun["details"]
    assert (details["clientid"], details["username"], details["listener"]) == ("slow/1", "joe", "tcp:default")
    assert details["unsent_bytes"] > 0
    assert [one.name for one in alarms(running) if one.name.startswith("conn_congestion")] == [begun["name"]]
    slow.is_reading.set()
    await watcher.next("deactivate", begun["name"])
    other.is_reading.set()


@pytest.mark.service
async def test_a_service_is_sent_alarms_and_a_slow_one_keeps_nobody_waiting(running: RunningNode) -> None:
    node = running.node.parts.get(KernelPart).alarms
    client = await running.connect("c")
    may_answer = threading.Event()

    def answer(request: Posted) -> Answer:
        may_answer.wait(20)
        return Answer(204)

    with webhook() as service:
        service.answer = answer
        settings = f'url = "{service.url}/hook?key=geheim", headers {{ x-key = abc }}'
        assert await running.change(f"alarm.webhook {{ enable = true, max_queue = 2, {settings} }}")
        for number in range(6):  # while the first is not answered
            node.activate(f"a{number}", "it is wrong", {"number": number})
            await client.ping()
        while not service.requests:
            await client.ping()
        node.deactivate("a0")
        await client.ping()
        may_answer.set()
        while sum(running.node.statistics()[f"alarms.webhook.{name}"] for name in ("sent", "dropped")) < 7:
            await client.ping()
    bodies = [json.loads(request.body) for request in service.requests]
    assert bodies[-1]["event"] == "deactivated"
    assert (bodies[-1]["name"], bodies[-1]["node"]) == ("a0", "heliograph@127.0.0.1")
    assert bodies[-1]["deactivate_at"] >= bodies[-1]["activate_at"]
    assert service.requests[0].path == "/hook?key=geheim"
    assert service.requests[0].headers["x-key"] == "abc"
    assert running.node.statistics()["alarms.webhook.dropped"] + len(bodies) == 7


@pytest.mark.service
async def test_a_service_that_refuses_is_logged_without_its_address(
    running: RunningNode, caplog: pytest.LogCaptureFixture
) -> None:
    client = await running.connect("c")
    with webhook() as service:
        service.answer = lambda request: Answer(500)
        assert await running.change(f'alarm.webhook {{ enable = true, url = "{service.url}/geheim" }}')
        running.node.parts.get(KernelPart).alarms.activate("wrong", "it is wrong", {})
        while not running.node.statistics()["alarms.webhook.failed"]:
            await client.ping()
    assert len(service.requests) == 3
    assert "a message about an alarm could not be sent to alarm.webhook: it answered with status 500" in caplog.messages
    assert "geheim" not in caplog.text
    missing = 'url = "https://127.0.0.1/x", ssl.cacertfile = "/nowhere"'
    assert not await running.change(f"alarm.webhook {{ enable = true, {missing} }}")


def test_the_machine_is_read_from_the_system(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "meminfo").write_text("MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable:  250 kB\n")
    (proc / "stat").write_text("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1 1 1\n")
    assert memory_used(tmp_path) == 75.0
    processors = Processors(tmp_path)
    (proc / "stat").write_text("cpu  130 0 130 730 110 0 0 0 0 0\n")
    assert processors.look()[0] == 60.0
    nowhere = Processors(tmp_path / "nowhere")
    assert nowhere.look()[0] == memory_used(tmp_path / "nowhere") == 0.0

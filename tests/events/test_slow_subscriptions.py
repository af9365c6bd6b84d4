"""Slow subscriptions, as receivers on real sockets make them."""

import asyncio
from pathlib import Path

from heliograph.broker.delivery_times import RESPONSE, WHOLE
from heliograph.broker.message import Message, make_message
from heliograph.control import slow_subscriptions
from heliograph.events.slow_subscriptions import SlowSubscriptions
from heliograph.mqtt import packets as p
from heliograph.node.kernel import KernelPart
from heliograph.node.statistics import SlowSubscriptionsPart
from support.asking import Asker
from support.cases import cases
from support.kernel import Kernel
from support.running import RunningNode

ALWAYS = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage.messages.topics = []
"""


def message(topic: str) -> Message:
    return make_message(1000, 1, topic, b"", 1, False, b"", "pub", None)


def settings(stats_type: str) -> str:
    return f"slow_subs {{ enable = true, threshold = 30ms, top_k_num = 10, stats_type = {stats_type} }}"


async def slow(node: RunningNode, wait_s: float, qos: int = 1) -> set[str]:
    """The topics of three messages of which a receiver is slow that acknowledges late; another one does so at once."""
    late, prompt, publisher = await node.connect("late"), await node.connect("prompt"), await node.connect("pub")
    await late.subscribe("t/#", qos)
    await prompt.subscribe("t/#", qos)
    for topic in ("t/a", "t/b", "t/c"):
        await publisher.publish(topic, b"x", qos)
    for client, pause_s in ((prompt, 0.0), (late, wait_s)):
        for _ in range(3):
            packet = await client.take(p.Publish)
            await asyncio.sleep(pause_s)
            if qos:
                client.acknowledge(packet)
        await client.ping()
    for client in (late, prompt, publisher):
        await client.leave()
    asker = Asker(slow_subscriptions.methods(lambda: node.node.parts.get(SlowSubscriptionsPart).found))
    rows = asker.rows("slow_subscriptions.list")
    assert [row.timespan_ms for row in rows] == sorted((row.timespan_ms for row in rows), reverse=True)
    assert asker.ask("slow_subscriptions.clear").cleared == len(rows)
    assert asker.rows("slow_subscriptions.list") == []
    return {row.topic for row in rows if row.clientid == "late"}


async def test_receivers_that_acknowledge_late(tmp_path: Path) -> None:
    async with RunningNode(tmp_path, ALWAYS) as node:
        broker = node.node.parts.get(KernelPart).broker
        assert broker.delivery_times is None
        assert await slow(node, 0.0) == set()
        await node.change(settings("whole"))
        assert await slow(node, 0.05) == {"t/a", "t/b", "t/c"}
        await node.change(settings("response"))
        assert await slow(node, 0.05) == {"t/a", "t/b", "t/c"}
        await node.change(settings("internal"))
        assert await slow(node, 0.05) == set()
        await node.change(settings("whole"))
        assert await slow(node, 0.05, qos=0) == set()
        await node.change()
        assert broker.delivery_times is None


@cases("measured", [WHOLE, RESPONSE])
def test_the_slowest_receivers_come_first_and_prompt_ones_are_none(measured: int) -> None:
    kernel = Kernel()
    found = SlowSubscriptions(30_000, measured, 2, 5_000_000, lambda: kernel.now_us, lambda clientid: 0)
    kernel.broker.delivery_times = found
    late, prompt, publisher = kernel.connect("late"), kernel.connect("prompt"), kernel.connect("pub")
    late.subscribe("t/#", 1)
    prompt.subscribe("t/#", 1)
    for topic in ("t/a", "t/b", "t/c"):
        publisher.publish(topic, b"x", 1, 1)
        prompt.ack(p.PUBACK, prompt.take(p.Publish).packet_id)
    for packet in [each for each in late.received() if isinstance(each, p.Publish)]:
        kernel.advance(0.05)
        late.ack(p.PUBACK, packet.packet_id)
    assert [(one.clientid, one.topic, one.took_us) for one in found] == [
        ("late", "t/c", 150_000),
        ("late", "t/b", 100_000),
    ]


def test_the_slowest_are_kept_and_forgotten_in_time() -> None:
    now = [10_000_000]
    found = SlowSubscriptions(1000, WHOLE, 3, 5_000_000, lambda: now[0], lambda clientid: 100)
    for number in range(20):
        found.on_slow(f"c{number}", message("t"), 2000 + number)
    assert [one.clientid for one in found] == ["c19", "c18", "c17"]
    now[0] += 4_000_000
    found.on_slow("c17", message("t"), 9000)
    found.on_slow("c0", message("t"), 1500)
    assert [(one.clientid, one.took_us) for one in found] == [("c17", 9000), ("c19", 2019), ("c18", 2018)]
    now[0] += 2_000_000
    found.forget_old()
    assert [one.clientid for one in found] == ["c17"]
    for number in range(1000):
        found.on_slow("c17", message("t"), 10_000 + number)
    assert [one.took_us for one in found] == [10_999]

"""What a node does and says as its memory is short."""

import logging

import pytest

from heliograph.broker.client import ClientInfo
from heliograph.mqtt import packets as p
from heliograph.node.memory import MemoryContract
from heliograph.node.metrics.process import MEMORY
from heliograph.observe.metric import Catalogue
from support.services import Node


def test_the_log_says_what_was_refused_since_mqtt_3_clients_are_told_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    node = Node()
    contract = MemoryContract(
        1,  # there is none left, whatever this process has and gives back meanwhile
        node.broker,
        node.sessions,
        node.context.channels,
        node.context.refused,
        node.delayed,
        node.alarms,
        node.parts.samples,
    )
    large = node.connect("large", version=p.V3_1_1)
    for number in range(1, 101):
        large.publish("$delayed/60/t", bytes(1000), 1, number)
    large.skip()
    contract.tick()
    for number in (101, 102):
        large.publish("$delayed/60/t", b"x", 1, number)
    assert large.heard() == ["PUBACK #101", "PUBACK #102"]
    assert node.statistics()["delayed.dropped.full"] == 2
    contract.tick()
    contract.tick()
    (told,) = [line for line in caplog.messages if "were refused" in line]
    assert told.startswith("memory is short: 2 sessions, subscriptions, delayed and retained messages were refused")
    assert told.endswith("Most is held by the clients 'large' (0 MiB)")


def test_the_account_is_of_the_moment_and_names_who_has_what() -> None:
    node = Node()
    context = node.context
    contract = MemoryContract(
        None,
        node.broker,
        node.sessions,
        context.channels,
        context.refused,
        node.delayed,
        node.alarms,
        node.parts.samples,
    )
    flat = Catalogue(MEMORY).flat
    before = flat(contract.samples())
    client = node.connect("c")
    client.send_subscribe(*[p.SubscribeEntry(f"device/{number}", 0, False, False, 2) for number in range(1000)])
    for _ in range(100):
        client.publish("$delayed/60/t", bytes(10_000))
    for number in range(100):
        context.refused.on_connect(ClientInfo(f"stranger-{number}", None, "192.0.2.1:1883"), "banned", 1)
    after = flat(contract.samples())
    assert after["memory.held.subscriptions"] - before["memory.held.subscriptions"] == pytest.approx(310_000, rel=0.1)
    assert after["memory.held.delayed"] == pytest.approx(1_060_000, rel=0.1)
    assert after["memory.held.refusals"] - before["memory.held.refusals"] == context.refused.size_bytes > 50_000
    assert sum(size for name, size in after.items() if ".held." in name) >= after["memory.used"]

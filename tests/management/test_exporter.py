"""What the exporter of telemetry tells its node of how the export goes, apart from a node and a collector."""

import asyncio
from dataclasses import replace
from typing import cast

from heliograph.config.opentelemetry import OpenTelemetryConfig, OtelLogsConfig, OtelTracesConfig
from heliograph.control.proto_v1.opentelemetry import ExportArgs, ExportNoted
from heliograph.management.asking.nodes import Node
from heliograph.management.telemetry.exporter import Exporter
from heliograph.outbound import Outbound
from heliograph.rpc.asks import ListQuestion, Question
from support.waiting import until

TRACES = OpenTelemetryConfig(traces=OtelTracesConfig(enable=True, scheduled_delay=0.001))


class _Node:
    """A node where nothing waits for the collector; asking it may fail, and telling it may take long."""

    def __init__(self) -> None:
        self.faults: dict[str, str] = {}
        self.asked: set[str] = set()
        self.told: list[str] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.telling = self.telling_max = 0

    async def rows(self, question: ListQuestion[object]) -> list[object]:
        """Nothing, or a fault as of files of TLS."""
        self.asked.add(question.name)
        if question.name in self.faults:
            raise OSError(self.faults[question.name])
        return []

    async def ask(self, question: Question[ExportNoted]) -> ExportNoted:
        """Hear how the export goes."""
        assert isinstance(question.args, ExportArgs)
        self.told.append(question.args.fault)
        self.telling += 1
        self.telling_max = max(self.telling_max, self.telling)
        try:
            await self.answers.wait()
        finally:
            self.telling -= 1
        return ExportNoted()


async def test_a_fault_of_which_the_node_heard_when_settings_changed_ends() -> None:
    node = _Node()
    exporter = Exporter(cast(Node, node), Outbound())
    await exporter.use(TRACES)
    await until(lambda: node.told == [""])
    node.faults["opentelemetry.spans"] = "away"
    node.answers.clear()
    await until(lambda: node.told == ["", "away"])
    node.faults.clear()
    await exporter.use(replace(TRACES, traces=replace(TRACES.traces, max_queue_size=99)))
    node.answers.set()
    await until(lambda: node.told == ["", "away", ""])
    await exporter.stop()


async def test_the_node_hears_the_newest_last() -> None:
    node = _Node()
    node.faults = {"opentelemetry.spans": "a", "opentelemetry.logs": "b"}
    node.answers.clear()
    exporter = Exporter(cast(Node, node), Outbound())
    await exporter.use(replace(TRACES, logs=OtelLogsConfig(enable=True, scheduled_delay=0.001)))
    await until(lambda: node.told and len(node.asked) == 2)
    for _ in range(20):
        await asyncio.sleep(0)
    node.answers.set()
    await until(lambda: node.told[-1] == "a; b")
    await exporter.stop()
    assert node.telling_max == 1

"""Every kind of part of a real node made to raise: the others start, are ticked and stop all the same."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.config.loading import load_config
from heliograph.config.settings import Config
from heliograph.node import Node
from heliograph.node.kernel import KernelPart
from heliograph.parts import Part
from support.listening import CONNACK, CONNECT

pytestmark = [pytest.mark.service, pytest.mark.slow]

SETTINGS = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage { flight.enable = false, databases.other.topics = ["t/#"] }
durable_sessions.enable = true
delayed.storage_type = disc
"""
NAMES = [
    *(
        "log",
        "outbound",
        "data_dir",
        "kernel",
        "bans",
        "stored_bans",
        "databases",
        "backups",
        "erasures",
        "delayed",
        "environment",
        "people",
        "sessions",
    ),
    *("commits", "retained", "backends", "users", "authentication", "built_in_rules"),
    *("authorization", "address_limits", "flapping", "rewrite", "auto_subscribe", "known_clients", "sys_topics"),
    *("event_messages", "client_log", "sparkplug", "schema_validation", "message_transformation", "rules"),
    *("memory", "listeners"),
    *("ticker", "config_changes", "control", "tracing", "sysmon", "overload", "conn_congestion", "alarm_webhook"),
    *(
        "reader_launch",
        "reader",
        "pipeline",
        "action_runner",
        "sources",
        "actions",
        "management",
        "peaks",
        "slow_subscriptions",
        "disconnects",
        "message_ways",
        "opentelemetry",
        "topic_metrics",
    ),
]


class Broken:
    """A method of a part that raises, first or after it did its work."""

    def __init__(self, work: Callable[..., object] | None = None) -> None:
        self._work = work
        self.count = 0

    def __call__(self, *given: object) -> object:
        self.count += 1
        if self._work is None:
            raise RuntimeError("not today")
        return self._late()

    async def _late(self) -> None:
        assert self._work is not None
        await self._work()  # type: ignore[misc]  # a callable that is an attribute is taken for a method
        raise RuntimeError("not today")


def config_of(tmp_path: Path) -> Config:
    file = tmp_path / "node.conf"
    file.write_text(SETTINGS)
    return load_config(file, {}, {"node.data_dir": str(tmp_path / "data")})


def named(node: Node, name: str) -> Part:
    (found,) = (part for part in node.parts.all() if part.name == name)
    return found


async def connected(node: Node) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(node.ready_line().rpartition(":")[2]))
    writer.write(CONNECT)
    assert await reader.readexactly(len(CONNACK)) == CONNACK
    return reader, writer


def test_these_are_the_parts_of_a_node(tmp_path: Path) -> None:
    assert sorted(part.name for part in Node(config_of(tmp_path)).parts.all()) == sorted(NAMES)


def test_what_a_part_needs_is_a_part_of_a_node(tmp_path: Path) -> None:
    assert {name for part in Node(config_of(tmp_path)).parts.all() for name in part.needs} <= {*NAMES}


async def test_a_part_that_raises_disturbs_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All nodes have one directory: each starts only where the one before has let go of everything."""
    for name in NAMES:
        await _start_fails(config_of(tmp_path), name)
        caplog.clear()
        await _tick_and_stop_fail(config_of(tmp_path), name, caplog)
    node = Node(config_of(tmp_path))
    await node.start()
    await node.stop()


async def _start_fails(config: Config, name: str) -> None:
    node = Node(config)
    setattr(named(node, name), "start", Broken())  # noqa: B010 - a part that is broken, whatever its class
    with pytest.raises(RuntimeError, match="not today"):
        await node.start()
    assert not node.parts.is_running, name


async def _tick_and_stop_fail(config: Config, name: str, caplog: pytest.LogCaptureFixture) -> None:
    node = Node(config)
    part = named(node, name)
    ticks = Broken()
    setattr(part, "tick", ticks)  # noqa: B010
    setattr(part, "stop", Broken(part.stop))  # noqa: B010
    with caplog.at_level(logging.ERROR):
        await node.start()
        reader, writer = await connected(node)
        failed = node.parts.tick(node.parts.get(KernelPart).clock.begin_turn())
        assert failed == {name: "RuntimeError: not today"}
        await node.stop()
        assert (await reader.read()) == b""
        writer.close()
    assert node.statistics()[f"faults.contained.parts.{name}"] == 1 + ticks.count
    assert node.statistics()["storage.open"] == node.statistics()["storage.other.open"] == 0, name
    assert f"not in order: {name} failed" in "\n".join(caplog.messages)


async def test_a_part_that_fails_when_it_is_ticked_has_an_alarm(tmp_path: Path) -> None:
    node = Node(config_of(tmp_path))
    raised = asyncio.Event()
    node.broker.hooks.point("alarm.activated").add(lambda alarm, *_: raised.set() if "part" in alarm.name else None)
    setattr(named(node, "bans"), "tick", Broken())  # noqa: B010
    await node.start()
    async with asyncio.timeout(10):
        await raised.wait()
    (alarm,) = node.parts.get(KernelPart).alarms.active()
    assert alarm.name == "part_failing/bans"
    assert "RuntimeError: not today" in alarm.message
    await node.stop()


async def test_a_node_keeps_the_number_that_was_chosen(tmp_path: Path) -> None:
    numbers = []
    for _ in range(2):
        node = Node(config_of(tmp_path))
        await node.start()
        numbers.append(node.parts.get(KernelPart).context.node)
        await node.stop()
    assert numbers[0] == numbers[1] == int((tmp_path / "data/node_number").read_text())
    (tmp_path / "data/node_number").write_text("nonsense")
    config = load_config(None, {}, {"node.data_dir": str(tmp_path / "data"), "node.number": "7"})
    node = Node(config)
    assert config.node.number == 7
    await named(node, "data_dir").start()
    await named(node, "data_dir").stop()
    assert (tmp_path / "data/node_number").read_text() == "nonsense"


async def test_the_log_names_the_parts_that_cannot_do_their_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(config_of(tmp_path))
    await node.start()
    assert node.parts.health() == {}
    await node.stop()
    for current in (tmp_path / "data").rglob("*/messages/CURRENT"):
        current.write_text("MANIFEST-nonsense\n")
    node = Node(config_of(tmp_path))
    await node.start()
    assert list(node.parts.health()) == ["databases"]
    with caplog.at_level(logging.INFO):
        node.log_statistics()
    assert 'parts that cannot do their work {"databases": "messages: ' in "\n".join(caplog.messages)
    await node.stop()
    assert node.parts.health() == {}

"""Callbacks in a real node: what the page about hook points shows, and what becomes of callbacks that fail."""

import asyncio
import logging
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from heliograph.config.loading import load_config
from heliograph.node import Node
from heliograph.node.reports import HookFailureLog
from support.listening import CONNACK, CONNECT

HOOKS = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text(encoding="utf-8")
SETTINGS = "listeners.tcp.default.bind = 0\ndurable_storage { messages.topics = [], flight.enable = false }\n"


def fail(*_told: object) -> None:
    """A callback with a fault."""
    raise RuntimeError("not today")


@pytest.mark.slow
@pytest.mark.service
def test_the_program_of_the_page_starts_a_node(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", HOOKS, re.DOTALL)
    (program,) = re.findall(r"```py\n(.*?)```", HOOKS, re.DOTALL)
    (tmp_path / "heliograph.conf").write_text(SETTINGS)
    (tmp_path / "program.py").write_text(f"{example}\n\n{program}")
    # Background jobs of a shell ignore Ctrl-C, and so would what a test starts there.
    command = ["env", "--default-signal=INT", sys.executable, "program.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = re.search(r"tcp://0\.0\.0\.0:(\d+)", process.stdout.readline())
        try:
            assert port is not None
            with socket.create_connection(("127.0.0.1", int(port[1])), timeout=10) as client:
                client.sendall(CONNECT)
                assert client.recv(100) == CONNACK
        finally:
            process.send_signal(signal.SIGINT)


@pytest.mark.service
def test_failures_of_callbacks_are_counted_by_hook_point(tmp_path: Path) -> None:
    async def serve() -> dict[str, float]:
        node = Node(load_config(file, {}, {"node.data_dir": str(tmp_path / "data")}))
        node.broker.hooks.point("client.connected").add(fail)
        await node.start()
        port = int(node.ready_line().rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(CONNECT)
        assert await reader.readexactly(len(CONNACK)) == CONNACK
        writer.close()
        await writer.wait_closed()
        await node.stop()
        return node.statistics()

    file = tmp_path / "node.conf"
    file.write_text(SETTINGS)
    numbers = asyncio.run(serve())
    assert numbers["hooks.failed.client.connected"] == 1
    assert numbers["hooks.failed.message.publish"] == 0


def test_a_flood_of_failures_is_a_few_lines_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    report = HookFailureLog()
    with caplog.at_level(logging.ERROR):
        for _ in range(10_000):
            report("message.publish", RuntimeError("not today"))
    assert 1 <= len(caplog.records) < 100

"""What a node says of itself when it starts and stops."""

import asyncio
import logging
import re
from pathlib import Path

import pytest

from heliograph.broker import hooks
from heliograph.config.loading import load_config
from heliograph.node import Node

LOUD = "EVERY CLIENT THAT REACHES"


async def lines_of(
    settings: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, guarded: bool = False
) -> list[str]:
    file = tmp_path / "node.conf"
    file.write_text("durable_storage.flight.enable = false\n" + settings)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        node = Node(load_config(file, {}, {"node.data_dir": str(tmp_path / "data")}))
        if guarded:
            node.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(lambda *asked: hooks.OK)
        await node.start()
        await node.stop()
    return [record.getMessage() for record in caplog.records if record.name == "heliograph.node"]


def test_a_start_and_a_stop_say_what_they_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    begin, listener, parts, stops, stopped = asyncio.run(
        lines_of('listeners.tcp.default.bind = "127.0.0.1:0"', tmp_path, caplog)
    )
    assert begin.startswith("heliograph ")
    assert f"data directory {tmp_path / 'data'}" in begin
    assert parts == "ready with messages in messages; 0 sessions known so far; 0 retained messages on the disk"
    assert listener.startswith("listener tcp:default listens on tcp://127.0.0.1:")
    assert stops == "stopping: no connection is accepted any more; clients to disconnect: 0"
    assert re.fullmatch(r"stopped after .* s: what was acknowledged is on the disk", stopped)


def test_a_listener_that_lets_everybody_in_is_told_loudly(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    open_one = 'listeners.tcp.default.bind = "0.0.0.0:0"'
    told = asyncio.run(lines_of(open_one, tmp_path, caplog))
    (loud,) = (line for line in told if LOUD in line)
    assert "tcp:default (tcp://0.0.0.0:" in loud
    assert not [line for line in asyncio.run(lines_of(open_one, tmp_path, caplog, guarded=True)) if LOUD in line]
    switched_off = open_one + '\nlisteners.tcp.default.enable_authn = "false"'
    told = asyncio.run(lines_of(switched_off, tmp_path, caplog, guarded=True))
    assert [line for line in told if LOUD in line]

"""The file of API keys is read again where it may be another one since."""

import asyncio
import os
from pathlib import Path

from heliograph.node.people import PeoplePart
from support.running import RunningNode
from support.waiting import until

SETTINGS = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage.messages.topics = []
"""


async def test_a_change_while_the_file_is_read_has_it_read_once_more(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    os.mkfifo(file)  # who reads it waits for what is written
    named = f'api_key.bootstrap_file = "{file}"\n'
    async with RunningNode(tmp_path, SETTINGS) as node:
        people = node.node.parts.get(PeoplePart).people
        assert await node.change(named)
        with await asyncio.to_thread(file.open, "w") as before:  # it is open for reading, too
            file.unlink()
            file.write_text("k2:secret\n")
            assert await node.change(named)
            before.write("k1:secret\n")
        await until(lambda: {key.api_key for _, key in people.api_keys()} == {"k1", "k2"})

"""Where messages cannot be read at a start, sessions wait: they would count as having everything."""

import asyncio
from pathlib import Path

import aiomqtt
import pytest

from support.process import NodeProcess

pytestmark = [pytest.mark.service, pytest.mark.slow]

_WAIT_S = 30


def client(port: int, name: str, *, durable: bool) -> aiomqtt.Client:
    return aiomqtt.Client("127.0.0.1", port, identifier=name, clean_session=not durable)


async def test_what_was_missed_comes_when_messages_can_be_read_again(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        async with client(node.port, "sub", durable=True) as sub:
            await sub.subscribe("t/#", qos=1)
        async with client(node.port, "pub", durable=False) as pub:
            for number in range(3):
                await pub.publish("t/x", str(number), qos=1)
        node.stop()
        current = node.data_dir / "storage" / "messages" / "CURRENT"
        kept = current.read_text()
        current.write_text("no manifest\n")
        node.start()
        with pytest.raises(aiomqtt.MqttError):
            async with client(node.port, "sub", durable=True):
                pass
        async with client(node.port, "other", durable=False):
            pass  # a session in memory needs nothing of that
        current.write_text(kept)
        async with asyncio.timeout(_WAIT_S):
            assert await heard(node.port) == [b"0", b"1", b"2"]
        node.stop()


async def heard(port: int) -> list[object]:
    """The three messages, as soon as the client is let in, which it asks for again and again as clients do."""
    while True:
        try:
            async with client(port, "sub", durable=True) as sub:
                found: list[object] = []
                async for message in sub.messages:
                    found.append(message.payload)
                    if len(found) == 3:
                        return found
        except aiomqtt.MqttError:
            continue

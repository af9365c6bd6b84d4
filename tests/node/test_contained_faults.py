"""A fault in a real node: who caused it is cut, everybody else is served, and the log has it once."""

import asyncio
import logging
from pathlib import Path

import pytest

from heliograph.broker.message import Message
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.config.loading import load_config
from heliograph.node import Node
from heliograph.node.reports import FaultLog
from support.listening import CONNACK, CONNECT
from support.packets import publish

SETTINGS = "listeners.tcp.default.bind = 0\ndurable_storage { messages.topics = [], flight.enable = false }\n"


class Faulty(Subscriber):
    """A part of the broker that takes no message without raising."""

    def deliver(self, message: Message, subscription: Subscription) -> None:
        raise RuntimeError("not today")


@pytest.mark.service
def test_publishers_do_not_notice_a_subscriber_that_raises(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def serve() -> dict[str, float]:
        node = Node(load_config(file, {}, {"node.data_dir": str(tmp_path / "data")}))
        await node.start()
        node.broker.subscribe(Subscription(Faulty("faulty"), "#", 1, False, False, 0, 0))
        port = int(node.ready_line().rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(CONNECT)
        assert await reader.readexactly(len(CONNACK)) == CONNACK
        for number in (1, 2, 3):
            writer.write(publish("t", b"", 1, number, version=4).data)
            assert await reader.readexactly(4) == bytes((0x40, 2, 0, number))
        writer.close()
        await writer.wait_closed()
        await node.stop()
        return node.statistics()

    file = tmp_path / "node.conf"
    file.write_text(SETTINGS)
    with caplog.at_level(logging.ERROR):
        numbers = asyncio.run(serve())
    assert numbers["faults.contained.deliveries"] == 3
    (record,) = [record for record in caplog.records if "was contained" in record.message]
    assert record.exc_info is not None
    assert "not today" in str(record.exc_info[1])


def test_each_cause_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    log = FaultLog()
    with caplog.at_level(logging.ERROR):
        for _ in range(1000):
            for fault in (ValueError, KeyError):
                log("flush", fault("not today"))
            log("commits", ValueError("not today"))
    assert len(caplog.records) == 3

"""Delayed messages and a broker that ends before they are due: all that were acknowledged arrive, in order."""

from pathlib import Path

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from support.process import NodeProcess
from support.watcher import Watcher

pytestmark = [pytest.mark.service, pytest.mark.slow]

COUNT = 200


def publish_delayed(port: int, delay_s: int) -> None:
    """Publish messages at QoS 1 and 2 in turn, and wait until all are acknowledged."""
    client = Client(CallbackAPIVersion.VERSION2, client_id="publisher")
    client.max_inflight_messages_set(1)
    client.connect("127.0.0.1", port)
    client.loop_start()
    infos = [client.publish(f"$delayed/{delay_s}/t", b"%d" % number, qos=1 + number % 2) for number in range(COUNT)]
    for info in infos:
        info.wait_for_publish(30)
        assert info.is_published()
    client.disconnect()
    client.loop_stop()


@pytest.mark.parametrize("ends", ["killed", "stopped"])
def test_every_delayed_message_that_was_acknowledged_arrives_after_a_restart(tmp_path: Path, ends: str) -> None:
    with NodeProcess(tmp_path) as node:
        watcher = Watcher(node.port, "t", 2, COUNT)
        try:
            publish_delayed(node.port, 3)
            if ends == "killed":
                node.kill()
            else:
                assert node.stop() == 0
            node.start()
            assert watcher.has_all.wait(60), len(watcher.heard)
            for qos in (1, 2):  # paho hands out what came at QoS 2 when its handshake ends
                mine = [number for _, payload in watcher.heard if (number := int(payload)) % 2 == qos - 1]
                if qos == 1:  # one that came before the end may come again
                    mine = list(dict.fromkeys(mine))
                assert mine == list(range(qos - 1, COUNT, 2))
        finally:
            watcher.stop()

"""A broker as its own process, with schemas and a rule that decodes by one."""

import json
from pathlib import Path

import pytest

from support.process import NodeProcess

SETTINGS = """
schema_registry {
  schemas.reading {
    type = avro
    source = \"\"\"{"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}\"\"\"
  }
  sparkplug_b.enable_alias_mapping = true
}
rule_engine.rules {
  avro {
    sql = \"\"\"SELECT schema_decode('reading', payload) AS r, r.n AS n FROM "avro/#" \"\"\"
    actions = [{ function = republish, args { topic = "out", payload = "${n}" } }]
  }
}
"""


@pytest.mark.service
def test_a_rule_decodes_what_clients_publish(tmp_path: Path) -> None:
    paho = pytest.importorskip("paho.mqtt.client", reason="the client library paho-mqtt is not installed")
    node = NodeProcess(tmp_path, SETTINGS).start()
    try:
        client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        received: list[bytes] = []
        client.on_message = lambda _client, _data, message: received.append(message.payload)
        client.on_connect = lambda *_: client.subscribe("out")
        client.on_subscribe = lambda *_: client.publish("avro/1", b"\x0e", 1)
        client.connect("127.0.0.1", node.port)
        while not received:
            assert client.loop(1.0) == paho.MQTT_ERR_SUCCESS
        client.disconnect()
        assert [json.loads(payload) for payload in received] == [7]
    finally:
        node.stop()

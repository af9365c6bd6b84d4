"""Run as a program: make the data directory and the backup that every later release must read, with this release.

`PYTHONPATH=src:tests python tests/upgrade/generate.py` writes `tests/upgrade/VERSION.tar.xz`. It is run once for each
release and never again: what it made is part of the tests, and `test_upgrade.py` starts a node on it.
"""

import tarfile
import tempfile
from pathlib import Path

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from heliograph import __version__
from heliograph.cli.main import main as heliograph
from heliograph.storage.columnar.secondary import reading
from support.process import NodeProcess
from support.waiting import wait_until

OFFLOADING = """
durable_storage.messages { retention = 36500d, generation_interval = 1s }
durable_storage.messages.offload { enable = true, target = bucket, after = 0s }
"""
BACKEND = "backend"
TOPICS = [f"plant/{number}" for number in range(20)]
_NOT_NEEDED = ("LOG", "LOCK", "node.lock", "control.sock", "flight_token")


def connected(node: NodeProcess, clientid: str) -> Client:
    """A client with a durable session; the caller ends it."""
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has no types there
    properties.SessionExpiryInterval = 0xFFFF_FFFF
    client = Client(CallbackAPIVersion.VERSION2, clientid, protocol=MQTTProtocolVersion.MQTTv5)
    client.connect("127.0.0.1", node.port, properties=properties, clean_start=False)
    client.loop_start()
    return client


def end(client: Client) -> None:
    client.disconnect()
    client.loop_stop()


def _fill(node: NodeProcess) -> None:
    backend, answers = connected(node, BACKEND), set[int]()
    backend.on_subscribe = lambda client, data, mid, *rest: answers.add(mid)
    _, mid = backend.subscribe("plant/#", qos=1)
    wait_until(lambda: mid in answers, "the subscription is there")
    end(backend)
    device = connected(node, "device")
    for topic in TOPICS:
        device.publish(topic, topic.encode(), qos=1, retain=True).wait_for_publish(30)
    device.publish("$delayed/40000000/later", b"later", qos=1).wait_for_publish(30)
    end(device)
    wait_until(lambda: _has_offloaded(node), "a generation is offloaded")
    if heliograph(["ctl", "conf", "set", "mqtt.max_inflight=7", "--data-dir", str(node.data_dir)]):
        raise SystemExit("the configuration was not changed")


def _has_offloaded(node: NodeProcess) -> bool:
    with reading(node.data_dir, "messages") as (_, catalog):
        return any(one.info.layout_version == 3 for one in catalog.generations()) and any(
            (node.data_dir / "bucket").rglob("*.parquet")
        )


def _is_needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = entry.name.rpartition("/")[2]
    return None if name.startswith(_NOT_NEEDED) or name == ".readers" else entry


def main() -> None:
    """Make the directory of this release."""
    target = Path(__file__).parent / f"{__version__}.tar.xz"
    if target.exists():
        raise SystemExit(f"{target} exists; what a release wrote is never made again")
    with tempfile.TemporaryDirectory() as scratch:
        with NodeProcess(Path(scratch), OFFLOADING, is_copy=False) as node:
            _fill(node)
            place = Path(scratch) / "place"
            if heliograph(["ctl", "data", "backup", str(place), "--data-dir", str(node.data_dir)]):
                raise SystemExit("no backup was made")
            node.stop()
        with tarfile.open(target, "w:xz", preset=9) as archive:
            archive.add(node.data_dir, "data", filter=_is_needed)
            archive.add(place, "place")


if __name__ == "__main__":
    main()

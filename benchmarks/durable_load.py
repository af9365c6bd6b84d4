"""What the benchmarks of durability are made with: brokers that share a folder, many sessions, streams on many topics.

`heliograph bench` publishes to few topics as fast as it goes; the clients here publish to very many, and make and read
thousands of sessions. Nothing is measured here.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from benchmarks.brokers import Broker, Kind, pinned
from benchmarks.load import Generator
from benchmarks.peers import Peer, PeerError

from heliograph_bench import packets

EXPIRY_S: Final = 86_400
_AT_ONCE: Final = 500
_PUBLISHERS: Final = 8
_CHUNK: Final = 500  # messages of a publisher under way: two of these
_PUBACK_BYTES: Final = 4
_PAYLOAD: Final = bytes(range(64))

Published = tuple[str, bytes]


@dataclass(frozen=True)
class Stand:
    """What a case is given.

    Args:
        folder: Where brokers keep their files; on a disk.
        generator: What makes the load of few topics.
        broker_core: The core that brokers run on.
        long: Whether counts are those of the targets; a tenth of them otherwise.
        runs: How often a rate is measured.
        divisor: What all counts are divided by, for trying the programs out.
        say: Where progress goes.
    """

    folder: Path
    generator: Generator
    broker_core: int | None
    long: bool
    runs: int
    divisor: int
    say: Callable[[str], None]

    def broker(self, kind: Kind, name: str) -> Broker:
        """A broker that goes on with what one of the same name left."""
        return Broker(kind, self.folder / name, self.broker_core)

    def count(self, full: int) -> int:
        """How many of what should be so many."""
        return max(full // self.divisor, 1)

    def scaled(self, full: int) -> int:
        """The same, of what takes too long for every day."""
        return self.count(full if self.long else full // 10)

    def bench(self, *words: object) -> dict[str, Any]:
        """The result of a run of `heliograph bench`.

        Raises:
            PeerError: It failed.
        """
        return self.finish(self._call(*words))

    def start(self, *words: object) -> subprocess.Popen[str]:
        """The same, not waited for; its clients are connected and have subscribed."""
        process = self._call(*words)
        assert process.stderr is not None
        process.stderr.readline()  # the first line of progress
        return process

    def finish(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """The result of what `start` started."""
        output, said = process.communicate()
        if process.returncode:
            raise PeerError(f"heliograph bench failed ({process.returncode}): {said.strip()[-1000:]} {output.strip()}")
        result: dict[str, Any] = json.loads(output)
        return result

    def _call(self, *words: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "heliograph.cli.main", "bench", *map(str, words), "--json"]
        return subprocess.Popen(
            pinned(command, self.generator.core), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )


def plain(topics: Sequence[str], count: int) -> Iterable[Published]:
    """So many messages of 64 bytes, to one topic after the other."""
    for number in range(count):
        yield topics[number % len(topics)], _PAYLOAD


def telemetry(topics: Sequence[str], count: int) -> Iterable[Published]:
    """JSON telemetry of some 120 bytes: slowly moving values with noise, each device on its topic."""
    numbers = random.Random(1)
    noise = numbers.gauss
    state = [(numbers.uniform(10, 30), numbers.uniform(30, 90), numbers.uniform(980, 1030)) for _ in topics]
    for number in range(count):
        device = numbers.randrange(len(topics))
        temperature, humidity, pressure = state[device]
        state[device] = values = temperature + noise(0, 0.1), humidity + noise(0, 0.3), pressure + noise(0, 0.05)
        yield (
            topics[device],
            b'{"device": "sensor-%06d", "ts": %d, "temperature": %.2f, "humidity": %.2f, "pressure": %.2f, "mv": %d}'
            % (device, 1_700_000_000_000 + 13 * number, *values, numbers.randint(3300, 4200)),
        )


def publish_all(port: int, messages: Iterable[Published]) -> int:
    """Publish at QoS 1 from a few connections and wait for the acknowledgements; bytes of topics and payloads."""
    peers = [Peer(port, f"stream-{number}", version=packets.V3_1_1) for number in range(_PUBLISHERS)]
    for peer in peers:
        peer.connected()
    under_way = [0] * len(peers)
    total = 0
    for turn, chunk in enumerate(_chunks(messages)):
        rounds, number = divmod(turn, len(peers))
        peer = peers[number]
        wire, size = _encoded(chunk, 1 + rounds % 2 * _CHUNK)
        total += size
        if under_way[number] > _CHUNK:
            peer.receive(_PUBACK_BYTES * _CHUNK)
            under_way[number] -= _CHUNK
        peer.send(wire)
        under_way[number] += len(chunk)
    for peer, left in zip(peers, under_way, strict=True):
        peer.receive(_PUBACK_BYTES * left)
        peer.close()
    return total


def make_sessions(port: int, names: Sequence[str], topic_filter: Callable[[int], str], qos: int = 1) -> None:
    """Durable sessions with one subscription each, whose clients then are away."""
    for first in range(0, len(names), _AT_ONCE):
        some = [Peer(port, name, EXPIRY_S) for name in names[first : first + _AT_ONCE]]
        for number, peer in enumerate(some, first):
            peer.connected()
            peer.ask_for([topic_filter(number)], qos)
        for peer in some:
            peer.granted(qos)
            peer.send(packets.DISCONNECT_PACKET)
            peer.close()


def read_sessions(port: int, names: Sequence[str], expected: Sequence[int]) -> int:
    """Resume sessions all at once and take what each has missed; bytes of topics and payloads.

    Raises:
        PeerError: One was not resumed.
    """
    peers = [Peer(port, name, EXPIRY_S) for name in names]
    total = 0
    for peer, count in zip(peers, expected, strict=True):
        peer.connected()
        if not peer.resumed:
            raise PeerError(f"the session of {peer.clientid} is gone")
        for _ in range(count):
            total += _take(peer)
    for peer in peers:
        peer.close()
    return total


def _take(peer: Peer) -> int:
    """Acknowledge the next message; the bytes of its topic and payload."""
    header, body = peer.next_packet()
    if header & 0xF6 != packets.PUBLISH | 2:
        raise PeerError(f"{peer.clientid} got packet 0x{header:02x} in place of a message of QoS 1")
    topic_bytes = int.from_bytes(body[:2], "big")
    peer.send(packets.packet(packets.PUBACK, body[2 + topic_bytes : 4 + topic_bytes]))
    return len(body) - 2 - 2 - 1 - body[4 + topic_bytes]  # lengths, identifier, properties


def evict(folder: Path) -> None:
    """Have the system forget what it holds of a folder's files in memory."""
    for file in files(folder):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def disk_bytes(folder: Path) -> int:
    """What the files of a folder take on the disk."""
    return sum(file.stat().st_blocks * 512 for file in files(folder))


def files(folder: Path) -> list[Path]:
    """All files below a folder."""
    return [file for file in folder.rglob("*") if file.is_file()]


def _chunks(messages: Iterable[Published]) -> Iterator[list[Published]]:
    rest = iter(messages)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


def _encoded(chunk: Sequence[Published], first_id: int) -> tuple[bytes, int]:
    """PUBLISH packets of QoS 1 of MQTT 3.1.1, and the bytes of their topics and payloads."""
    wire = []
    size = 0
    for packet_id, (topic, payload) in enumerate(chunk, first_id):
        name = topic.encode()
        size += len(name) + len(payload)
        body = len(name).to_bytes(2, "big") + name + packet_id.to_bytes(2, "big") + payload
        wire.append(packets.packet(packets.PUBLISH | 2, body))
    return b"".join(wire), size

"""What a bridge carries and how late: Heliograph's sources and actions beside mosquitto's `connection`, QoS 1.

Two brokers of a kind store what they get, and one of them is connected to the other: Heliograph's by an action for what
goes out and a source for what comes in, mosquitto's by a bridge, which saves once a second and acknowledges without
waiting for that. For each direction in turn:

- `rate`: many messages at once, a thousand of them under way to the first broker; from the first publish until the
  last one is at a subscriber of the second.
- `latency`: 500 messages a second; from the publish to the arrival.

    python benchmarks/bridge.py [--messages N] [--seconds S] [--no-peer]
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.brokers import STORING, TIMED_MOSQUITTO, Broker, BrokerError, mosquitto_program, tree_cpu_seconds
from benchmarks.findings import Finding, add_report_options, machine, report
from benchmarks.peers import PeerError, Publisher, Subscriber

OUTPUT: Final = Path("bench-output")
_RATE_MIN: Final = 0.8
_LATENCY_MAX: Final = 0.5
_PER_S: Final = 500
_PAYLOAD: Final = b"x" * 100
_STAMP_BYTES: Final = 20
_CONNECTED_S: Final = 60.0
_ARRIVED_S: Final = 180.0

_MOSQUITTO: Final = """
connection far
address 127.0.0.1:{far}
bridge_protocol_version mqttv50
cleansession false
topic out/# out 1
topic in/# in 1
"""
_HELIOGRAPH: Final = """
connectors.mqtt.far {{ server = "127.0.0.1:{far}", max_inflight = 1000 }}
actions.mqtt.out {{
  connector = far, resource_opts.inflight_window = 1000
  parameters {{ topic = "${{topic}}", payload = "${{payload}}", qos = 1 }}
}}
rule_engine.rules.out {{ sql = "SELECT topic, payload FROM \\"out/#\\"", actions = ["mqtt:out"] }}
sources.mqtt.in {{ connector = far, parameters {{ topic = "in/#", qos = 1 }}, local.topic = "${{topic}}" }}
"""
_KINDS: Final = {"heliograph": (STORING, _HELIOGRAPH), "mosquitto": (TIMED_MOSQUITTO, _MOSQUITTO)}


def measure(name: str, folder: Path, messages: int, seconds: float) -> dict[str, float]:
    """The figures of a pair of brokers of one kind."""
    kind, settings = _KINDS[name]
    with (
        Broker(kind, folder / f"{name}-far", None) as far,
        Broker(replace(kind, settings=kind.settings + settings.format(far=far.port)), folder / name, None) as near,
    ):
        figures: dict[str, float] = {}
        for direction, begin, end in (("out", near, far), ("in", far, near)):
            before = sum(tree_cpu_seconds(broker.pid) for broker in (near, far))
            figures |= asyncio.run(_measure(direction, begin.port, end.port, messages, seconds))
            figures[f"{direction} CPU"] = sum(tree_cpu_seconds(broker.pid) for broker in (near, far)) - before
        return figures


async def _measure(direction: str, begin: int, end: int, messages: int, seconds: float) -> dict[str, float]:
    topic = f"{direction}/load".encode()
    async with Publisher(begin, b"bench-publisher") as publisher, Subscriber(end, b"bench-reader") as reader:
        await reader.subscribe(topic)
        await _connected(publisher, reader, topic)
        await asyncio.sleep(1.0)  # so that what was sent until it was connected is over
        reader.arrived.clear()
        began = time.perf_counter()
        for first in range(0, messages, 1000):
            await publisher.publish(topic, [_PAYLOAD] * min(1000, messages - first))
        await reader.has(messages, _ARRIVED_S)
        rate = messages / (time.perf_counter() - began)
        reader.arrived.clear()
        count = int(_PER_S * seconds)
        began = time.perf_counter()
        sent = 0
        while sent < count:
            due = min(count, int((time.perf_counter() - began) * _PER_S) + 1)
            for _ in range(due - sent):
                publisher.send(topic, b"%020d" % time.perf_counter_ns() + _PAYLOAD)
            sent = max(sent, due)
            await asyncio.sleep(0.001)
        await asyncio.gather(publisher.acknowledged(count), reader.has(count, _ARRIVED_S))
    late = sorted(at * 1e3 - int(payload[:_STAMP_BYTES]) / 1e6 for at, payload in reader.arrived)
    return {f"{direction} rate": rate, f"{direction} median": late[len(late) // 2],
            f"{direction} p99": late[len(late) * 99 // 100]}  # fmt: skip


async def _connected(publisher: Publisher, reader: Subscriber, topic: bytes) -> None:
    """Wait until something comes through."""
    end = time.monotonic() + _CONNECTED_S
    while not reader.arrived:
        await publisher.publish(topic, [_PAYLOAD])
        await asyncio.sleep(0.1)
        if time.monotonic() > end:
            raise BrokerError(f"nothing comes through on {topic.decode()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    args = _options(argv)
    OUTPUT.mkdir(exist_ok=True)
    figures: dict[str, dict[str, float]] = {}
    notes: list[str] = []
    names = [name for name in _KINDS if name != "mosquitto" or (mosquitto_program() and not args.no_peer)]
    with tempfile.TemporaryDirectory(dir=OUTPUT) as folder:
        for name in names:
            try:
                figures[name] = measure(name, Path(folder), args.messages, args.seconds)
            except (BrokerError, PeerError, OSError) as error:
                notes.append(f"FAILED: {name}: {error}")
    conditions = f"{machine()}, {args.messages:,} messages, {_PER_S} a second for {args.seconds:g} s"
    return report(args, "bridge", "mosquitto", _findings(figures), conditions, notes)


def _findings(figures: dict[str, dict[str, float]]) -> list[Finding]:
    ours, theirs = figures.get("heliograph", {}), figures.get("mosquitto", {})
    rows = [
        (f"{word}, {title}", f"{direction} {key}", unit, share, at_most)
        for direction, word in (("out", "to the other broker"), ("in", "from the other broker"))
        for title, key, unit, share, at_most in (
            ("messages a second", "rate", "", _RATE_MIN, False),
            ("latency, median", "median", " ms", None, True),
            ("latency, p99", "p99", " ms", _LATENCY_MAX, True),
            ("CPU time of all processes", "CPU", " s", None, True),
        )
    ]
    return [
        Finding(
            title, ours[key], unit, None if share is None or not theirs else share * theirs[key], at_most,
            theirs.get(key),
        )
        for title, key, unit, share, at_most in rows
        if key in ours
    ]  # fmt: skip


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000, help="for the rate (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="for latencies (default: %(default)s)")
    parser.add_argument("--no-peer", action="store_true", help="without mosquitto")
    add_report_options(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

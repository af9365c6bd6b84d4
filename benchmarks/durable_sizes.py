"""What durability costs where there is much of it: replays, sessions that are away, restarts, bytes on the disk.

Cases for durable.py; each yields its findings.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from benchmarks.brokers import DURABLE, STORING, Kind
from benchmarks.durable_load import (
    EXPIRY_S,
    Stand,
    disk_bytes,
    evict,
    make_sessions,
    plain,
    publish_all,
    read_sessions,
    telemetry,
)
from benchmarks.findings import Finding

_MILLION: Final = 1_000_000
_MIB: Final = 1024 * 1024
_AWAY: Final = 10_000
_TOPICS: Final = 100_000
_READERS: Final = 1000
_SESSIONS: Final = 100_000
_DEVICES: Final = 10_000
_BACKLOG: Final = "backlog"
_MESSAGES: Final = "storage/messages"


def replay(stand: Stand) -> Iterator[Finding]:
    """A backlog of a million messages, to the one subscriber that missed them."""
    count = stand.count(_MILLION)
    with stand.broker(DURABLE, "replay") as broker:
        make_sessions(broker.port, [f"{_BACKLOG}-sub-1"], lambda _: "bench/#")
        publishers = 10
        load = ["--clients", publishers, "--qos", 1, "--window", 500, "--mqtt", "3.1.1"]
        stand.bench("pub", "--port", broker.port, *load, "--count", count // publishers)
        resume = ["--clientid-prefix", _BACKLOG, "--session-expiry", EXPIRY_S, "--topic", "bench/#", "--qos", 1]
        missed = count // publishers * publishers
        result = stand.bench("sub", "--port", broker.port, *resume, "--count", missed, "--duration", 120)
        exact = float(result["received"] - missed)
    yield Finding(f"replay of {missed:,} messages to one subscriber", result["received_per_s"], "/s", 150_000, False)
    yield Finding("of these more (or, below 0, fewer) than were missed", exact, "", 0)


def sparse(stand: Stand) -> Iterator[Finding]:
    """A thousand sessions with a topic each out of very many that share streams, read from a cold disk."""
    topics = [f"plant/line-{number % 100}/device-{number}/state" for number in range(stand.count(_TOPICS))]
    wanted = random.Random(1).sample(range(len(topics)), min(stand.count(_READERS), len(topics)))
    names = [f"reader-{number}" for number in wanted]
    expected: Counter[str] = Counter()
    messages = list(telemetry(topics, stand.count(_MILLION)))
    for topic, _ in messages:
        expected[topic] += 1
    with stand.broker(DURABLE, "sparse") as broker:
        make_sessions(broker.port, names, lambda number: topics[wanted[number]])
        publish_all(broker.port, messages)
        folder = broker.data
    evict(folder)
    with stand.broker(DURABLE, "sparse") as broker:
        before, began = broker.read_bytes(), time.perf_counter()
        delivered = read_sessions(broker.port, names, [expected[topics[number]] for number in wanted])
        seconds, read = time.perf_counter() - began, broker.read_bytes() - before
    title = f"{len(names):,} sessions with one of {len(topics):,} topics each: bytes read from disk by bytes delivered"
    yield Finding(title, read / delivered, "x", 20)
    yield Finding("their replay, all at once", seconds, " s")
    yield Finding("all that is stored, by bytes delivered", disk_bytes(folder / _MESSAGES) / delivered, "x")


def away(stand: Stand) -> Iterator[Finding]:
    """Ten thousand durable sessions whose clients are away while messages for them are published."""
    count, sessions = stand.scaled(10 * _MILLION), stand.count(_AWAY)
    topics = [f"away/{number}/state" for number in range(sessions)]
    rates, growths = {}, {}
    for present in (True, False):
        with stand.broker(DURABLE, f"away-{present}") as broker:
            if present:
                make_sessions(broker.port, [f"away-{number}" for number in range(sessions)], lambda n: f"away/{n}/#")
            before, began = broker.memory_bytes(), time.perf_counter()
            publish_all(broker.port, plain(topics, count))
            rates[present] = count / (time.perf_counter() - began)
            growths[present] = (broker.memory_bytes() - before) / _MIB
    title = f"{sessions:,} sessions away, {count:,} messages to them: growth of memory; beside: without sessions"
    yield Finding(title, growths[True], " MiB", 64, beside=growths[False])
    yield Finding("published to them meanwhile; beside: without sessions", rates[True], "/s", beside=rates[False])
    with stand.broker(DURABLE, "away-one-topic") as broker:
        make_sessions(broker.port, [f"away-{number}" for number in range(sessions)], lambda _: "away/all")
        few = stand.count(10_000)
        before, began = broker.memory_bytes(), time.perf_counter()
        publish_all(broker.port, plain(["away/all"], few))
        rate, growth = few / (time.perf_counter() - began), broker.memory_bytes() - before
    yield Finding(f"one topic that all {sessions:,} have subscribed to: published", rate, "/s")
    yield Finding(f"growth of memory in {few:,} of them", growth / _MIB, " MiB", 64)


def restart(stand: Stand) -> Iterator[Finding]:
    """The start of a broker that has many sessions and messages, after a polite end and after a kill."""
    count, sessions = stand.scaled(10 * _MILLION), stand.scaled(_SESSIONS)
    topics = [f"site/{number}/state" for number in range(sessions)]
    began = time.perf_counter()
    with stand.broker(DURABLE, "restart") as broker:
        make_sessions(broker.port, [f"session-{number}" for number in range(sessions)], lambda n: f"site/{n}/#")
        rate = sessions / (time.perf_counter() - began)
        publish_all(broker.port, plain(topics, count))
        broker.kill()
    title = f"start with {sessions:,} durable sessions and {count:,} messages"
    with stand.broker(DURABLE, "restart") as broker:
        yield Finding(f"{title}, after kill -9", broker.ready_seconds, " s", 5)
        memory = broker.memory_bytes()
    with stand.broker(DURABLE, "restart") as broker:
        yield Finding(f"{title}, after a polite end", broker.ready_seconds, " s", 5)
        folder = broker.data
    evict(folder)
    with stand.broker(DURABLE, "restart") as broker:
        yield Finding("the same with a cold disk", broker.ready_seconds, " s")
        read_sessions(broker.port, ["session-0"], [-(-count // sessions)])
    yield Finding("sessions made, each with a subscription", rate, "/s")
    yield Finding("memory with all of them, after the start", memory / _MIB, " MiB")


def disk(stand: Stand) -> Iterator[Finding]:
    """Bytes on disk of JSON telemetry, of few devices and of many."""
    count = stand.count(_MILLION)
    for devices in (20, _DEVICES):
        topics = [f"factory/hall-{number % 7}/sensor-{number:06d}/telemetry" for number in range(devices)]
        kind: Kind = STORING
        with stand.broker(kind, f"disk-{devices}") as broker:
            size = publish_all(broker.port, telemetry(topics, count))
            folder = broker.data
        title = f"on disk, of each byte of topic and payload: JSON telemetry of {devices:,} devices"
        yield Finding(title, disk_bytes(folder / _MESSAGES) / size, " B", 0.7)

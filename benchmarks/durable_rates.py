"""How fast durability is: stored ingest, beside peers that store too, and delivery to durable sessions at the head.

Cases for durable.py; each yields its findings.
"""

import statistics
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks import brokers
from benchmarks.brokers import DURABLE, NATS, SAVING_MOSQUITTO, TIMED_MOSQUITTO, Broker, Kind
from benchmarks.durable_load import EXPIRY_S, Stand
from benchmarks.findings import Finding
from benchmarks.load import Load, Measured
from benchmarks.peers import Peer, PeerError

from heliograph_bench import packets

_PUBLISHERS: Final = 50
_WINDOW: Final = 256
_TARGETS: Final = ((64, 200_000), (256, 150_000), (1024, 80_000))
_UNSYNCED: Final = Kind(
    "heliograph, no fsync",
    storing=True,
    settings=f"{DURABLE.settings}durable_storage {{ messages.fsync = false, sessions.fsync = false }}\n",
)
_UNSYNCED_TARGET: Final = 300_000
_ACK_LIMIT_MS: Final = 15.0
_RATIO: Final = 5.0
_LOW_RATE: Final = 500.0
_ADDED_LIMIT_MS: Final = 5.0
_MEMBERS: Final = 4
_GROUP_PUBLISHERS: Final = 20


def ingest(stand: Stand) -> Iterator[Finding]:
    """Stored QoS 1 from 50 publishers, as fast as it goes and at half the target."""
    for size, target in _TARGETS:
        load = Load("pub", _PUBLISHERS, 0, qos=1, window=_WINDOW, payload_bytes=size)
        half = Load("pub", _PUBLISHERS, 0, 1, 1000, size, rate=target / 2 / _PUBLISHERS, precise=False)
        fast = _runs(stand, DURABLE, f"ingest-{size}", load)
        calm = _runs(stand, DURABLE, f"calm-{size}", half)
        yield Finding(f"stored, QoS 1, {size:,} bytes", _rate(fast), "/s", target, at_most=False)
        kept = statistics.median(run.per_second for run in calm)
        name = f"acknowledgement at {kept:,.0f}/s"
        yield Finding(f"{name}: p99", _middle(run.p99_us for run in calm), " ms", _ACK_LIMIT_MS)
        yield Finding(f"{name}: median", _middle(run.p50_us for run in calm), " ms")
    load = Load("pub", _PUBLISHERS, 0, qos=1, window=_WINDOW)
    unsynced = _runs(stand, _UNSYNCED, "unsynced", load)
    yield Finding("stored without fsync, 64 bytes", _rate(unsynced), "/s", _UNSYNCED_TARGET, at_most=False)


def peers(stand: Stand) -> Iterator[Finding]:
    """The same with a subscriber that is away, without which others store nothing, and its session's QoS 1."""
    kinds = [DURABLE]
    kinds += [SAVING_MOSQUITTO, TIMED_MOSQUITTO] if brokers.mosquitto_program() else []
    kinds += [NATS] if brokers.nats_program() else []
    load = Load("pub", _PUBLISHERS, 0, qos=1, window=_WINDOW)
    found: dict[str, list[Measured]] = {}
    for number in range(stand.runs):
        for kind in kinds:
            with stand.broker(kind, f"peers-{kind.product}-{number}-{kinds.index(kind)}") as broker:
                _absent(broker, ["bench/#"])
                run = stand.generator.run(load, broker)
            stand.say(f"peers: {kind.name} {run.per_second:,.0f}/s, {run.broker_cpu:.0%} of a core")
            found.setdefault(kind.name, []).append(run)
    ours = _rate(found[DURABLE.name])
    for kind in kinds[1:]:
        title = f"stored for a subscriber that is away, QoS 1, 64 bytes; beside: {kind.name}"
        yield Finding(title, ours, "/s", beside=_rate(found[kind.name]))
    strict = [found[kind.name] for kind in (SAVING_MOSQUITTO, NATS) if kind.name in found]
    if strict:
        ratio = ours / max(map(_rate, strict))
        yield Finding("beside the better of those that store each change", ratio, "x", _RATIO, at_most=False)
        # What remains comparable on a machine that does other things too.
        per_cpu = _per_cpu(found[DURABLE.name]) / max(map(_per_cpu, strict))
        yield Finding("the same, by messages per second of the broker's processor time", per_cpu, "x")


def head(stand: Stand) -> Iterator[Finding]:
    """One to one at QoS 1 to a session that is connected and has everything, beside one in memory."""
    fast = {}
    calm = {}
    for name, expiry_s in (("durable", EXPIRY_S), ("memory", 0)):
        load = Load("pair", 1, 1, qos=1, window=1000, session_expiry_s=expiry_s)
        fast[name] = _runs(stand, DURABLE, f"head-{name}", load)
        slow = Load("pair", 1, 1, qos=1, window=1000, rate=_LOW_RATE, session_expiry_s=expiry_s)
        calm[name] = _runs(stand, DURABLE, f"low-{name}", slow)
    rate, memory = _rate(fast["durable"]), _rate(fast["memory"])
    yield Finding("to a durable session at the head, QoS 1", rate, "/s", 100_000, at_most=False, beside=memory)
    for name, percentile in (("median", "p50_us"), ("p99", "p99_us")):
        durable, plain = (_middle(getattr(run, percentile) for run in calm[kind]) for kind in ("durable", "memory"))
        title = f"its latency at {_LOW_RATE:g}/s: {name}"
        yield Finding(title, durable, " ms", plain + _ADDED_LIMIT_MS, beside=plain)


def shared(stand: Stand) -> Iterator[Finding]:
    """One group of four durable members, twenty publishers."""
    each = stand.count(50_000)
    with stand.broker(DURABLE, "shared") as broker:
        group = ["--clients", _MEMBERS, "--topic", "$share/bench/bench/#", "--session-expiry", EXPIRY_S]
        total = _GROUP_PUBLISHERS * each
        members = stand.start("sub", "--port", broker.port, *group, "--qos", 1, "--count", total, "--duration", 120)
        load = ["--clients", _GROUP_PUBLISHERS, "--qos", 1, "--window", 200, "--count", each, "--mqtt", "3.1.1"]
        stand.bench("pub", "--port", broker.port, *load)
        result = stand.finish(members)
    if result["received"] < total:
        raise PeerError(f"the group got {result['received']:,} of {total:,} messages")
    title = f"to a durable shared group of {_MEMBERS}, {_GROUP_PUBLISHERS} publishers, QoS 1"
    yield Finding(title, result["received_per_s"], "/s")
    yield Finding("delivered more than once meanwhile", float(result["received"] - total), "")


def _absent(broker: Broker, filters: Sequence[str]) -> None:
    """A session with a subscription, whose client has left."""
    peer = Peer(broker.port, "absent", EXPIRY_S, version=packets.V3_1_1)
    peer.connected()
    peer.subscribe(list(filters), 1)
    peer.send(packets.DISCONNECT_PACKET)
    peer.close()


def _runs(stand: Stand, kind: Kind, name: str, load: Load) -> list[Measured]:
    found = []
    for number in range(stand.runs):
        with stand.broker(kind, f"{name}-{number}") as broker:
            run = stand.generator.run(load, broker)
        stand.say(
            f"{name}: {run.per_second:,.0f}/s, broker {run.broker_cpu:.0%} of a core, load {run.load_cpu:.0%}, "
            f"p50 {run.p50_us:,} µs, p99 {run.p99_us:,} µs"
        )
        found.append(run)
    return found


def _rate(runs: Sequence[Measured]) -> float:
    return statistics.median(run.per_second for run in runs)


def _per_cpu(runs: Sequence[Measured]) -> float:
    return statistics.median(run.per_cpu_second for run in runs)


def _middle(microseconds: Iterator[int]) -> float:
    """Their median in milliseconds."""
    return statistics.median(microseconds) / 1000

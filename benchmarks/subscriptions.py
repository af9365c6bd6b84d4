"""What the routing table costs: memory and time of a million wildcard subscriptions, cold and warm publishes, sharing.

Run with no arguments for the canonical figures; each case has a process of its own, so that the memory of one is not
the memory of another. There is no network in it: messages go from `Broker.dispatch` to sessions that are attached to a
connection which throws its bytes away. Figures are per operation, in processor time, and contain the calls from
interpreted code, about 0.1 µs each.
"""

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.findings import Limit, checked, shown

from heliograph.broker.hooks import Hooks
from heliograph.broker.message import Message, make_message
from heliograph.broker.pubsub import Broker
from heliograph.broker.router import Router
from heliograph.broker.shared_options import STRATEGIES, SharedOptions
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.config.settings import DEFAULT_ZONE, Config
from heliograph.mqtt import packets as p
from heliograph.node.options import channel_options
from heliograph.session.mqtt_encoder import PACKET_BYTES_MAX, mqtt_encoder
from heliograph.session.outbox import Flusher, Outbox, Wire
from heliograph.session.session import Session

# Those of a node (`heliograph.node`), so that a collection costs what it costs there.
_GC_THRESHOLDS: Final = (50_000, 20, 100)
_ROUTES_MAX: Final = 100_000
_LEVELS_MAX: Final = 128
_MEMBERS: Final = 4


class Discard(Wire):
    """A connection that throws away what is written to it."""

    def write(self, data: bytes) -> None:
        """Forget the bytes."""


class Node:
    """A kernel with sessions and nothing else."""

    def __init__(self, strategy: str = "random") -> None:
        self.broker = Broker(Router(_LEVELS_MAX, _ROUTES_MAX), Hooks(), SharedOptions(strategy))
        self.broker.begin_turn(1_700_000_000_000_000)
        self.flusher = Flusher(lambda callback: None, self.broker.counters, self.broker.faults, self.broker.times)
        self.options = channel_options(Config(), DEFAULT_ZONE).session

    def session(self, clientid: str) -> Session:
        """A session with a connection."""
        session = Session(clientid, self.broker, self.options, 0)
        session.attach(Outbox(self.flusher, Discard()), mqtt_encoder(p.V5, PACKET_BYTES_MAX), 65_535)
        return session

    def publish(self, message: Message, topics: list[bytes]) -> None:
        """Do for each topic what a channel does that held no route: find it, and hand the message out."""
        broker = self.broker
        for topic in topics:
            broker.dispatch(broker.route(topic), message)
        self.flusher.flush()


def message_to(topic: str, clientid: str = "publisher") -> Message:
    """A small message at QoS 0."""
    return make_message(1, 1, topic, b"x" * 64, 0, False, b"", clientid, None)


def subscribe(session: Session, topic_filter: str, group: str = "") -> None:
    """Subscribe a session at QoS 0, alone or as a member of a group."""
    session.subscribe(topic_filter, Subscription(session, topic_filter, 0, False, False, 0, 0, group))


def subscribe_devices(node: Node, count: int, sessions_count: int = 10) -> list[Session]:
    """Subscribe to `device/<n>/+/#`, in turn by each of a few sessions."""
    sessions = [node.session(f"s{number}") for number in range(sessions_count)]
    for number in range(count):
        session = sessions[number % sessions_count]
        subscribe(session, f"device/{number}/+/#")
    return sessions


def rss_bytes() -> int:
    """The resident memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status names no VmRSS")


def best_us(runs: int, action: Callable[[], object], count: int) -> float:
    """Microseconds for one of the `count` operations of `action`, in the best of some runs."""
    best = float("inf")
    for _ in range(runs):
        began = time.process_time()
        action()
        best = min(best, time.process_time() - began)
    return 1e6 * best / count


# --- the cases: each gives its figures by name


def wildcards(count: int) -> dict[str, float]:
    """Memory and rate of many distinct wildcard subscriptions; publishes to them, cold and warm; leaving them."""
    gc.set_threshold(*_GC_THRESHOLDS)
    few = Node()
    subscribe_devices(few, 10)
    figures = {"warm publish beside ten subscriptions, µs": _warm_us(few)}
    node = Node()
    gc.collect()
    before = rss_bytes()
    began = time.process_time()
    sessions = subscribe_devices(node, count)
    seconds = time.process_time() - began
    figures["bytes each"] = (rss_bytes() - before) / count
    figures["added per second"] = count / seconds
    began = time.process_time()
    gc.collect()
    figures["a full collection, ms"] = 1e3 * (time.process_time() - began)
    cold = [b"device/%d/temp/x" % number for number in range(0, count, max(1, count // 20_000))]
    figures["cold publish, µs"] = best_us(1, partial(node.publish, message_to("device/1/temp/x"), cold), len(cold))
    figures["warm publish, µs"] = _warm_us(node)
    figures["warm publish, ratio"] = figures["warm publish, µs"] / figures["warm publish beside ten subscriptions, µs"]
    began = time.process_time()
    for session in sessions:
        session.close()
    figures["removed per second"] = count / (time.process_time() - began)
    return figures


def _warm_us(node: Node) -> float:
    topics = [b"device/%d/temp/x" % number for number in range(10)] * 1000
    message = message_to("device/1/temp/x")
    node.publish(message, topics)
    return best_us(9, partial(node.publish, message, topics), len(topics))


def crowd(count: int) -> dict[str, float]:
    """Subscribing and unsubscribing beside many subscribers of one topic."""
    figures = {}
    for name, others in (("first", 0), ("last", count - 1)):
        for topic_filter in ("one/topic", "one/+"):
            node = Node()
            for number in range(others):
                session = node.session(f"s{number}")
                subscribe(session, topic_filter)
            joining = [node.session(f"new{number}") for number in range(1000)]
            figures[f"{topic_filter}: the {name}, µs"] = best_us(
                5, partial(_join_and_leave, joining, topic_filter), len(joining)
            )
    return figures


def _join_and_leave(sessions: list[Session], topic_filter: str) -> None:
    for session in sessions:
        subscribe(session, topic_filter)
        session.unsubscribe(topic_filter)


def hostile(count: int) -> dict[str, float]:
    """Memory of filters made to cost much."""
    deep = "/".join(["+"] * 127)
    literal = "/".join("abcdefg"[number % 7] for number in range(126))
    shapes: dict[str, Callable[[int], str]] = {
        "128 levels, different first": lambda number: f"{number}/{deep}",
        "128 levels, different last": lambda number: f"{deep}/{number}",
        "128 levels, pairs with a long way in common": lambda number: f"+/{number // 2}/{literal[2:]}/{number}",
        "every level forks": _forking,
    }
    figures = {}
    for name, shape in shapes.items():
        node = Node()
        session = node.session("hostile")
        topic_filters = [shape(number) for number in range(count)]
        gc.collect()
        before = rss_bytes()
        for topic_filter in topic_filters:
            subscribe(session, topic_filter)
        figures[f"{name}: bytes each without the filter"] = (rss_bytes() - before) / count
    return figures


def _forking(number: int) -> str:
    """The filters of `a` or `+` at each of 17 levels, with a long rest."""
    bits = format(number, "017b")
    return "/".join("a" if bit == "1" else "+" for bit in bits) + "/b" * 100 + f"/{number}"


def churn(count: int) -> dict[str, float]:
    """Warm publishes to 1,000 topics while others subscribe to wildcard filters, so many for each publish."""
    node = Node()
    subscribe_devices(node, count)
    newcomer = node.session("newcomer")
    message = message_to("device/1/temp/x")
    topics = [b"device/%d/temp/x" % number for number in range(1000)]
    node.publish(message, topics)
    figures = {}
    for name, publishes in (("none", 0), ("1 in 1000 publishes", 1000), ("1 in 100", 100), ("1 in 10", 10)):
        figures[f"subscribing {name}: a publish, µs"] = _publish_us(node, newcomer, message, topics, publishes)
    hot = topics[:1] * 1000
    figures["one topic, subscribing 1 in 10: a publish, µs"] = _publish_us(node, newcomer, message, hot, 10)
    return figures


def _publish_us(node: Node, newcomer: Session, message: Message, topics: list[bytes], publishes: int) -> float:
    spent = 0.0
    batch = publishes or len(topics)
    rounds = 20
    for number in range(rounds):
        for at in range(0, len(topics), batch):
            if publishes:
                subscribe(newcomer, f"new/{publishes}/{number}/{at}/{len(set(topics))}/+")
            part = topics[at : at + batch]
            began = time.process_time()
            node.publish(message, part)
            spent += time.process_time() - began
    return 1e6 * spent / (rounds * len(topics))


def fanout(count: int) -> dict[str, float]:
    """One message to many subscriptions: of one filter, and of a filter each."""
    topic = "/".join("abcdefghij")
    figures = {}
    for name in ("one filter", "a filter each"):
        node = Node()
        for number in range(count):
            levels = topic.split("/")
            if name == "a filter each":
                levels = ["+" if number >> at & 1 else level for at, level in enumerate(levels)]
            subscribe(node.session(f"s{number}"), "/".join(levels))
        publish = partial(node.publish, message_to(topic), [topic.encode()] * 20)
        figures[f"{name}: a delivery, ns"] = 1e3 * best_us(20, publish, 20 * count)
    return figures


class Faulty(Subscriber):
    """Takes no message without raising."""

    def deliver(self, message: Message, subscription: Subscription) -> None:
        """Fail."""
        raise RuntimeError


def faults(count: int) -> dict[str, float]:
    """What containment costs: a message to many subscriptions of which all take it, and of which one raises."""
    figures = {}
    for name, faulty in (("all take it", 0), ("one of them raises", 1)):
        node = Node()
        node.broker.faults.on_fault = lambda boundary, error: None
        for number in range(count - faulty):
            subscribe(node.session(f"s{number}"), "t")
        for number in range(faulty):
            node.broker.subscribe(Subscription(Faulty(f"faulty-{number}"), "t", 0, False, False, 0, 0))
        publish = partial(node.publish, message_to("t"), [b"t"] * 20)
        figures[f"{name}: a delivery, ns"] = 1e3 * best_us(20, publish, 20 * count)
    return figures


def shared(count: int) -> dict[str, float]:
    """A delivery through a shared group beside a plain one.

    Ten publishers, each with a topic of its own, send ten messages at a time. What a publish to nobody costs is taken
    off, so that calls from interpreted code are not counted.
    """
    messages = [message_to(f"sensors/building-{number}/temperature", f"publisher-{number}") for number in range(10)]
    nobody = _turns_us(Node(), messages, count)
    figures = {}
    for strategy in ("plain", *STRATEGIES):
        node = Node("random" if strategy == "plain" else strategy)
        for number in range(1 if strategy == "plain" else _MEMBERS):
            subscribe(node.session(f"s{number}"), "sensors/#", "" if strategy == "plain" else "group")
        figures[f"{strategy}: a delivery, ns"] = 1e3 * (_turns_us(node, messages, count) - nobody)
    return figures


def _turns_us(node: Node, messages: list[Message], count: int) -> float:
    return best_us(9, partial(_take_turns, node, messages, count // 100), count)


def _take_turns(node: Node, messages: list[Message], rounds: int) -> None:
    broker = node.broker
    routes = [broker.route(message.publish.topic) for message in messages]
    pairs = list(zip(routes, messages, strict=True))
    for number in range(rounds):
        for route, message in pairs:
            for _ in range(10):
                broker.dispatch(route, message)
        if number % 10 == 9:
            node.flusher.flush()


CASES: Final[dict[str, tuple[Callable[[int], dict[str, float]], int]]] = {
    "wildcards": (wildcards, 1_000_000),
    "crowd": (crowd, 10_000),
    "hostile": (hostile, 20_000),
    "churn": (churn, 100_000),
    "fanout": (fanout, 1024),
    "faults": (faults, 1024),
    "shared": (shared, 200_000),
}


# What the figures are held against, at the canonical counts.
LIMITS: Final = (
    Limit("bytes each", 600),
    Limit("added per second", 100_000, at_most=False),
    Limit("cold publish, µs", 15),
    Limit("warm publish, ratio", 1.5),
    Limit("one of them raises: a delivery, ns", 1.25, of="all take it: a delivery, ns"),
    *(Limit(f"{strategy}: a delivery, ns", 2, of="plain: a delivery, ns") for strategy in STRATEGIES),
)


def main() -> int:
    """Run one case, or all of them in processes of their own; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=sorted(CASES), action="append", help="only this case")
    parser.add_argument("--count", type=int, help="how many subscriptions or deliveries; default: the canonical number")
    parser.add_argument("--here", action="store_true", help="run in this process and print JSON")
    parser.add_argument("--check", action="store_true", help="exit 1 if a limit is broken")
    arguments = parser.parse_args()
    missed: list[str] = []
    for name in arguments.case or CASES:
        case, count = CASES[name]
        count = arguments.count or count
        if arguments.here:
            print(json.dumps(case(count)))
            continue
        command = [sys.executable, __file__, "--here", "--case", name, "--count", str(count)]
        finished = subprocess.run(command, check=True, capture_output=True, text=True)
        print(f"{name}, {count:,}")
        missed += shown(json.loads(finished.stdout), LIMITS)
    return checked(arguments.check, missed)


if __name__ == "__main__":
    sys.exit(main())

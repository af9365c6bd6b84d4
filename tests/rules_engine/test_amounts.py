"""What waits, and what one message can make, is bounded: in number, and in bytes."""

import json
import math
from dataclasses import replace

from heliograph.broker.guid import IdSource
from heliograph.broker.internal_publish_queue import PublishCounters
from heliograph.broker.message import make_message
from heliograph.config.rules import RuleEngineConfig
from heliograph.parts.threads import Threads
from heliograph.rules.engine.engine import RuleEngine
from heliograph.rules.engine.strands import Strand
from heliograph.rules.environment import Environment
from heliograph.rules.evaluator import LIVE
from support.cases import cases
from support.options import CHANNEL
from support.services import Node

MIB = 1 << 20


def node_with(rules: str) -> Node:
    return Node(f"rule_engine {{ rules {{ {rules} }} }}", replace(CHANNEL, max_packet_size=4 * MIB))


def rule(sql: str, topic: str = "out", payload: str = "${.}") -> str:
    return (
        f'{{ sql = """{sql} """, actions = [{{ function = republish, args {{ topic = "{topic}", payload = "{payload}", '
        "qos = 0 } }] }"
    )


def test_a_message_that_would_become_gigabytes_becomes_some_megabytes() -> None:
    node = node_with("r " + rule('FOREACH payload.items AS item DO item, payload FROM "t"'))
    # Bounded in time as well, which a busy machine may use up here: it is the amount that is looked at.
    next(iter(node.rules)).compiled.bounds = replace(LIVE, cpu_s_max=math.inf)
    peer = node.connect("c")
    peer.publish("t", json.dumps({"items": [0] * 1000, "text": "x" * 100_000}).encode())
    numbers = node.statistics()
    assert numbers["rules.r.passed"] == 1
    assert numbers["rules.r.actions.total"] == 1000
    assert 600 < numbers["rules.r.actions.success"] < 700
    assert numbers["rules.messages_waiting"] == 0


def test_a_message_with_too_many_items_is_refused_by_the_rule_alone() -> None:
    node = node_with("r " + rule('FOREACH payload.a AS item DO item FROM "t"'))
    peer = node.connect("c")
    peer.subscribe("t", 0)
    peer.publish("t", b'{"a":[' + b"0," * 10_000 + b"0]}")
    assert len(peer.heard()) == 1
    assert node.statistics()["rules.r.failed.exception"] == 1


def test_rules_that_multiply_messages_do_not_fill_memory() -> None:
    """Nine rules for the topic that each of them publishes to: one message would be a million in time."""
    text = rule('SELECT * FROM "t"', "t", "x")
    rules = " ".join(f"r{number} {text}" for number in range(9))
    node = Node(f"rule_engine {{ max_queued_messages = 100, rules {{ {rules} }} }}")
    waiting: list[float] = []
    node.broker.hooks.message_publish.add(lambda message: waiting.append(node.statistics()["rules.messages_waiting"]))
    node.connect("c").publish("t", b"x")
    assert max(waiting) <= 100


def test_messages_wait_in_so_many_bytes() -> None:
    node = Node()
    messages, counters = node.rules.messages, PublishCounters()
    large = make_message(0, 0, "t", b"x" * (100 * MIB), 0, False, b"", "r", None)
    for _ in range(4):
        messages.put(large, False, counters)
    assert (len(messages), counters.dropped) == (2, 2)
    messages.flush()
    assert (len(messages), counters.published) == (0, 2)
    messages.put(large, False, counters)
    assert len(messages) == 1, "what was published counts no more"
    messages.flush()


def test_items_wait_for_threads_in_so_many_bytes() -> None:
    threads = Threads(1, "rules")
    threads.stop()  # nothing is taken
    strand: Strand[str, str] = Strand(threads, str, lambda item, result: None, lambda callback: None, 1000)
    assert strand.put("larger than all", 100 * MIB), "one always finds a place"
    assert not strand.put("another", 1)


@cases("is_stored", [True, False])
def test_rows_are_forged_on_no_node_that_would_store_them(is_stored: bool) -> None:
    node = Node()
    node.rules.stop()
    engine = RuleEngine(
        RuleEngineConfig(),
        node.broker,
        IdSource(1, node.context.next_number()),
        Environment(),
        "n",
        lambda clientid: None,
        node.context.defer,
        node.context.defer,
        node.context.clock,
        (lambda message: 1) if is_stored else None,
    )
    engine.start()
    peer = node.connect("c")
    peer.subscribe("$pipeline/#", 0)
    peer.publish("$pipeline/later", b"forged")
    assert len(peer.heard()) == (0 if is_stored else 1)
    engine.stop()

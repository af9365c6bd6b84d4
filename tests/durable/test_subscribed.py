"""Where a subscription begins while commits are under way: nothing older follows what was published after it."""

from dataclasses import replace
from pathlib import Path

from heliograph.mqtt import packets as p
from support.cases import cases
from support.durable import DurableKernel, got
from support.kernel import Peer
from support.options import SESSION


def commit_all_state(kernel: DurableKernel) -> None:
    while kernel.state.waiting:
        kernel.commit_state()


def ask(sub: Peer, topic_filter: str, qos: int = 1) -> None:
    sub.send_subscribe(p.SubscribeEntry(topic_filter, qos, False, False, 0))


def payloads(peer: Peer) -> list[str]:
    return [packet.payload.decode() for packet in peer.received() if isinstance(packet, p.Publish)]


def subscribed_between(path: Path, *, same_commit: bool, same_turn: bool = True) -> tuple[DurableKernel, Peer]:
    """A node with two messages that are not committed, and a client that subscribed between them and got the second."""
    kernel = DurableKernel(path)
    kernel.advance(3600)  # a later start may be set back behind this
    sub, pub = kernel.come("sub"), kernel.connect("pub")
    kernel.run()
    kernel.automatic = False
    pub.publish("t", b"before", 1)
    if not same_commit:
        kernel.sink.cut()
    if not same_turn:
        kernel.advance(0.001)
    ask(sub, "t")
    pub.publish("t", b"after", 1)
    commit_all_state(kernel)
    assert payloads(sub) == ["after"]
    return kernel, sub


def commit_all(kernel: DurableKernel) -> None:
    while kernel.sink.is_waiting:
        kernel.commit()
    commit_all_state(kernel)
    kernel.automatic = True


@cases("same_turn", [True, False])
@cases("same_commit", [True, False])
def test_an_older_message_does_not_follow_on_the_next_connection(
    tmp_path: Path, same_commit: bool, same_turn: bool
) -> None:
    kernel, sub = subscribed_between(tmp_path, same_commit=same_commit, same_turn=same_turn)
    sub.drop()
    commit_all(kernel)
    assert got(kernel, "sub") == ["after"]


@cases("same_commit", [True, False])
def test_an_older_message_does_not_follow_after_a_crash(tmp_path: Path, same_commit: bool) -> None:
    kernel, _ = subscribed_between(tmp_path, same_commit=same_commit)
    while kernel.sink.is_waiting:
        kernel.commit()
    kernel = kernel.crash()
    assert got(kernel, "sub") == ["after"]


@cases("same_commit", [True, False])
def test_an_older_message_does_not_follow_while_a_backlog_was_read(tmp_path: Path, same_commit: bool) -> None:
    limits = replace(SESSION, max_inflight=1, max_mqueue_len=1)
    kernel = DurableKernel(tmp_path, session_options=limits)
    sub, pub = kernel.come("sub"), kernel.connect("pub")
    sub.skip()
    sub.subscribe("backlog", 1)
    for number in range(3):
        pub.publish("backlog", b"%d" % number, 1)
    kernel.automatic = False
    pub.publish("t", b"before", 1)
    if not same_commit:
        kernel.sink.cut()
    ask(sub, "t")
    commit_all_state(kernel)
    for packet_id in (1, 2, 3):
        sub.ack(p.PUBACK, packet_id)
    assert payloads(sub) == ["0", "1", "2"]
    kernel.advance(1)
    commit_all_state(kernel)
    pub.publish("t", b"after", 1)
    assert payloads(sub) == ["after"]
    sub.drop()
    commit_all(kernel)
    assert got(kernel, "sub") == ["after"]


@cases("starts", [1, 2])
def test_a_clock_that_was_set_back_hides_nothing_that_is_published_later(tmp_path: Path, starts: int) -> None:
    kernel, _ = subscribed_between(tmp_path, same_commit=True)
    kernel.commit()
    for start in range(starts):
        kernel = kernel.crash(passed_s=-60.0)
        pub = kernel.connect("pub")
        pub.publish("t", b"later %d" % start, 1)
    kernel = kernel.crash()
    assert got(kernel, "sub") == ["after", *(f"later {start}" for start in range(starts))]


def test_a_subscription_that_is_made_again_begins_where_it_began(tmp_path: Path) -> None:
    kernel, sub = subscribed_between(tmp_path, same_commit=True)
    ask(sub, "t", 1)
    commit_all_state(kernel)
    kernel.commit()
    kernel = kernel.crash()
    assert got(kernel, "sub") == ["after"]


def test_what_is_published_while_subscriptions_are_made_is_theirs(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub, pub = kernel.come("sub"), kernel.connect("pub")
    kernel.run()
    kernel.automatic = False
    for name in "abc":
        for topic in "abc":
            pub.publish(topic, f"before {name}: {topic}".encode(), 1)
        ask(sub, name)
    commit_all_state(kernel)
    kernel.commit()
    kernel = kernel.crash()
    assert sorted(got(kernel, "sub")) == ["before b: a", "before c: a", "before c: b"]

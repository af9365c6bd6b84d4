"""When rights change: what was remembered ends, and so do subscriptions that are not allowed any more."""

from heliograph.broker import hooks
from heliograph.broker.actions import DENIED_BY_DEFAULT, Action, Decision
from heliograph.broker.client import ClientInfo
from heliograph.broker.node_rights import WAIT, Authority
from heliograph.broker.pending import Pending
from heliograph.channel.options import ChannelOptions
from heliograph.channel.rechecks import Recheck
from heliograph.mqtt import packets as p
from support.cases import cases
from support.kernel import Kernel

ALLOWED, DENIED, UNSURE = Decision(True, "file"), Decision(False, "file"), Decision(False, "default", is_unsure=True)


class Sources(Authority):
    """The node's own authorization: denies the topics in `denied`, and answers later about those in `later`."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.denied: set[str] = set()
        self.unsure: set[str] = set()
        self.later: set[str] = set()
        self.broken: set[str] = set()
        self.asked: list[str] = []
        self.pendings: dict[str, Pending[object]] = {}
        kernel.broker.rights.set_authority(self)

    def decide(self, client: ClientInfo, action: Action, topic: str) -> Decision | None:
        if topic in self.later:
            return WAIT
        if topic in self.broken:
            raise OSError
        self.asked.append(f"{client.clientid} {action.kind} {action.qos} {topic}")
        return UNSURE if topic in self.unsure else DENIED if topic in self.denied else ALLOWED

    def on_authorize(self, client: ClientInfo, action: Action, topic: str, outcome: object) -> object:
        pending: Pending[object] = Pending()
        self.pendings[f"{client.clientid} {topic}"] = pending
        return pending


def world(options: ChannelOptions | None = None) -> tuple[Kernel, Sources]:
    kernel = Kernel(options)
    return kernel, Sources(kernel)


def ended(kernel: Kernel) -> list[str]:
    """The subscriptions that end from now on."""
    names: list[str] = []
    kernel.broker.hooks.session_unsubscribed.add(
        lambda clientid, name, qos, *_: names.append(f"{clientid} {name} {qos}")
    )
    return names


def has_subscription(kernel: Kernel, clientid: str, name: str) -> bool:
    session = kernel.sessions.find(clientid)
    return session is not None and name in session.subscriptions


def checked(kernel: Kernel, clientid: str) -> Recheck:
    recheck = kernel.context.rechecks.check(clientid)
    assert recheck is not None
    return recheck


# --- what is remembered


def test_what_connections_remember_ends_with_a_change() -> None:
    kernel, sources = world()
    peer, witness = kernel.connect(), kernel.connect("witness")
    witness.subscribe("t")
    peer.publish("t", b"1")
    peer.publish("t", b"2")
    sources.denied.add("t")
    peer.publish("t", b"3")  # still remembered
    kernel.broker.rights.drop_cached()
    peer.publish("t", b"4")
    assert [packet.payload for packet in witness.received() if isinstance(packet, p.Publish)] == [b"1", b"2", b"3"]
    assert sources.asked.count("c publish 0 t") == 2


def test_one_client_can_be_made_to_forget() -> None:
    kernel, sources = world()
    one, two = kernel.connect("one"), kernel.connect("two")
    for peer in (one, two):
        peer.publish("t")
    kernel.context.rechecks.check("one")
    for peer in (one, two):
        peer.publish("t")
    assert sources.asked == ["one publish 0 t", "two publish 0 t", "one publish 0 t"]


def test_an_answer_that_was_asked_for_before_a_change_is_not_remembered() -> None:
    kernel, sources = world()
    peer = kernel.connect()
    sources.later.add("t")
    peer.publish("t", b"", 1, 1)
    kernel.broker.rights.drop_cached()
    sources.later.clear()
    sources.denied.add("t")
    sources.pendings["c t"].resolve((hooks.STOP, ALLOWED))
    kernel.run()
    peer.publish("t", b"", 1, 2)
    assert peer.heard() == ["PUBACK #1 0x10", "PUBACK #2 0x87"]


def test_what_was_fetched_for_a_client_is_forgotten_when_it_may_be_another_user() -> None:
    kernel, sources = world()
    peer = kernel.connect()
    client = kernel.context.channels.find_client("c")
    assert client is not None
    client.kept_rights = sources
    kernel.broker.rights.drop_cached()  # what was fetched knows its own versions
    peer.publish("t")
    kept: list[object] = [client.kept_rights]
    kernel.context.rechecks.check("c")
    kept.append(client.kept_rights)
    kernel.context.rechecks.check("c", is_another=True)
    kept.append(client.kept_rights)
    assert kept == [sources, sources, None]


# --- subscriptions


def test_subscriptions_that_are_not_allowed_any_more_end_exact_ones_too() -> None:
    kernel, sources = world()
    peer, other = kernel.connect(), kernel.connect("other")
    for name in ("a/b", "a/+", "kept", "$share/g/s"):
        peer.subscribe(name, 1)
    other.subscribe("a/b")
    names = ended(kernel)
    sources.denied |= {"a/b", "a/+", "s"}
    kernel.broker.rights.drop_cached()
    assert names == []  # in another turn
    kernel.run()
    assert sorted(names) == ["c $share/g/s 1", "c a/+ 1", "c a/b 1", "other a/b 0"]
    assert has_subscription(kernel, "c", "kept")
    assert kernel.broker.counters.subscriptions_withdrawn == 4
    kernel.connect("pub").publish("a/b", b"x")
    assert peer.heard() == other.heard() == []
    assert not kernel.context.rechecks.is_running


def test_a_change_of_the_default_is_a_change_of_rights() -> None:
    kernel = Kernel()
    kernel.connect().subscribe("t")
    kernel.broker.rights.set_no_match(DENIED_BY_DEFAULT)
    kernel.run()
    assert not has_subscription(kernel, "c", "t")


def test_one_client_is_checked_at_once() -> None:
    kernel, sources = world()
    peer = kernel.connect()
    kernel.connect("other").subscribe("t")
    peer.subscribe("t", 2)
    peer.subscribe("u")
    sources.denied.add("t")
    recheck = checked(kernel, "c")
    assert (recheck.done.is_resolved, recheck.dropped, recheck.failed) == (True, ["t"], [])
    assert has_subscription(kernel, "other", "t")
    assert kernel.context.rechecks.check("nobody") is None


def test_a_client_that_is_away_is_checked_when_it_comes_back() -> None:
    kernel, sources = world()
    peer = kernel.connect(session_expiry_interval=60)
    peer.subscribe("t")
    peer.drop()
    sources.denied.add("t")
    kernel.broker.rights.drop_cached()
    kernel.run()
    assert has_subscription(kernel, "c", "t")
    assert kernel.context.rechecks.check("c") is None
    kernel.connect(clean_start=False)
    assert not has_subscription(kernel, "c", "t")


def test_no_subscription_ends_because_a_source_cannot_be_asked() -> None:
    kernel, sources = world()
    peer = kernel.connect()
    for name in ("sure", "unsure", "late"):
        peer.subscribe(name)
    sources.unsure.add("unsure")
    sources.denied.add("sure")
    sources.later.add("late")
    recheck = checked(kernel, "c")
    assert not recheck.done.is_resolved
    kernel.advance(15)  # the deadline of `mqtt.idle_timeout`
    assert (recheck.done.is_resolved, recheck.dropped) == (True, ["sure"])
    assert sorted(recheck.failed) == ["late", "unsure"]


def test_a_check_waits_for_answers_and_the_client_does_not_wait_for_it() -> None:
    kernel, sources = world()
    peer = kernel.connect()
    peer.subscribe("t")
    sources.later.add("t")
    recheck = checked(kernel, "c")
    peer.publish("u", b"", 1, 1)
    assert peer.heard() == ["PUBACK #1 0x10"]
    peer.send_subscribe(p.SubscribeEntry("t", 1, False, False, 0))  # asks for itself
    waiting = sources.pendings["c t"]
    assert peer.heard() == []
    waiting.resolve((hooks.STOP, ALLOWED))
    kernel.run()
    assert peer.take(p.Suback).codes == [1]
    assert not recheck.done.is_resolved


def test_a_client_that_leaves_ends_its_check() -> None:
    kernel, sources = world()
    peer = kernel.connect()
    peer.subscribe("t")
    sources.later.add("t")
    recheck = checked(kernel, "c")
    peer.drop()
    sources.pendings["c t"].resolve((hooks.STOP, DENIED))
    kernel.run()
    assert (recheck.done.is_resolved, recheck.dropped) == (True, [])


def test_many_clients_are_checked_in_many_turns_and_answers_are_bounded() -> None:
    kernel, sources = world()
    peers = [kernel.connect(f"c{number}") for number in range(300)]
    for peer in peers:
        peer.subscribe("t")
    sources.asked.clear()
    sources.denied.add("t")
    kernel.broker.rights.drop_cached()
    turns = 0
    while kernel.context.rechecks.is_running:
        before = len(sources.asked)
        kernel.turn()
        assert len(sources.asked) - before <= 128
        turns += 1
    assert (turns >= 3, len(sources.asked)) == (True, 300)
    for peer in peers:
        sources.denied.clear()
        peer.subscribe("u")
    sources.later.add("u")
    kernel.broker.rights.drop_cached()
    kernel.run()
    assert len(sources.pendings) == 64
    answered: set[str] = set()
    while len(answered) < 300:
        for name, pending in list(sources.pendings.items()):
            if name not in answered:
                answered.add(name)
                pending.resolve((hooks.STOP, DENIED))
        kernel.run()
    assert kernel.broker.statistics()["subscriptions.count"] == 0
    assert not kernel.context.rechecks.is_running


def test_a_client_with_very_many_subscriptions_keeps_no_other_waiting() -> None:
    kernel, sources = world()
    peer = kernel.connect()
    peer.send_subscribe(*(p.SubscribeEntry(f"t/{number}", 0, False, False, 0) for number in range(5000)))
    sources.asked.clear()
    sources.denied |= {f"t/{number}" for number in range(4999)}
    recheck = checked(kernel, "c")
    most = 0
    while not recheck.done.is_resolved:
        before = len(sources.asked)
        kernel.turn()
        most = max(most, len(sources.asked) - before)
    assert most <= 512
    assert (len(recheck.dropped), has_subscription(kernel, "c", "t/4999")) == (4999, True)


def test_rights_that_change_unseen_are_checked_again_for_clients_that_are_sent_something() -> None:
    kernel, sources = world()
    kernel.context.rechecks.period_us = 60_000_000
    busy, idle, publisher = kernel.connect("busy"), kernel.connect("idle"), kernel.connect("publisher")
    busy.subscribe("t")
    idle.subscribe("idle")
    sources.may_change_unseen = True
    kernel.advance(60)  # what was sent before counts
    sources.asked.clear()
    idle.send(p.Ping(p.PINGREQ))
    assert idle.heard() == ["PINGRESP"]
    publisher.publish("t", b"1")
    sources.denied |= {"t", "idle"}
    kernel.advance(59)
    assert has_subscription(kernel, "busy", "t")
    kernel.advance(1)
    assert not has_subscription(kernel, "busy", "t")
    assert sources.asked == ["publisher publish 0 t", "busy subscribe 0 t"]
    sources.may_change_unseen = False
    idle.subscribe("more")  # which it is told
    kernel.advance(120)
    assert has_subscription(kernel, "idle", "idle")


def test_a_shorter_period_counts_from_the_last_check_on() -> None:
    kernel, sources = world()
    kernel.context.rechecks.period_us = 60_000_000
    client, publisher = kernel.connect("c"), kernel.connect("publisher")
    client.subscribe("t")
    sources.may_change_unseen = True
    kernel.advance(60)
    publisher.publish("t", b"1")
    sources.denied.add("t")
    kernel.context.rechecks.period_us = 1_000_000
    kernel.advance(1)
    assert not has_subscription(kernel, "c", "t")


def test_changes_that_come_while_clients_are_checked_begin_again() -> None:
    kernel, sources = world()
    for number in range(200):
        kernel.connect(f"c{number}").subscribe("t")
    kernel.broker.rights.drop_cached()
    kernel.turn()
    sources.denied.add("t")
    kernel.broker.rights.drop_cached()
    kernel.run()
    assert kernel.broker.statistics()["subscriptions.count"] == 0


@cases("fails", ["hook", "source"])
def test_a_fault_at_one_client_spares_the_others(fails: str) -> None:
    kernel, sources = world()
    kernel.contain_faults()
    for clientid in ("a", "b", "c"):
        kernel.connect(clientid).subscribe("t")

    def fail(*_: object) -> None:
        raise ValueError

    if fails == "hook":
        kernel.broker.hooks.session_unsubscribed.add(fail)
        sources.denied.add("t")
    else:
        sources.broken.add("t")
    kernel.broker.rights.drop_cached()
    kernel.run()
    assert not kernel.context.rechecks.is_running
    assert kernel.broker.statistics()["subscriptions.count"] == (0 if fails == "hook" else 3)

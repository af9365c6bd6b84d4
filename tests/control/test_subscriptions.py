"""Subscriptions are listed, shown, made and dropped; so are the filters that are routed, and exclusive topics."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heliograph.channel.subscription_listing import WantedSubscriptions, found_subscriptions
from heliograph.control import subscriptions, topics
from heliograph.control.proto_v1 import subscriptions as proto
from heliograph.control.proto_v1.clients import ClientId
from heliograph.mqtt import packets as p
from heliograph.mqtt.topic import filter_covers, has_wildcard
from heliograph.rpc.methods import RpcError
from support.asking import Asker
from support.durable import DurableKernel, leave
from support.kernel import Kernel
from support.options import CHANNEL, LISTENER


def asked(kernel: Kernel) -> Asker:
    return Asker([*subscriptions.methods(kernel.context), *topics.methods(kernel.context)], kernel.run)


def listed(kernel: Kernel, **wanted: Any) -> list[tuple[str, str]]:
    rows = asked(kernel).rows("subscriptions.list", proto.SubscriptionsWanted(**wanted))
    return sorted((row.clientid, row.topic) for row in rows)


def test_subscriptions_are_listed_by_client_filter_and_topic() -> None:
    kernel = Kernel()
    kernel.connect("a").subscribe("t/+", 1, no_local=True, retain_handling=2, subscription_identifier=7)
    other = kernel.connect("b")
    other.subscribe("t/1", 2)
    other.subscribe("$share/g/t/#")
    assert listed(kernel) == [("a", "t/+"), ("b", "$share/g/t/#"), ("b", "t/1")]
    assert listed(kernel, clientid="b", topic="t/1") == [("b", "t/1")]
    assert listed(kernel, topic="t/+") == [("a", "t/+")]
    assert listed(kernel, matches="t/2") == [("a", "t/+"), ("b", "$share/g/t/#")]
    assert len(listed(kernel, limit=2)) == 2
    (row,) = asked(kernel).rows("subscriptions.show", ClientId("a"))
    assert row == proto.SubscriptionRow("a", "t/+", 1, True, False, 2, 7, False)
    with pytest.raises(RpcError, match="no client has the id 'x'"):
        asked(kernel).rows("subscriptions.show", ClientId("x"))


def counted(kernel: Kernel, **wanted: Any) -> int:
    (row,) = asked(kernel).rows("subscriptions.count", proto.SubscriptionsWanted(**wanted))
    return int(row.count)


FILTERS = ("a/b", "a/+", "a/#", "a", "b/a", "b/+/c", "+/b", "#", "$x/b", "aa/b", "a/b/c", "b/a/c/d", "/b", "a//b")


@pytest.mark.parametrize("within", [*FILTERS, "+/+", "+/+/+", "+/b/#", "+/#", "a/+/b", "b/+/c/#", "$x/#", "b/#"])
def test_subscriptions_are_found_by_a_filter_that_covers_theirs(within: str) -> None:
    kernel = Kernel()
    peer = kernel.connect("a")
    for topic_filter in FILTERS:
        peer.subscribe(topic_filter)
    wild = has_wildcard(within)
    expected = sorted(("a", one) for one in FILTERS if (filter_covers(within, one) if wild else one == within))
    assert listed(kernel, within=within) == expected
    assert counted(kernel, within=within) == len(expected)


def test_what_is_asked_of_subscriptions_is_combined() -> None:
    kernel = Kernel(replace(CHANNEL, exclusive_subscription=True))
    names = ("$share/g/t/1", "$share/h/t/1", "$queue/t/1", "$share/$queue/t/+", "$exclusive/t/1", "t/1")
    for at, clientid in enumerate(("a", "b")):
        peer = kernel.connect(clientid)
        for qos, name in enumerate(names):
            if at == 0 or name != "$exclusive/t/1":
                peer.subscribe(name, qos % 3)
    everything = sorted(("ab"[at], name) for at in (0, 1) for name in names if (at, name) != (1, names[4]))
    assert listed(kernel) == listed(kernel, within="t/#") == listed(kernel, matches="t/1") == everything
    assert listed(kernel, within="t/+", clientid="b") == everything[6:]
    for group, name in (("g", names[0]), ("h", names[1])):
        assert listed(kernel, share_group=group, matches="t/1") == [("a", name), ("b", name)]
    assert listed(kernel, share_group="$queue", within="t/1") == [("a", names[2]), ("b", names[2])]
    for name in names:
        assert listed(kernel, topic=name) == [one for one in everything if one[1] == name]
    assert listed(kernel, qos=1, within="t/#") == [("a", names[4]), ("a", names[1]), ("b", names[1])]
    assert counted(kernel) == 11
    assert counted(kernel, qos=0) == counted(kernel, qos=0, durable=False) == 4
    assert counted(kernel, durable=True) == 0
    pages = [listed(kernel, within="t/#", skip=skip, limit=4) for skip in (0, 4, 8, 12)]
    assert [len(page) for page in pages] == [4, 4, 3, 0]
    assert sorted(one for page in pages for one in page) == everything


def test_names_have_no_mountpoint_and_filters_do() -> None:
    kernel = Kernel(replace(CHANNEL, listener=replace(LISTENER, mountpoint="at/${clientid}/")))
    for clientid in ("a", "b"):
        peer = kernel.connect(clientid)
        for name in ("t/1", "$share/g/t/+"):
            peer.subscribe(name)
    assert listed(kernel, within="at/a/#") == [("a", "$share/g/t/+"), ("a", "t/1")]
    assert listed(kernel, matches="at/b/t/1") == [("b", "$share/g/t/+"), ("b", "t/1")]
    assert listed(kernel, topic="t/1") == [("a", "t/1"), ("b", "t/1")]


def test_filters_on_the_disk_begin_with_their_mountpoint(tmp_path: Path) -> None:
    options = replace(CHANNEL, listener=replace(LISTENER, mountpoint="at/${clientid}/"))
    kernel = DurableKernel(tmp_path, channel_options=options)
    for clientid in ("a", "b"):
        leave(kernel, clientid, "t/1", "u")
    kernel = kernel.crash()
    assert listed(kernel, within="at/a/t/#") == listed(kernel, within="at/a/t/1") == [("a", "t/1")]
    assert listed(kernel, matches="at/b/u") == [("b", "u")]
    assert listed(kernel, topic="u") == [("a", "u"), ("b", "u")]


def test_few_of_many_subscriptions_are_found_without_looking_at_all() -> None:
    kernel = Kernel()
    for clientid in ("a", "b"):
        peer = kernel.connect(clientid)
        for number in range(1_000):
            peer.subscribe(f"{clientid}/{number}")
    for wanted in (WantedSubscriptions("a/7"), WantedSubscriptions(within="b/7"), WantedSubscriptions(name="b/7")):
        pieces = list(found_subscriptions(kernel.context, wanted))
        assert sum(len(piece) for piece in pieces) == 1
        assert len(pieces) < 4


def test_a_subscription_is_made_and_dropped_on_a_clients_behalf() -> None:
    kernel = Kernel(replace(CHANNEL, max_subscriptions=2))
    kernel.connect("pub").publish("r", b"retained", retain=True)
    peer = kernel.connect("c", session_expiry_interval=600)
    assert asked(kernel).ask("subscriptions.add", proto.NewSubscription("c", "r", 1)).qos == 1
    kernel.run()
    assert peer.take(p.Publish).payload == b"retained"
    asked(kernel).ask("subscriptions.add", proto.NewSubscription("c", "s"))
    with pytest.raises(RpcError, match="'third' is refused: quota_exceeded"):
        asked(kernel).ask("subscriptions.add", proto.NewSubscription("c", "third"))
    with pytest.raises(RpcError, match="'a/#/b' is no topic filter: '#' must stand alone"):
        asked(kernel).ask("subscriptions.add", proto.NewSubscription("c", "a/#/b"))
    asked(kernel).ask("subscriptions.del", proto.SubscriptionName("c", "r"))
    with pytest.raises(RpcError, match="client 'c' has no subscription 'r'"):
        asked(kernel).ask("subscriptions.del", proto.SubscriptionName("c", "r"))
    peer.drop()
    with pytest.raises(RpcError, match="client 'c' is not connected"):
        asked(kernel).ask("subscriptions.add", proto.NewSubscription("c", "r"))
    asked(kernel).ask("subscriptions.del", proto.SubscriptionName("c", "s"))
    assert listed(kernel) == []
    assert kernel.broker.statistics()["subscriptions.count"] == 0


@pytest.mark.parametrize("is_one_of_many", [False, True])
def test_subscriptions_of_sessions_on_the_disk_only_are_listed_and_dropped(
    tmp_path: Path, *, is_one_of_many: bool
) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "sleeper", "t/+", "u")
    for _ in ("its session is in memory", "it is on the disk only"):
        for number in range(20 if is_one_of_many else 0):
            kernel.connect(f"awake-{number}")
        assert listed(kernel) == listed(kernel, clientid="sleeper") == [("sleeper", "t/+"), ("sleeper", "u")]
        assert listed(kernel, matches="t/1") == listed(kernel, within="t/#") == [("sleeper", "t/+")]
        assert listed(kernel, topic="u") == [("sleeper", "u")]
        assert counted(kernel) == counted(kernel, durable=True) == 2
        kernel = kernel.crash()
    assert kernel.sessions.held("sleeper") is None
    asked(kernel).ask("subscriptions.del", proto.SubscriptionName("sleeper", "u"))
    kernel.run()
    kernel = kernel.crash()
    assert listed(kernel) == [("sleeper", "t/+")]


def test_topics_are_listed_and_shown_with_their_groups() -> None:
    kernel = Kernel()
    for clientid in ("a", "b"):
        peer = kernel.connect(clientid)
        for topic_filter in ("t/+", "$share/g/t/#", "x"):
            peer.subscribe(topic_filter)
    rows = asked(kernel).rows("topics.list", proto.TopicsWanted())
    assert sorted((row.topic, row.subscriptions_cnt) for row in rows) == [("t/#", 1), ("t/+", 2), ("x", 2)]
    assert len(asked(kernel).rows("topics.list", proto.TopicsWanted(limit=1))) == 1
    shown = asked(kernel).rows("topics.show", proto.TopicName("t/1"))
    assert sorted((row.topic, tuple(row.groups.items())) for row in shown) == [("t/#", (("g", 2),)), ("t/+", ())]
    assert [row.topic for row in asked(kernel).rows("topics.show", proto.TopicName("t/+"))] == ["t/+"]
    assert [row.topic for row in asked(kernel).rows("topics.show", proto.TopicName("x"))] == ["x"]
    with pytest.raises(RpcError, match="no filter matches 'y'"):
        asked(kernel).rows("topics.show", proto.TopicName("y"))


def test_an_exclusive_topic_is_listed_and_freed() -> None:
    kernel = Kernel(replace(CHANNEL, exclusive_subscription=True))
    kernel.connect("a").subscribe("$exclusive/t")
    other = kernel.connect("b")
    assert other.subscribe("$exclusive/t") == [0x97]
    assert asked(kernel).rows("exclusive.list", proto.TopicsWanted()) == [proto.ExclusiveRow("t", "a")]
    assert asked(kernel).ask("exclusive.delete", proto.TopicName("$exclusive/t")).clientid == "a"
    assert other.subscribe("$exclusive/t") == [0]
    with pytest.raises(RpcError, match="no client has the exclusive topic 'u'"):
        asked(kernel).ask("exclusive.delete", proto.TopicName("u"))

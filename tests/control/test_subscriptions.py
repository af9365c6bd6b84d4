"""Subscriptions are listed, shown, made and dropped; so are the filters that are routed, and exclusive topics."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heliograph.control import subscriptions, topics
from heliograph.control.proto_v1 import subscriptions as proto
from heliograph.control.proto_v1.clients import ClientId
from heliograph.mqtt import packets as p
from heliograph.rpc.methods import RpcError
from support.asking import Asker
from support.durable import DurableKernel, leave
from support.kernel import Kernel
from support.options import CHANNEL


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


def test_subscriptions_of_sessions_on_the_disk_only_are_listed_and_dropped(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "sleeper", "t/+", "u")
    kernel = kernel.crash()
    assert listed(kernel) == listed(kernel, clientid="sleeper") == [("sleeper", "t/+"), ("sleeper", "u")]
    assert listed(kernel, matches="t/1") == [("sleeper", "t/+")]
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

"""Automatic subscriptions, as clients see them."""

from dataclasses import replace

import pytest

from heliograph.broker import hooks
from heliograph.broker.actions import Action
from heliograph.broker.client import ClientInfo
from heliograph.broker.pending import Pending
from heliograph.mqtt import packets as p
from support.cases import cases
from support.options import CHANNEL
from support.services import Node

TOPICS = """
auto_subscribe.topics = [
  { topic = "c/${clientid}", qos = 1 }
  { topic = "u/${username}/#", nl = 1, rap = 1 }
  { topic = "h/${host}/${port}" }
]
"""


def test_a_client_is_subscribed_when_it_connects() -> None:
    node = Node(TOPICS)
    peer = node.connect("dev", username="joe")
    sender = node.connect("sender", username="x")
    for topic in ("c/dev", "c/other", "u/joe", "u/joe/a", "u/x", "h/192.0.2.1/50000"):
        sender.publish(topic, b"x", 1)
    assert peer.heard() == [
        "PUBLISH c/dev 'x' q1 #1",
        "PUBLISH u/joe 'x' q0",
        "PUBLISH u/joe/a 'x' q0",
        "PUBLISH h/192.0.2.1/50000 'x' q0",
    ]
    assert node.statistics()["auto_subscribe.subscribed"] == 6


def test_options_hold() -> None:
    node = Node(TOPICS)
    peer = node.connect("dev", username="joe")
    peer.publish("u/joe", b"mine")
    node.connect("sender", username="x").publish("u/joe", b"x", retain=True)
    assert peer.heard() == ["PUBLISH u/joe 'x' q0 retain"]


class Denied:
    """An authorizer that denies a filter, at once or later."""

    def __init__(self, topic: str, is_later: bool = False) -> None:
        self._topic = topic
        self._is_later = is_later
        self.awaited: Pending[object] | None = None

    def __call__(self, client: ClientInfo, action: Action, topic: str, verdict: object) -> object:
        if action.kind != "subscribe" or topic != self._topic:
            return None
        if self._is_later:
            self.awaited = Pending()
            return self.awaited
        return hooks.STOP, "deny"


@cases("version", [p.V3_1_1, p.V5])
@cases("deny_action", [False, True])
def test_a_client_is_not_subscribed_to_what_it_may_not(
    version: int, deny_action: bool, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(TOPICS, replace(CHANNEL, authz_disconnects=deny_action))
    node.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(Denied("c/dev"))
    peer = node.connect("dev", version=version, username="joe")
    sender = node.connect("sender", username="x")
    sender.publish("c/dev", b"secret", 1)
    sender.publish("u/joe", b"x")
    assert peer.heard() == ["PUBLISH u/joe 'x' q0"]
    assert node.statistics() | {"auto_subscribe.subscribed": 5, "auto_subscribe.skipped": 1} == node.statistics()
    assert "client 'dev' is not subscribed to 'c/dev': not_authorized" in caplog.text


def test_a_right_that_is_asked_elsewhere_is_waited_for() -> None:
    node = Node('auto_subscribe.topics = [{ topic = "c/${clientid}" }, { topic = "fine" }]')
    denied = Denied("c/dev", is_later=True)
    node.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(denied)
    peer, sender = node.connect("dev"), node.connect("sender")
    peer.publish("fine", b"mine", 1, 7)
    assert peer.heard() == []  # its packets stand behind what it was not subscribed to yet
    assert denied.awaited is not None
    denied.awaited.resolve((hooks.STOP, "deny"))
    node.run()
    assert peer.heard() == ["PUBLISH fine 'mine' q0", "PUBACK #7"]
    sender.publish("c/dev", b"secret", 1)
    assert peer.heard() == []


def test_a_client_may_unsubscribe() -> None:
    node = Node(TOPICS)
    peer = node.connect("dev", username="joe")
    assert peer.unsubscribe("c/dev") == [0]
    node.connect("sender").publish("c/dev", b"x")
    assert peer.heard() == []


def test_retained_messages_come_as_with_any_subscription() -> None:
    node = Node('auto_subscribe.topics = [{ topic = "c/${clientid}" }, { topic = "quiet", rh = 2 }]')
    sender = node.connect("sender")
    sender.publish("c/dev", b"old", retain=True)
    sender.publish("quiet", b"old", retain=True)
    peer = node.peer()
    peer.connect("dev")
    assert peer.heard() == ["CONNACK 0x00", "PUBLISH c/dev 'old' q0 retain"]


@cases(("clientid", "username"), [("#", None), ("+", "joe"), ("dev/+", "#")])
def test_a_client_cannot_make_a_wildcard_of_itself(
    clientid: str, username: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node('auto_subscribe.topics = [{ topic = "c/${clientid}/x" }, { topic = "fine" }]')
    peer = node.connect(clientid, username=username)
    sender = node.connect("sender")
    sender.publish("c/a/x", b"secret")
    sender.publish("fine", b"x")
    assert peer.heard() == ["PUBLISH fine 'x' q0"]
    assert node.statistics()["auto_subscribe.skipped"] == 1
    assert "is not subscribed to 'c/${clientid}/x'" in caplog.text


def test_a_client_without_user_name_has_no_subscription_of_it() -> None:
    node = Node('auto_subscribe.topics = [{ topic = "u/${username}" }]')
    peer = node.connect("dev")
    node.connect("sender").publish("u/", b"x")
    assert peer.heard() == []
    assert node.hook_failures == []


def test_a_shared_subscription_may_be_automatic() -> None:
    node = Node('auto_subscribe.topics = [{ topic = "$share/g/jobs" }]')
    peers = [node.connect("a"), node.connect("b")]
    sender = node.connect("sender")
    sender.publish("jobs", b"x")
    assert len([line for peer in [*peers, sender] for line in peer.heard()]) == 1

"""Topic rewriting, as clients see it."""

import pytest

from retainer.retaining import each
from support.cases import cases
from support.services import Node

RULES = r"""
rewrite = [
  { action = subscribe, source_topic = "y/+/z/#", re = "^y/(.+)/z/(.+)$", dest_topic = "y/z/$2" }
  { action = publish, source_topic = "x/#", re = "^x/y/(.+)$", dest_topic = "z/y/x/$1" }
  { action = publish, source_topic = "x/y/+", re = "^x/y/(\\d+)$", dest_topic = "z/y/$1" }
  { action = all, source_topic = "me", re = "^me$", dest_topic = "of/${clientid}/${username}" }
]
"""


def published_to(node: Node, topic: str, clientid: str = "c", username: str | None = "u") -> list[str]:
    """The topics under which a message to `topic` arrives."""
    watcher = node.connect("watcher")
    watcher.subscribe("#")
    node.connect(clientid, username=username).publish(topic, b"x")
    return [line.split()[1] for line in watcher.heard()]


@cases(
    ("topic", "rewritten"),
    [
        ("x/1/2", "x/1/2"),  # the filter matches, the expression does not
        ("x/y/2", "z/y/2"),  # two filters match: the last rule counts
        ("x/y/z", "x/y/z"),  # the last one again, whose expression does not match
        ("x/y/z/a", "z/y/x/z/a"),
        ("other", "other"),
        ("me", "of/c/u"),
    ],
)
def test_messages(topic: str, rewritten: str) -> None:
    assert published_to(Node(RULES), topic) == [rewritten]


@cases(
    ("topic_filter", "rewritten"),
    [
        ("y/def", "y/def"),
        ("y/a/z/b", "y/z/b"),
        ("$share/g/y/a/z/b", "y/z/b"),
        ("$queue/y/a/z/b", "y/z/b"),
        ("y/+/z/#", "y/z/anything"),
        ("me", "of/c/u"),
    ],
)
def test_subscriptions(topic_filter: str, rewritten: str) -> None:
    node = Node(RULES)
    peer = node.connect("c", username="u")
    assert peer.subscribe(topic_filter) == [0]
    node.connect("other").publish(rewritten, b"x")
    assert peer.heard() == [f"PUBLISH {rewritten} 'x' q0"]
    assert peer.unsubscribe(topic_filter) == [0]
    node.connect("other").publish(rewritten, b"x")
    assert peer.heard() == []


def test_the_subscription_to_what_the_client_named_is_not_made() -> None:
    node = Node(RULES)
    peer = node.connect()
    peer.subscribe("y/a/z/b")
    node.connect("other").publish("y/a/z/b", b"x")
    assert peer.heard() == []


def test_options_of_a_subscription_stay() -> None:
    node = Node(RULES)
    peer = node.connect()
    assert peer.subscribe("y/a/z/b", 2, no_local=True) == [2]
    peer.publish("y/z/b", b"mine")
    node.connect("other").publish("y/z/b", b"x", 2, 1)
    assert peer.heard() == ["PUBLISH y/z/b 'x' q2 #1"]


def test_what_a_message_carries_stays() -> None:
    node = Node(RULES)
    peer = node.connect()
    peer.publish("x/y/2", b"x", 2, 5, retain=True, message_expiry_interval=30, content_type="text")
    node.advance(10)
    late = node.connect("late")
    late.subscribe("x/#")
    late.subscribe("z/y/3")
    assert late.heard() == []
    node.connect("later").subscribe("nothing")
    (message,) = each(node.retainer.match("z/y/2"))
    assert message.properties.named() == {"Message-Expiry-Interval": 30, "Content-Type": "text"}
    assert (message.qos, message.payload, message.clientid) == (2, b"x", "c")


@cases(("clientid", "username"), [("a/#", "u"), ("+", "u"), ("c", "#"), ("c", None), ("c", "")])
def test_a_client_cannot_make_a_wildcard_of_itself(
    clientid: str, username: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(RULES)
    assert published_to(node, "me", clientid, username) == ["me"]
    spy = node.connect(clientid, username=username)
    spy.subscribe("me")
    node.connect("victim").publish("of/a/b", b"secret")
    assert spy.heard() == []
    assert node.statistics()["rewrite.invalid"] == 2
    assert "dest_topic = 'of/${clientid}/${username}' gives no valid topic" in caplog.text


def test_what_is_filled_in_is_not_filled_in_again() -> None:
    rule = 'rewrite = [{ action = publish, source_topic = "#", re = "^(.+)$", dest_topic = "t/${clientid}/$1" }]'
    assert published_to(Node(rule), "a/${username}", "$1") == ["t/$1/a/${username}"]


@cases(
    ("dest_topic", "rewritten"),
    [
        ("b/$1", "b/1"),
        ("b/$2", "b/$2"),  # there is no such group
        ("b/$10", "b/10"),  # group 1 and a 0
        ("b/$0", "b/$0"),
        ("b/$", "b/$"),
        ("b/${foo}/${clientid", "b/${foo}/${clientid"),
        ("b/${clientid}${clientid}", "b/cc"),
    ],
)
def test_places(dest_topic: str, rewritten: str) -> None:
    rule = f'rewrite = [{{ source_topic = "a/+", re = "^a/(.)$", dest_topic = "{dest_topic}" }}]'
    assert published_to(Node(rule), "a/1") == [rewritten]


def test_a_group_that_took_no_part_is_empty() -> None:
    rule = 'rewrite = [{ source_topic = "a/+", re = "^a/(x)?.$", dest_topic = "b/$1" }]'
    assert published_to(Node(rule), "a/1") == ["b/"]


def test_a_topic_that_grows_too_long_stays() -> None:
    rule = 'rewrite = [{ action = publish, source_topic = "#", re = "^(.+)$", dest_topic = "$1/$1" }]'
    node = Node(rule)
    assert published_to(node, "a" * 40_000) == ["a" * 40_000]
    assert node.statistics()["rewrite.invalid"] == 1


def test_a_rewritten_topic_may_be_a_delayed_one() -> None:
    node = Node('rewrite = [{ source_topic = "a", re = "^a$", dest_topic = "$delayed/10/b" }]')
    peer = node.connect()
    peer.subscribe("#")
    peer.publish("a", b"x")
    assert peer.heard() == []
    node.advance(10)
    assert peer.heard() == ["PUBLISH b 'x' q0"]


def test_an_expression_that_never_ends_costs_little(caplog: pytest.LogCaptureFixture) -> None:
    node = Node('rewrite = [{ source_topic = "#", re = "^(a|aa)+[bc]$", dest_topic = "b" }]')
    peer = node.connect()
    peer.subscribe("#")
    for number in range(50):
        peer.publish("a" * (50 + number), b"x")
    assert len(peer.received()) == 50
    assert node.statistics()["rewrite.timeouts"] == 50
    assert caplog.text.count("takes too long; the topic stays") == 1  # the others were not tried
    node.advance(2)
    peer.publish("a" * 200, b"x")
    assert caplog.text.count("takes too long; the topic stays") == 2


def test_what_is_known_of_topics_is_bounded() -> None:
    node = Node(RULES)
    peer = node.connect()
    peer.subscribe("z/#")
    for number in range(10_050):
        peer.publish(f"x/y/{number}", b"")
    assert len(peer.received()) == 10_050
    assert node.statistics()["rewrite.known_topics"] <= 10_000


def test_invalid_filters_are_the_channels_affair() -> None:
    node = Node(RULES)
    peer = node.connect()
    assert peer.subscribe("y/#/z") == [0x8F]
    assert peer.subscribe("$share/g") == [0x8F]


def test_without_rules_nothing_is_hooked_in() -> None:
    node = Node("delayed.enable = false\nrewrite = [{}]")
    assert node.broker.hooks.message_publish.callbacks == []
    assert node.broker.hooks.point("client.subscribe").callbacks == []

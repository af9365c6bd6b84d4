"""Rules that come and go while the broker runs."""

import pytest

from heliograph.config.republish import RepublishAction
from heliograph.config.rules import PipelineAction, RuleConfig
from heliograph.rules.engine.errors import PipelineStorageError, RuleActionError
from heliograph.rules.errors import RuleSyntaxError
from support.cases import cases
from support.services import Node


def say(word: str) -> RuleConfig:
    return RuleConfig(sql="SELECT 1 AS n FROM 't'", actions=(RepublishAction("out", word),))


def heard(node: Node) -> list[str]:
    peer = node.connect("c")
    peer.subscribe("out")
    peer.publish("t", b"")
    return peer.heard()


def test_rules_are_added_replaced_and_removed() -> None:
    node = Node("")
    node.change_rules(a=say("one"), b=say("two"))
    assert heard(node) == ["PUBLISH out 'one' q0", "PUBLISH out 'two' q0"]
    node.change_rules(a=say("three"))
    assert heard(node) == ["PUBLISH out 'three' q0", "PUBLISH out 'two' q0"]
    node.change_rules(b=None)
    assert heard(node) == ["PUBLISH out 'three' q0"]
    assert [rule.rule_id for rule in node.rules] == ["a"]
    assert node.statistics()["rules.a.matched"] == 3
    assert "rules.b.matched" not in node.statistics()


def test_where_one_rule_is_broken_all_stay_as_they_were() -> None:
    node = Node("")
    node.change_rules(a=say("one"))
    with pytest.raises(RuleSyntaxError, match="line 1, column 8"):
        node.change_rules(a=RuleConfig(sql="SELECT FROM t"))
    with pytest.raises(RuleSyntaxError):
        node.change_rules(a=say("two"), b=RuleConfig(sql="nonsense"))
    assert heard(node) == ["PUBLISH out 'one' q0"]
    assert [rule.rule_id for rule in node.rules] == ["a"]


def test_rows_for_the_pipeline_need_storage() -> None:
    node = Node("")
    with pytest.raises(PipelineStorageError, match=r"durable_storage\.messages\.topics"):
        node.change_rules(a=RuleConfig(sql="SELECT 1 AS n FROM 't'", actions=(PipelineAction(),)))
    assert list(node.rules) == []


@cases("topic", ["a/#", "$pipeline/a", "a\0", "x" * 70_000])
def test_a_topic_to_which_nobody_can_publish_is_refused(topic: str) -> None:
    node = Node("")
    with pytest.raises(RuleActionError, match="the rule 'a': "):
        node.change_rules(a=RuleConfig(sql="SELECT 1 AS n FROM 't'", actions=(RepublishAction(topic),)))
    assert list(node.rules) == []


def test_a_thousand_rules_are_listed_and_all_are_summed() -> None:
    node = Node("")
    node.change_rules(**{f"r{number}": RuleConfig(sql=f"SELECT 1 AS n FROM 't/{number}'") for number in range(1005)})
    node.connect("c").publish("t/1004", b"")
    numbers = node.statistics()
    assert numbers["rules.count"] == 1005
    assert numbers["rules.matched"] == 1
    assert "rules.r999.matched" in numbers
    assert "rules.r1000.matched" not in numbers


def test_stopped_rules_publish_what_waits_and_nothing_more() -> None:
    node = Node("")
    node.change_rules(a=say("one"))
    peer = node.connect("c")
    peer.subscribe("out")
    node.stop()
    peer.publish("t", b"")
    assert peer.heard() == []
    assert not node.broker.hooks.message_publish.callbacks


def test_rows_for_the_pipeline_count_when_they_are_stored_or_refused(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(stored=["stored"])
    node.change_rules(a=RuleConfig(sql="SELECT 1 AS n FROM 't'", actions=(PipelineAction(),)))
    peer = node.connect("c")
    for _ in range(2):
        peer.publish("t")
    node.sink.cut()
    for _ in range(3):
        peer.publish("t")
    assert node.statistics()["rules.a.actions.total"] == 0
    node.rules.on_rows_stored(1, None)
    node.rules.on_rows_stored(2, OSError("the disk is full"))
    counts = node.statistics()
    assert (counts["rules.a.actions.pending"], counts["rules.a.actions.failed"]) == (2, 3)
    assert (counts["rules.a.actions.success"], counts["rules.a.actions.total"]) == (0, 5)
    assert "3 rows of rule a for the pipeline are not stored: the disk is full" in caplog.text


@cases(("qos", "answer"), [(1, "PUBACK #7"), (2, "PUBREC #7")])
def test_a_message_that_is_kept_as_rows_only_is_acknowledged_when_they_are_durable(qos: int, answer: str) -> None:
    node = Node(stored=["stored"])
    node.change_rules(a=RuleConfig(sql="SELECT 1 AS n FROM 't'", actions=(PipelineAction(),)))
    peer = node.connect("c")
    peer.publish("other", b"", qos, 6)
    assert peer.heard() == [answer.replace("7", "6 0x10")]
    peer.publish("t", b"", qos, 7)
    assert peer.heard() == []
    node.commit()
    assert peer.heard() == [f"{answer} 0x10"]

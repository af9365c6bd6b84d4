"""Rules that come and go while the broker runs."""

import pytest

from heliograph.config import PipelineAction, RepublishAction, RuleConfig
from heliograph.rules import RuleSyntaxError
from heliograph.rules.engine import PipelineStorageError, RuleActionError, RuleExistsError, UnknownRuleError
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
    rules = node.rules
    rules.add("a", say("one"))
    rules.add("b", say("two"))
    assert heard(node) == ["PUBLISH out 'one' q0", "PUBLISH out 'two' q0"]
    rules.replace("a", say("three"))
    assert heard(node) == ["PUBLISH out 'three' q0", "PUBLISH out 'two' q0"]
    rules.remove("b")
    assert heard(node) == ["PUBLISH out 'three' q0"]
    assert [rule.rule_id for rule in rules.all()] == ["a"]
    assert rules.get("b") is None
    assert node.statistics()["rules.a.matched"] == 3
    assert "rules.b.matched" not in node.statistics()


def test_a_broken_rule_is_refused_and_the_old_one_stays() -> None:
    node = Node("")
    rules = node.rules
    rules.add("a", say("one"))
    with pytest.raises(RuleSyntaxError, match="line 1, column 8"):
        rules.replace("a", RuleConfig(sql="SELECT FROM t"))
    with pytest.raises(RuleSyntaxError):
        rules.add("b", RuleConfig(sql="nonsense"))
    assert heard(node) == ["PUBLISH out 'one' q0"]
    assert rules.get("b") is None


def test_names_are_unique_and_known() -> None:
    rules = Node("").rules
    rules.add("a", say("one"))
    with pytest.raises(RuleExistsError, match="'a'"):
        rules.add("a", say("two"))
    with pytest.raises(UnknownRuleError, match="'b'"):
        rules.replace("b", say("two"))
    with pytest.raises(UnknownRuleError, match="'b'"):
        rules.remove("b")


def test_rows_for_the_pipeline_need_storage() -> None:
    rules = Node("").rules
    with pytest.raises(PipelineStorageError, match=r"durable_storage\.messages\.topics"):
        rules.add("a", RuleConfig(sql="SELECT 1 AS n FROM 't'", actions=(PipelineAction(),)))
    assert rules.all() == []


@pytest.mark.parametrize("topic", ["a/#", "$pipeline/a", "a\0", "x" * 70_000])
def test_a_topic_to_which_nobody_can_publish_is_refused(topic: str) -> None:
    rules = Node("").rules
    with pytest.raises(RuleActionError, match="the rule 'a': "):
        rules.add("a", RuleConfig(sql="SELECT 1 AS n FROM 't'", actions=(RepublishAction(topic),)))
    assert rules.all() == []


def test_a_thousand_rules_are_listed_and_all_are_summed() -> None:
    node = Node("")
    for number in range(1005):
        node.rules.add(f"r{number}", RuleConfig(sql=f"SELECT 1 AS n FROM 't/{number}'"))
    node.connect("c").publish("t/1004", b"")
    numbers = node.statistics()
    assert numbers["rules.count"] == 1005
    assert numbers["rules.matched"] == 1
    assert "rules.r999.matched" in numbers
    assert "rules.r1000.matched" not in numbers


def test_stopped_rules_publish_what_waits_and_nothing_more() -> None:
    node = Node("")
    node.rules.add("a", say("one"))
    peer = node.connect("c")
    peer.subscribe("out")
    node.stop()
    peer.publish("t", b"")
    assert peer.heard() == []
    assert not node.broker.hooks.message_publish.callbacks


def test_rows_for_the_pipeline_count_when_they_are_stored_or_refused(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(stored=["stored"])
    rules = node.rules
    rules.add("a", RuleConfig(sql="SELECT 1 AS n FROM 't'", actions=(PipelineAction(),)))
    peer = node.connect("c")
    for _ in range(2):
        peer.publish("t")
    node.sink.cut()
    for _ in range(3):
        peer.publish("t")
    assert node.statistics()["rules.a.actions.total"] == 0
    rules.on_rows_stored(1, None)
    rules.on_rows_stored(2, OSError("the disk is full"))
    counts = node.statistics()
    assert (counts["rules.a.actions.success"], counts["rules.a.actions.failed"]) == (2, 3)
    assert "3 rows of rule a for the pipeline are not stored: the disk is full" in caplog.text

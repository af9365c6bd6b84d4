"""How a node decides what clients may do: its own authorization, callbacks, and the default."""

from heliograph.broker import hooks
from heliograph.broker.actions import (
    ALLOWED_BY_DEFAULT,
    DENIED_BY_DEFAULT,
    FAILED_CHECK,
    Action,
    Decision,
    publish_action,
    subscribe_action,
)
from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import Hooks, PendingChain
from heliograph.broker.node_rights import WAIT, Authority, NodeRights
from heliograph.broker.pending import Pending
from support.cases import cases

CLIENT = ClientInfo("c", None, "192.0.2.1:50000")
PUBLISH, SUBSCRIBE = publish_action(1, False), subscribe_action(2)
BY_FILE = Decision(False, "file", "{deny, all}")


class Sources(Authority):
    """The node's own authorization: knows what it is told, and can be asked about one topic only later."""

    def __init__(self, decisions: dict[str, Decision]) -> None:
        super().__init__()
        self.decisions = decisions
        self.asked: list[str] = []
        self.answer: Pending[object] = Pending()

    def decide(self, client: ClientInfo, action: Action, topic: str) -> Decision | None:
        self.asked.append(f"{action.kind} {topic}")
        if topic == "broken":
            raise OSError
        return self.decisions.get(topic)

    def on_authorize(self, client: ClientInfo, action: Action, topic: str, outcome: object) -> object:
        self.asked.append(f"callback {topic}")
        if topic == "later":
            return self.answer
        decision = self.decisions.get(topic)
        return None if decision is None else (hooks.STOP, decision)


def rights_with(sources: Authority | None = None) -> tuple[Hooks, NodeRights]:
    points = Hooks()
    rights = NodeRights(points)
    rights.set_authority(sources)
    return points, rights


def test_the_nine_actions() -> None:
    actions = [publish_action(qos, retain) for qos in (0, 1, 2) for retain in (False, True)]
    actions += [subscribe_action(qos) for qos in (0, 1, 2)]
    assert [action.number for action in actions] == list(range(9))
    assert publish_action(2, True) is publish_action(2, True)
    assert (publish_action(2, True).kind, publish_action(2, True).qos, publish_action(2, True).retain) == (
        "publish", 2, True
    )  # fmt: skip
    assert (SUBSCRIBE.kind, SUBSCRIBE.qos, SUBSCRIBE.retain) == ("subscribe", 2, False)


def test_without_anything_that_denies_nothing_is_checked() -> None:
    points, rights = rights_with()
    checked = [rights.is_checked]
    rights.set_no_match(DENIED_BY_DEFAULT)
    checked.append(rights.is_checked)
    assert rights.ask(CLIENT, PUBLISH, "t") is DENIED_BY_DEFAULT
    rights.set_no_match(ALLOWED_BY_DEFAULT)
    checked.append(rights.is_checked)
    points.client_authorize.add(lambda *_: None)
    assert [*checked, rights.is_checked] == [False, True, False, True]


def test_the_nodes_own_authorization_is_asked_without_a_chain() -> None:
    sources = Sources({"no": BY_FILE})
    _, rights = rights_with(sources)
    assert rights.ask(CLIENT, PUBLISH, "no") is BY_FILE
    assert rights.ask(CLIENT, PUBLISH, "unknown") is ALLOWED_BY_DEFAULT
    assert sources.asked == ["publish no", "publish unknown"]


def test_what_it_cannot_say_at_once_is_a_callbacks_answer() -> None:
    sources = Sources({"later": WAIT})
    _, rights = rights_with(sources)
    outcome = rights.ask(CLIENT, SUBSCRIBE, "later")
    assert isinstance(outcome, PendingChain)
    assert sources.asked == ["subscribe later", "callback later"]


def test_other_callbacks_are_asked_where_the_sources_know_nothing() -> None:
    sources = Sources({"no": BY_FILE})
    points, rights = rights_with(sources)
    points.client_authorize.add(
        lambda client, action, topic, outcome: (hooks.STOP, "deny") if topic == "mine" else None
    )
    decisions = [rights.ask(CLIENT, PUBLISH, topic) for topic in ("no", "mine", "other")]
    assert [str(decision) for decision in decisions] == [
        "Decision(deny by file: {deny, all})", "Decision(deny by plugin)", "Decision(allow by default)"
    ]  # fmt: skip


@cases("has_other", [False, True])
def test_an_authorization_that_raises_denies_and_is_reported(has_other: bool) -> None:
    class Broken(Sources):
        def on_authorize(self, client: ClientInfo, action: Action, topic: str, outcome: object) -> object:
            raise OSError

    points, rights = rights_with(Broken({}))
    if has_other:
        points.client_authorize.add(lambda *_: (hooks.STOP, "allow"))
    assert rights.ask(CLIENT, PUBLISH, "broken") is FAILED_CHECK
    assert points.client_authorize.failures_count == 1


def test_another_authorization_takes_the_place_of_the_one_before() -> None:
    first, second = Sources({"no": BY_FILE}), Sources({})
    points, rights = rights_with(first)
    epoch = rights.epoch
    rights.set_authority(second)
    assert rights.ask(CLIENT, PUBLISH, "no") is ALLOWED_BY_DEFAULT
    assert rights.epoch > epoch
    rights.set_authority(None)
    assert points.client_authorize.callbacks == []


def test_remembered_decisions_are_told_to_callbacks_that_want_them() -> None:
    points, rights = rights_with()
    seen = [rights.wants_cached]
    points.client_check_authz_complete.add(lambda *_: None, wants=lambda what: what == "deny")
    assert (rights.wants_allowed, rights.wants_denied) == (False, True)
    seen.append(rights.wants_cached)
    points.client_check_authz_complete.add(lambda *_: None)
    assert [*seen, rights.wants_cached] == [False, False, True]

"""Prepared rules decide as a plain reading of the rules, one after the other, does."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from heliograph.access.acl.conf import read_acl_conf
from heliograph.access.acl.rows import rules_of_rows
from heliograph.access.acl.rules import Rule
from heliograph.broker.actions import Action, publish_action, subscribe_action
from heliograph.broker.client import ClientInfo

ACTIONS = [publish_action(qos, retain) for qos in (0, 1, 2) for retain in (False, True)]
ACTIONS += [subscribe_action(qos) for qos in (0, 1, 2)]

levels = st.sampled_from(["a", "b", "", "+", "#", "$x", "${clientid}", "${username}", "x${client_attrs.s}"])
filters = st.lists(levels, min_size=1, max_size=4).map("/".join)
names = st.sampled_from(["a", "b", "a/b", "+", "#", "", "$x"])
rows = st.fixed_dictionaries(
    {
        "permission": st.sampled_from(["allow", "deny"]),
        "action": st.sampled_from(["publish", "subscribe", "all"]),
        "topics": st.lists(filters | filters.map("eq {}".format), max_size=3),
        "qos": st.none() | st.lists(st.integers(0, 2), max_size=2),
        "retain": st.sampled_from([None, True, False]),
        "clientid_re": st.sampled_from([None, "a", "^b$"]),
    }
)


def plain_verdict(rows: Sequence[dict[str, object]], client: ClientInfo, action: Action, topic: str) -> str | None:
    """What the first rule says that matches, by the words of the documentation."""
    for row in rows:
        if _is_about(row, client, action) and any(_has(row, text, client, action, topic) for text in _texts(row)):
            return str(row["permission"])
    return None


def _texts(row: dict[str, object]) -> list[str]:
    topics = row["topics"]
    assert isinstance(topics, list)
    return topics


def _is_about(row: dict[str, object], client: ClientInfo, action: Action) -> bool:
    qos, retain, expression = row["qos"], row["retain"], row["clientid_re"]
    if row["action"] not in ("all", action.kind) or (isinstance(qos, list) and action.qos not in qos):
        return False
    if action.kind == "publish" and retain is not None and retain != action.retain:
        return False
    return expression is None or (client.clientid == "b" if expression == "^b$" else "a" in client.clientid)


def _has(row: dict[str, object], text: str, client: ClientInfo, action: Action, topic: str) -> bool:
    if text.startswith("eq "):
        return topic == text[3:]
    filled = _filled(text, client)
    if filled is None:
        return False
    asked = topic.split("/")
    if (
        row["permission"] == "allow"
        and action.kind == "subscribe"
        and any(own in ("+", "#") for own, is_own in filled if is_own)
    ):
        return False
    has_rest = filled[-1] == ("#", False)
    wanted = filled[:-1] if has_rest else filled
    if len(asked) < len(wanted) or (len(asked) > len(wanted) and not has_rest):
        return False
    if topic.startswith("$") and filled[0] in (("+", False), ("#", False)):
        return False
    pairs = zip(asked, wanted, strict=False)
    return all(level != "#" if want == ("+", False) else level == want[0] for level, want in pairs)


def _filled(text: str, client: ClientInfo) -> list[tuple[str, bool]] | None:
    """The levels of a filter, each with whether the client's values stand in it; None if it lacks one."""
    filled: list[tuple[str, bool]] = []
    for level in text.split("/"):
        name = level[level.find("{") + 1 : -1]
        if "${" not in level:
            filled.append((level, False))
            continue
        value = {"clientid": client.clientid, "username": client.username}.get(name, client.client_attrs.get("s"))
        if value is None:
            return None
        filled += [(part, True) for part in (level[: level.find("$")] + value).split("/")]
    return filled


@given(st.lists(rows, max_size=6), names, st.none() | names, st.none() | names, filters | names)
def test_prepared_rules_decide_as_a_plain_reading_does(
    given_rows: list[dict[str, object]], clientid: str, username: str | None, attribute: str | None, topic: str
) -> None:
    client = ClientInfo(clientid, username, "10.0.0.1:5")
    client.client_attrs = {} if attribute is None else {"s": attribute}
    prepared = rules_of_rows(given_rows).prepared(client)
    for action in ACTIONS:
        rule = prepared.check(action, topic)
        assert (None if rule is None else rule.verdict) == plain_verdict(given_rows, client, action, topic)


@given(st.text(max_size=80) | st.text(alphabet="{}[]\"'<>.,%$#\\allowdeny 1", max_size=60))
def test_whatever_the_text_is_it_has_rules_or_mistakes_with_a_place(text: str) -> None:
    from heliograph.access.acl.errors import AclError

    try:
        read_acl_conf(text)
    except AclError as error:
        lines = text.split("\n")
        for fault in error.faults:
            assert 1 <= fault.line <= len(lines)
            assert 1 <= fault.column <= len(lines[fault.line - 1]) + 1


def test_clients_whom_the_same_rules_are_about_share_what_does_not_depend_on_them() -> None:
    rules = read_acl_conf('{deny, {username, "x"}, all, ["t"]}. {allow, all, all, ["t", "c/${clientid}"]}.')
    for number in range(3):
        client = ClientInfo(f"c{number}", "x" if number == 1 else None, "")
        prepared = rules.prepared(client)
        assert _verdict(prepared.check(ACTIONS[0], "t")) == ("deny" if number == 1 else "allow")
        assert _verdict(prepared.check(ACTIONS[0], f"c/c{number}")) == "allow"
        assert prepared.check(ACTIONS[0], "c/c7") is None


def test_a_rule_knows_its_text_and_line() -> None:
    rules = read_acl_conf('% first\n{deny, all, all,\n   ["a"]}.\n\n  {allow, all}.')
    client = ClientInfo("c", None, "")
    first, second = rules.check(client, ACTIONS[0], "a"), rules.check(client, ACTIONS[0], "b")
    assert first is not None
    assert second is not None
    assert (first.text, first.line) == ('{deny, all, all, ["a"]}', 2)
    assert (second.text, second.line) == ("{allow, all}", 5)
    of_row = rules_of_rows([{"permission": "allow", "action": "all", "topic": "ü"}]).check(client, ACTIONS[0], "ü")
    assert of_row is not None
    assert (of_row.text, of_row.line) == ('{"permission": "allow", "action": "all", "topic": "ü"}', 0)


def test_bad_objects_of_a_database_are_left_out_and_told() -> None:
    told: list[str] = []
    good = {"permission": "allow", "action": "all", "topic": "t"}
    rules = rules_of_rows([good, {**good, "qos": 9}, 5, good], told.append)
    assert len(rules) == 2
    assert [text.partition(":")[0] for text in told] == ["rule 2", "rule 3"]


def test_a_client_has_bounded_time_for_all_expressions() -> None:
    expression = '{deny, {username, {re, "^(a|aa)+$"}}, all, ["t"]}.\n'
    client = ClientInfo("c", "a" * 64 + "b", "")
    rules = read_acl_conf(expression * 2000)  # with the time of each it would take a minute
    assert _verdict(rules.check(client, ACTIONS[0], "t")) == "deny"


def _verdict(rule: Rule | None) -> str | None:
    return None if rule is None else rule.verdict

"""Rules of EMQX's built-in database, as its table has them, to the text of an `acl.conf`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from heliograph.access.acl.conf import read_acl_conf
from heliograph.access.acl.errors import AclError
from heliograph.migration.acl_text import quoted, rule_text, topic_text
from heliograph.migration.emqx.archive import Row
from heliograph.migration.emqx.terms import Atom, Term

_KINDS: Final = {1: "username", 2: "clientid"}
_ORDER: Final = (2, 1, 0)  # of client ids, of user names, of all


class RuleRefusedError(ValueError):
    """A rule in a form that is not known; the text says whose it is."""


def built_in_rules(rows: Iterable[Row]) -> Iterator[str]:
    """The rules in the order in which EMQX asks them; raises `RuleRefusedError`."""
    owned = [(*_owner(row.get("who", 0)), row.get("rules")) for row in rows]
    for wanted in _ORDER:
        for kind, name, rules in owned:
            if kind == wanted and isinstance(rules, list):
                for rule in rules:
                    yield _checked(kind, name, rule)


def _owner(who: Term) -> tuple[int, str]:
    if who == 0:
        return 0, ""
    if isinstance(who, tuple) and len(who) == 2 and isinstance(who[1], bytes) and who[0] in (1, 2):
        return (1 if who[0] == 1 else 2), who[1].decode(errors="replace")
    raise RuleRefusedError("rules of an owner whose form is not known")


def _checked(kind: int, name: str, rule: Term) -> str:
    whose = f"{_KINDS[kind]} {name}" if kind else "all clients"
    try:
        text = _rule(kind, name, rule)
        read_acl_conf(text)
    except (AclError, ValueError) as error:
        raise RuleRefusedError(f"a rule of {whose}: {error}") from None
    return text


def _rule(kind: int, name: str, rule: Term) -> str:
    if not isinstance(rule, tuple) or len(rule) not in (3, 4):
        raise ValueError("it is no rule")
    who = [f"{{{_KINDS[kind]}, {quoted(name)}}}"] if kind else []
    if len(rule) == 4 and rule[1] != Atom("all"):
        who.append(_text(rule[1]))
    return rule_text(_text(rule[0]), who, _action(rule[-2]), _topics(rule[-1]))


def _action(action: Term) -> str:
    if not isinstance(action, dict):
        return _text(action)
    options = [f"{{{name}, {_text(action[Atom(name)])}}}" for name in ("qos", "retain") if Atom(name) in action]
    return f"{{{_text(action[Atom('action_type')])}, [{', '.join(options)}]}}"


def _topics(topics: Term) -> list[str]:
    listed = topics if isinstance(topics, list) and not _is_string(topics) else [topics]
    return [_topic(topic) for topic in listed]


def _topic(topic: Term) -> str:
    if isinstance(topic, tuple) and len(topic) == 2 and topic[0] == Atom("eq"):
        return f"{{eq, {quoted(_plain(topic[1]))}}}"
    return topic_text(_plain(topic))


def _plain(text: Term) -> str:
    if isinstance(text, bytes):
        return text.decode()
    if isinstance(text, list) and _is_string(text):
        return "".join(chr(each) for each in text if isinstance(each, int))
    raise ValueError("its topic has a form that is not known")


def _is_string(items: list[Term]) -> bool:
    return bool(items) and all(isinstance(each, int) and 0 <= each < 0x110000 for each in items)


def _text(term: Term) -> str:
    """A term as the file has it."""
    if isinstance(term, Atom):
        if not term.replace("_", "").isalnum():
            raise ValueError("it has an atom that is not known")
        return f"'{term}'" if term in ("and", "or") else str(term)
    if isinstance(term, bytes):
        return quoted(term.decode())
    if isinstance(term, bool | int):
        return str(term)
    if isinstance(term, tuple):
        return f"{{{', '.join(map(_text, term))}}}"
    if (
        isinstance(term, list) and _is_string(term) and all(each != 0 and each not in (1, 2) for each in term)
    ):  # a QoS is less
        return quoted(_plain(term))
    if isinstance(term, list):
        return f"[{', '.join(map(_text, term))}]"
    raise ValueError("it has a term that is not known")

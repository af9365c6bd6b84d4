"""Rule objects: rows of SQL, documents, `acl` of an HTTP answer or a JWT, and what the API has, to rules."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from heliograph.access.acl.actions import ALL, EVERY_QOS, action_bits
from heliograph.access.acl.conditions import (
    AllOf,
    Condition,
    Equals,
    Field,
    InNetwork,
    MatchesExpression,
    clientid_of,
    listener_of,
    username_of,
    zone_of,
)
from heliograph.access.acl.errors import AclError, AclFault
from heliograph.access.acl.rules import Rule, Rules, shortened
from heliograph.access.acl.topics import RuleTopic
from heliograph.broker.actions import ALLOW, DENY, PUBLISH, SUBSCRIBE

Row: TypeAlias = Mapping[str, object]

_ACTIONS: Final = {"publish": PUBLISH, "pub": PUBLISH, "subscribe": SUBSCRIBE, "sub": SUBSCRIBE, "all": ALL}
_QOS: Final = {str(qos): qos for qos in EVERY_QOS}
_TRUE: Final = ("true", "1")
_FALSE: Final = ("false", "0")
_EXACT: Final[dict[str, Field]] = {"zone": zone_of, "listener": listener_of}
_EXPRESSIONS: Final[dict[str, Field]] = {
    "username_re": username_of,
    "clientid_re": clientid_of,
    "zone_re": zone_of,
    "listener_re": listener_of,
}
_ADDRESS: Final = "ipaddr"
_SHOWN_MAX: Final = 100
_JSON: Final = json.JSONEncoder(ensure_ascii=False, default=str)


def rules_of_rows(rows: Iterable[object], on_fault: Callable[[str], None] | None = None) -> Rules:
    """The rules of rule objects, in their order.

    Args:
        on_fault: Called for each object that is no rule, which is left out then.

    Raises:
        AclError: One of them is no rule, and there is no `on_fault`.
    """
    rules: list[Rule] = []
    faults: list[AclFault] = []
    for number, row in enumerate(rows, 1):
        try:
            rules.append(rule_of_row(row))
        except RowError as error:
            faults.append(AclFault(f"rule {number}: {error}"))
    if faults and on_fault is None:
        raise AclError(faults)
    for fault in faults:
        if on_fault is not None:
            on_fault(str(fault))
    return Rules(rules)


class RowError(ValueError):
    """A rule object that is no rule; the text says why."""


def rule_of_row(row: object) -> Rule:
    """The rule of a rule object. Keys that are not known do not count.

    Raises:
        RowError: It is not one.
    """
    if not isinstance(row, Mapping):
        raise RowError(f"{_shown(row)} is no object with permission, action and topic")
    permission, action = _text(row.get("permission")), _text(row.get("action"))
    if permission not in (ALLOW, DENY):
        raise RowError(f"permission is {_shown(row.get('permission'))}; allow and deny are valid")
    if action is None or action not in _ACTIONS:
        raise RowError(f"action is {_shown(row.get('action'))}; publish, subscribe and all are valid")
    kind = _ACTIONS[action]
    bits = action_bits(kind, _qos(row.get("qos")), None if kind == SUBSCRIBE else _retain(row.get("retain")))
    topics = [RuleTopic(topic) for topic in _topics(row)]
    return Rule(permission == ALLOW, _condition(row), bits, topics, shortened(_written(row)))


def _topics(row: Row) -> list[str]:
    topic = _text(row.get("topic"))
    if topic is not None:
        return [topic]
    topics = row.get("topics")
    if not isinstance(topics, list | tuple):
        name = "topic" if topics is None else "topics"
        raise RowError(f"{name} is {_shown(row.get(name))}; a topic, or topics as a list of texts, are valid")
    texts = [_text(each) for each in topics]
    if None in texts:
        raise RowError(f"topics has {_shown(topics[texts.index(None)])}; texts are valid")
    return [text for text in texts if text is not None]


def _qos(value: object) -> Sequence[int]:
    if value is None:
        return EVERY_QOS
    text = _text(value)
    given = text.split(",") if text is not None else value if isinstance(value, list | tuple) else [value]
    qos = []
    for each in given:
        number = _QOS.get(_text(each) or "", each)
        if isinstance(number, bool) or not isinstance(number, int) or number not in EVERY_QOS:
            raise RowError(f"qos is {_shown(value)}; 0, 1, 2, a list of them or a text like '0,1' is valid")
        qos.append(number)
    return qos


def _retain(value: object) -> bool | None:
    text = _text(value)
    if value is None or text == ALL:
        return None
    if value is True or text in _TRUE or (type(value) is int and value == 1):
        return True
    if value is False or text in _FALSE or (type(value) is int and value == 0):
        return False
    raise RowError(f"retain is {_shown(value)}; true, false, 1, 0 and all are valid")


def _condition(row: Row) -> Condition | None:
    conditions: list[Condition] = []
    for name, field in _EXACT.items():
        if row.get(name) is not None:
            conditions.append(Equals(field, _wanted(row, name)))
    try:
        for name, field in _EXPRESSIONS.items():
            if row.get(name) is not None:
                conditions.append(MatchesExpression(field, _wanted(row, name)))
        name = _ADDRESS
        if row.get(name) is not None:
            conditions.append(InNetwork(_wanted(row, name)))
    except RowError:
        raise
    except ValueError as error:
        raise RowError(f"{name}: {error}") from None
    return AllOf(conditions) if conditions else None


def _wanted(row: Row, name: str) -> str:
    text = _text(row.get(name))
    if not text:
        raise RowError(f"{name} is {_shown(row.get(name))}; a text that is not empty is valid")
    return text


def _text(value: object) -> str | None:
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "surrogateescape")
    return value if isinstance(value, str) else None


def _written(row: Row) -> str:
    try:
        return _JSON.encode(dict(row))
    except (ValueError, RecursionError, TypeError):
        return "an object that cannot be shown"


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number with thousands of digits
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."

"""`acl.conf`: rules as Erlang terms. A text is accepted as a whole, or refused with every mistake in it."""

from collections.abc import Callable
from typing import Final

from heliograph.access.acl.actions import ALL, EVERY_QOS, EVERYTHING, KINDS, action_bits
from heliograph.access.acl.conditions import (
    AllOf,
    AnyOf,
    Condition,
    Equals,
    Field,
    InNetwork,
    MatchesExpression,
    attribute_of,
    clientid_of,
    listener_of,
    username_of,
    zone_of,
)
from heliograph.access.acl.errors import AclError, AclFault
from heliograph.access.acl.rules import Rule, Rules, shortened
from heliograph.access.acl.terms import BINARY, LIST, TUPLE, Term, TermReader
from heliograph.access.acl.tokens import ATOM, INTEGER, STRING
from heliograph.access.acl.topics import RuleTopic
from heliograph.broker.actions import ALLOW, SUBSCRIBE

_PERMISSIONS: Final = ("allow", "deny")
_FORMS: Final = "a rule is {allow|deny, all}. or {allow|deny, WHO, ACTION, TOPICS}."
_ACTIONS: Final = "an action is publish, subscribe, all, or one with options, as {publish, [{qos, 1}, {retain, false}]}"
_TOPICS: Final = 'topics are all or a list, as ["a/#", {eq, "a/+"}]'
_FIELDS: Final[dict[str, Field]] = {
    "username": username_of,
    "user": username_of,
    "clientid": clientid_of,
    "client": clientid_of,
    "zone": zone_of,
    "listener": listener_of,
}
_WHO: Final = (
    'WHO is all, {username|clientid|zone|listener, "TEXT"}, {client_attr, "NAME", "TEXT"}, {ipaddr, "10.0.0.0/8"}, '
    '{ipaddrs, ["10.0.0.0/8"]}, {\'and\'|\'or\', [WHO, ...]}; in the place of "TEXT" may stand {re, "EXPRESSION"}'
)
_DEPTH_MAX: Final = 32
_CODE_POINT_MAX: Final = 0x10FFFF
_NOBODY: Final = AnyOf(())


def read_acl_conf(text: str | bytes) -> Rules:
    """The rules of a text; a mistake in it raises `AclError`."""
    return Rules(_ConfReader(_decoded(text)).rules())


def _decoded(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        before = text[: error.start]
        line, column = before.count(b"\n") + 1, len(before.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
        raise AclError([AclFault(f"byte 0x{text[error.start]:02x} is not UTF-8", line, column)]) from None


class _ConfReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._terms = TermReader(text)
        self._faults = self._terms.faults
        self._who = WhoReader(self._refuse, self._terms.shown)

    def rules(self) -> list[Rule]:
        rules = [self._rule(term) for term in self._terms.terms()]
        if self._faults:
            raise AclError(sorted(self._faults, key=lambda fault: (fault.line, fault.column)))
        return rules

    def _refuse(self, term: Term, problem: str) -> None:
        self._faults.append(AclFault(problem, *self._terms.scanner.position(term.begin)))

    def _rule(self, term: Term) -> Rule:
        parts, line = term.items, self._terms.scanner.position(term.begin)[0]
        text = shortened(" ".join(self._text[term.begin : term.end].split()))
        if term.kind != TUPLE or len(parts) not in (2, 4):
            self._refuse(term, f"found {self._terms.shown(term)}; {_FORMS}")
            return Rule(False, None, 0, [], text, line)
        if not parts[0].is_atom(*_PERMISSIONS):
            self._refuse(parts[0], f"found {self._terms.shown(parts[0])}; a rule begins with allow or deny")
        is_allowing = parts[0].value == ALLOW
        if len(parts) == 2:
            if not parts[1].is_atom(ALL):
                self._refuse(parts[1], f"found {self._terms.shown(parts[1])}; {_FORMS}")
            return Rule(is_allowing, None, EVERYTHING, [RuleTopic(None)], text, line)
        condition = self._who.condition(parts[1])
        return Rule(is_allowing, condition, self._actions(parts[2]), self._topics(parts[3]), text, line)

    # --- actions

    def _actions(self, term: Term) -> int:
        kind = term
        options: tuple[Term, ...] = ()
        if term.kind == TUPLE and len(term.items) == 2:
            kind = term.items[0]
            if term.items[1].kind not in (LIST, STRING):
                self._refuse(term.items[1], f"found {self._terms.shown(term.items[1])}; options are a list; {_ACTIONS}")
            options = term.items[1].items
        if kind.kind != ATOM or kind.value not in KINDS:
            self._refuse(kind, f"found {self._terms.shown(kind)}; {_ACTIONS}")
            return 0
        qos = self._qos(options)
        return action_bits(str(kind.value), qos, None if kind.value == SUBSCRIBE else self._retain(options))

    def _qos(self, options: tuple[Term, ...]) -> list[int]:
        """The QoS of all options of that name; every one if there is no such option."""
        given = [option for option in options if _is_option(option, "qos")]
        if not given:
            return list(EVERY_QOS)
        qos: list[int] = []
        for option in given:
            for value in _elements(option.items[1] if option.items else option):
                if value.kind == INTEGER and value.value in EVERY_QOS:
                    qos.append(int(value.value))
                else:
                    self._refuse(value, f"found {self._terms.shown(value)}; a QoS is 0, 1, 2 or a list of them")
        return qos

    def _retain(self, options: tuple[Term, ...]) -> bool | None:
        """What the first option of that name says; None for both."""
        for option in options:
            if _is_option(option, "retain"):
                if option.kind == ATOM:
                    return True
                if not option.items[1].is_atom("true", "false", ALL):
                    shown = self._terms.shown(option.items[1])
                    self._refuse(option.items[1], f"found {shown}; retain is true, false or all")
                return None if option.items[1].value == ALL else option.items[1].value == "true"
        return None

    # --- topics

    def _topics(self, term: Term) -> list[RuleTopic]:
        if term.is_atom(ALL):
            return [RuleTopic(None)]
        if term.kind == STRING and term.value == "":  # the same as []
            return []
        if term.kind != LIST:
            self._refuse(term, f"found {self._terms.shown(term)}; {_TOPICS}")
            return []
        return [topic for topic in map(self._topic, term.items) if topic is not None]

    def _topic(self, term: Term) -> RuleTopic | None:
        is_equal = term.kind == TUPLE and len(term.items) == 2 and term.items[0].is_atom("eq")
        text = self._who.text(term.items[1] if is_equal else term)
        if text is None:
            self._refuse(term, f'found {self._terms.shown(term)}; a topic is "TOPIC" or {{eq, "TOPIC"}}')
            return None
        return RuleTopic(text, is_equal)


def _is_option(term: Term, name: str) -> bool:
    """Whether it is `name` or `{name, VALUE}`; what else stands in a list of options does not count."""
    return term.is_atom(name) or (term.kind == TUPLE and len(term.items) == 2 and term.items[0].is_atom(name))


def _elements(term: Term) -> tuple[Term, ...]:
    """The elements of a list, which a string is too; what is no list is one element."""
    if term.kind == STRING:
        return tuple(Term(INTEGER, term.begin, term.end, ord(character)) for character in str(term.value))
    return term.items if term.kind == LIST else (term,)


class WhoReader:
    def __init__(self, refuse: Callable[[Term, str], None], shown: Callable[[Term], str]) -> None:
        self._refuse = refuse
        self._shown = shown

    def condition(self, term: Term) -> Condition | None:
        """The condition of a term; None for all clients."""
        return None if term.is_atom("all") else self._condition(term, 0)

    def text(self, term: Term) -> str | None:
        """None if it is no string, binary or list of code points."""
        if term.kind in (STRING, BINARY):
            return str(term.value)
        if term.kind != LIST or not all(_is_character(item) for item in term.items):
            return None
        return "".join(chr(int(item.value)) for item in term.items)

    def _condition(self, term: Term, depth: int) -> Condition:
        name, count = _name_of(term), len(term.items)
        if term.is_atom("all"):
            return AllOf(())
        if depth > _DEPTH_MAX:
            self._refuse(term, f"'and' and 'or' are nested more than {_DEPTH_MAX} deep")
        elif name in _FIELDS and count == 2:
            return self._match(term.items[1], _FIELDS[name])
        elif name == "client_attr" and count == 3:
            attribute = self._text_or_refuse(term.items[1])
            return self._match(term.items[2], attribute_of(attribute))
        elif name == "ipaddr" and count == 2:
            return self._network(term.items[1])
        elif name == "ipaddrs" and count == 2:
            return AnyOf([self._network(item) for item in self._list(term.items[1], "addresses")])
        elif name in ("and", "or") and count == 2:
            conditions = [self._condition(item, depth + 1) for item in self._list(term.items[1], "conditions")]
            return AllOf(conditions) if name == "and" else AnyOf(conditions)
        else:
            self._refuse(term, f"found {self._shown(term)}; {_WHO}")
        return _NOBODY

    def _match(self, term: Term, field: Field) -> Condition:
        if _name_of(term) != "re" or len(term.items) != 2:
            return Equals(field, self._text_or_refuse(term))
        try:
            return MatchesExpression(field, self._text_or_refuse(term.items[1]))
        except ValueError as error:
            self._refuse(term.items[1], str(error))
            return _NOBODY

    def _network(self, term: Term) -> Condition:
        text = self.text(term)
        try:
            if text is not None:
                return InNetwork(text)
            self._refuse(term, f'found {self._shown(term)}; an address is a text, as "10.0.0.1" or "10.0.0.0/8"')
        except ValueError as error:
            self._refuse(term, str(error))
        return _NOBODY

    def _list(self, term: Term, what: str) -> tuple[Term, ...]:
        if term.kind == STRING and term.value == "":  # the same as []
            return ()
        if term.kind != LIST:
            self._refuse(term, f"found {self._shown(term)}; a list of {what} is wanted")
        return term.items if term.kind == LIST else ()

    def _text_or_refuse(self, term: Term) -> str:
        text = self.text(term)
        if text is None:
            self._refuse(term, f'found {self._shown(term)}; a text is wanted, as "TEXT", or {{re, "EXPRESSION"}}')
        return text or ""


def _name_of(term: Term) -> str:
    return str(term.items[0].value) if term.kind == TUPLE and term.items and term.items[0].kind == ATOM else ""


def _is_character(term: Term) -> bool:
    if term.kind != INTEGER or not isinstance(term.value, int):
        return False
    return 0 <= term.value <= _CODE_POINT_MAX and not 0xD800 <= term.value <= 0xDFFF

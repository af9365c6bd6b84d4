"""`acl.conf`: rules as Erlang terms. A text is accepted as a whole, or refused with every mistake in it."""

from typing import Final

from heliograph.access.acl.actions import ALL, EVERY_QOS, EVERYTHING, KINDS, action_bits
from heliograph.access.acl.errors import AclError, AclFault
from heliograph.access.acl.rules import Rule, Rules, shortened
from heliograph.access.acl.terms import LIST, TUPLE, Term, TermReader
from heliograph.access.acl.tokens import ATOM, INTEGER, STRING
from heliograph.access.acl.topics import RuleTopic
from heliograph.access.acl.who import WhoReader
from heliograph.broker.actions import ALLOW, SUBSCRIBE

_PERMISSIONS: Final = ("allow", "deny")
_FORMS: Final = "a rule is {allow|deny, all}. or {allow|deny, WHO, ACTION, TOPICS}."
_ACTIONS: Final = "an action is publish, subscribe, all, or one with options, as {publish, [{qos, 1}, {retain, false}]}"
_TOPICS: Final = 'topics are all or a list, as ["a/#", {eq, "a/+"}]'


def read_acl_conf(text: str | bytes) -> Rules:
    """The rules of a text.

    Raises:
        AclError: There is a mistake in it.
    """
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
    """Reads one text."""

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

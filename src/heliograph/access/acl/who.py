"""Which clients a rule of `acl.conf` is about: terms to conditions."""

from collections.abc import Callable
from typing import Final

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
from heliograph.access.acl.terms import BINARY, LIST, TUPLE, Term
from heliograph.access.acl.tokens import ATOM, INTEGER, STRING

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


class WhoReader:
    """Makes conditions of terms.

    Args:
        refuse: Notes a mistake in a term.
        shown: How a term is written.
    """

    def __init__(self, refuse: Callable[[Term, str], None], shown: Callable[[Term], str]) -> None:
        self._refuse = refuse
        self._shown = shown

    def condition(self, term: Term) -> Condition | None:
        """The condition of a term; None for all clients."""
        return None if term.is_atom("all") else self._condition(term, 0)

    def text(self, term: Term) -> str | None:
        """The text of a string, a binary or a list of code points; None if it is another term."""
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
    """The atom that a tuple begins with; empty if it is no such tuple."""
    return str(term.items[0].value) if term.kind == TUPLE and term.items and term.items[0].kind == ATOM else ""


def _is_character(term: Term) -> bool:
    if term.kind != INTEGER or not isinstance(term.value, int):
        return False
    return 0 <= term.value <= _CODE_POINT_MAX and not 0xD800 <= term.value <= 0xDFFF

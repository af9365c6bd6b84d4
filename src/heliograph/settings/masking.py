"""Secrets of a document: stars in their place where people read it, and back where people send it again.

Which values are secrets, the declarations say. Where a document has what no declaration knows, names do: what stands
under `password` is not to be shown, even if that is spelled wrong or in the wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from heliograph.hocon.values import Content, Node
from heliograph.hocon.walking import Walk, run_walk
from heliograph.settings.fields import (
    AnyKind,
    ListOf,
    ListOfSections,
    ListOfVariants,
    Named,
    Overlays,
    Section,
    settings_of,
)
from heliograph.settings.kinds import Kind, Texts
from heliograph.settings.reading import list_items, model_of
from heliograph.settings.secrets import FILE_PREFIX, STARS
from heliograph.settings.url_secrets import PLACEHOLDERS, has_url_secret, masked_template, masked_url

_SECRET_NAME: Final = re.compile(
    r"(?is)(.*[_.-])?(token|password|passwd|passphrase|secret|authorization|jwt|headers|"
    r"(secret|secret[_.-]?access|access|account|private|api)[_.-]?key([_.-]?(secret|id))?)"
)
# What the headers of a request say that is no secret: what is sent, and not who sends it.
_OPEN_HEADERS: Final = frozenset(
    [
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "content-encoding",
        "content-type",
        "user-agent",
    ]
)
# A header by this name is a secret; a group by this name has the rules of access.
_ACCESS_RULES: Final = "authorization"
# What an element of a list is known by, which may stand elsewhere in the list that is sent back.
_IDENTITIES: Final = (("name",), ("id",), ("mechanism", "backend"), ("type",))


class NoSecretError(Exception):
    """Stars stand where there is no secret that they could keep.

    Attributes:
        node: The stars.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(f"found {STARS}, which keeps a secret as it is, but none is set: give the secret itself")
        self.node = node


def masked(tree: Node, model: type[Any], *, hides_sent: bool = False) -> Node:
    """A document with stars for each secret.

    Args:
        model: The dataclass of the group that the document is.
        hides_sent: Whether constant texts of what servers are sent have stars too; these keep nothing in a change.
    """
    return run_walk(_masked(tree, Section(model), is_secret=False, hides_sent=hides_sent))


def secrets_in(node: Node, kind: AnyKind | None, *, is_secret: bool) -> Iterator[tuple[str, ...]]:
    """Where in a value of a document secrets stand, also those that a file of their own holds.

    Args:
        node: The value, with stars or without.
        kind: Its kind, if it is declared.
        is_secret: Whether all of it is.
    """
    pending: list[tuple[tuple[str, ...], Node, AnyKind | None, bool]] = [((), node, kind, is_secret)]
    while pending:
        path, one, kind, is_secret = pending.pop()
        value = one.value
        if isinstance(kind, ListOfVariants) and list_items(one) is None:
            kind = variant_of(kind, one)
        if isinstance(value, dict | list):
            inner = value if isinstance(value, dict) else {str(at): item for at, item in enumerate(value, 1)}
            for name, child in reversed(inner.items()):
                below, hidden = declared_below(kind, name, child)
                hidden = _is_secret(kind, name, child, is_secret) or _is_hidden(name, child, hidden)
                pending.append(((*path, name), child, below, hidden))
        elif (is_secret and value not in (None, "")) or (isinstance(value, str) and has_url_secret(value)):
            yield path


def kept_secrets(tree: Node, own: Node, present: Node) -> Node:
    """A document in which stars are what they stand for again.

    Args:
        tree: What was sent.
        own: The layer that it will be a part of: what stars stand for there is taken over.
        present: All layers: what stars stand for in another one is left to that layer.

    Raises:
        NoSecretError: Stars stand for nothing.
    """
    kept: Node | None = run_walk(_kept(tree, own, present, in_list=False))
    return Node({}, tree.position) if kept is None else kept


def _masked(node: Node, kind: AnyKind | None, *, is_secret: bool, hides_sent: bool) -> Walk[Node]:
    value = node.value
    if isinstance(kind, ListOfVariants) and list_items(node) is None:
        kind = variant_of(kind, node)  # one without a list
    if isinstance(value, dict):
        fields = {}
        for name, child in value.items():
            below, hidden = declared_below(kind, name, child)
            hidden = _is_secret(kind, name, child, is_secret) or _is_hidden(name, child, hidden)
            fields[name] = yield _masked(child, below, is_secret=hidden, hides_sent=hides_sent)
        return Node(fields, node.position, node.source)
    if isinstance(value, list):
        items = []
        for item in value:
            below, hidden = declared_below(kind, "1", item)
            items.append((yield _masked(item, below, is_secret=is_secret or hidden, hides_sent=hides_sent)))
        return Node(items, node.position, node.source)
    if is_secret:
        return node if _is_open(value) else Node(STARS, node.position, node.source)
    if hides_sent and isinstance(kind, Kind) and kind.is_sent and isinstance(value, str):
        return Node(masked_template(masked_url(value)), node.position, node.source)
    return Node(masked_url(value), node.position, node.source) if isinstance(value, str) else node


def _is_secret(kind: AnyKind | None, name: str, child: Node, is_secret: bool) -> bool:
    """Whether what stands under a name is a secret because all around it is."""
    if not is_secret or not isinstance(kind, Texts):
        return is_secret
    is_filled_in = isinstance(child.value, str) and PLACEHOLDERS.fullmatch(child.value) is not None
    return not is_filled_in and name.lower() not in _OPEN_HEADERS


def _is_hidden(name: str, child: Node, hidden: bool) -> bool:
    return hidden and not (name == _ACCESS_RULES and isinstance(child.value, dict))


def _is_open(value: Content) -> bool:
    """Whether a value in the place of a secret says nothing that is one."""
    return value is None or value == "" or (isinstance(value, str) and value.startswith(FILE_PREFIX))


def variant_of(kind: ListOfVariants, node: Node) -> Section | None:
    """The kind of a group of a list of variants."""
    model = model_of(kind, node)
    return None if model is None else Section(model)


def declared_below(kind: AnyKind | None, name: str, child: Node) -> tuple[AnyKind | None, bool]:
    """The kind of what stands under a name, if it is declared, and whether it is a secret."""
    if isinstance(kind, Section):
        setting = settings_of(kind.model).get(name)
        if setting is not None:
            return setting.kind, setting.is_secret
    elif isinstance(kind, Named | Overlays | ListOfSections):
        return Section(kind.model), False
    elif isinstance(kind, ListOfVariants):
        return variant_of(kind, child), False
    elif isinstance(kind, ListOf):
        return kind.kind, False
    return None, _SECRET_NAME.fullmatch(name) is not None


def _kept(node: Node, own: Node | None, present: Node | None, *, in_list: bool) -> Walk[Node | None]:
    """The value that is to be set; None where it is another layer's."""
    value = node.value
    if isinstance(value, dict):
        fields = {}
        for name, child in value.items():
            kept = yield _kept(child, _field(own, name), _field(present, name), in_list=in_list)
            if kept is not None:
                fields[name] = kept
        return Node(fields, node.position, node.source)
    if isinstance(value, list):
        items = []
        for index, item in enumerate(value):
            old = _element(present if own is None else own, index, item)
            items.append((yield _kept(item, old, old, in_list=True)))
        return Node(items, node.position, node.source)
    if not isinstance(value, str) or STARS not in value:
        return node
    if own is not None and _stands_for(value, own):
        return own
    if present is not None and _stands_for(value, present):
        return present if in_list else None
    if value != STARS and "://" not in value:
        return node
    raise NoSecretError(node)


def _stands_for(stars: str, node: Node) -> bool:
    value = node.value
    return stars == STARS or (isinstance(value, str) and masked_url(value) == stars)


def _field(node: Node | None, name: str) -> Node | None:
    return node.value.get(name) if node is not None and isinstance(node.value, dict) else None


def _element(node: Node | None, index: int, item: Node) -> Node | None:
    """The element of another list that an element was made of: the one of the same name, else the one in its place."""
    if node is None or not isinstance(node.value, list):
        return None
    for keys in _IDENTITIES:
        if _field(item, keys[0]) is not None:
            same = [old for old in node.value if _words(old, keys) == _words(item, keys)]
            if len(same) < 2:
                return same[0] if same else None
    return node.value[index] if index < len(node.value) else None


def _words(node: Node, keys: tuple[str, ...]) -> list[Content]:
    return [None if (field := _field(node, key)) is None else field.value for key in keys]

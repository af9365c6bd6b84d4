"""What is kept of each configuration that a node had: who made it, when and why, and its text without secrets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from heliograph.config.layers import leaves
from heliograph.hocon.document import parse_text
from heliograph.hocon.values import Node, to_json
from heliograph.hocon.writing import key_text

#: What stands before the first change.
FIRST = 0


class Revision(msgspec.Struct, frozen=True):
    """One configuration of the cluster's layer.

    Attributes:
        number: One more than the one before.
        time: When it was made, in seconds since the epoch.
        digest: SHA-256 of the text.
        text: The layer as HOCON, with stars for secrets.
    """

    number: int
    time: float
    who: str
    origin: str
    comment: str
    digest: str
    text: str

    @property
    def tree(self) -> Node:
        return parse_text(self.text, name=f"revision {self.number}")


class Unconfirmed(msgspec.Struct, frozen=True):
    """A revision that goes back at `until` (seconds since the epoch) to the text before it, secrets included."""

    revision: int
    until: float
    before: str


class RevisionDifference(msgspec.Struct, frozen=True):
    """One setting that differs between two revisions, as JSON; None where a revision does not set it."""

    path: str
    old: str | None
    new: str | None


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def revision_differences(old: Revision, new: Revision) -> Iterator[RevisionDifference]:
    before = {path: to_json(node, None) for path, node in leaves(old.tree)}
    after = {path: to_json(node, None) for path, node in leaves(new.tree)}
    for path in {**before, **after}:
        if before.get(path) != after.get(path):
            yield RevisionDifference(".".join(map(key_text, path)), before.get(path), after.get(path))

"""Settings of `mqtt.client_attrs_init`: what is made of clients when they connect, to be known of them by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from heliograph.settings.fields import setting
from heliograph.settings.kinds import RefusedError, Text

_EXAMPLE: Final = "{ expression = \"nth(1, tokens(clientid, '-'))\", set_as_attr = group }"


@dataclass(frozen=True, slots=True)
class ClientAttribute:
    """One attribute of clients."""

    expression: str = setting(
        Text("a variform expression"),
        "",
        "What it is: a variform expression over what is known of a client that connects. Where it fails, or gives the "
        "empty text, nothing is set.",
    )
    set_as_attr: str = setting(
        Text("a name of letters, digits, _ and -", r"[0-9A-Za-z_-]{1,255}"),
        "",
        "The name of the attribute; of several expressions for one name the last that gives something counts.",
    )

    def __post_init__(self) -> None:
        if bool(self.expression) != bool(self.set_as_attr):
            missing = "set_as_attr" if self.expression else "expression"
            raise RefusedError(f"an attribute needs {missing} too, as in {_EXAMPLE}")


def empty_attributes(attributes: Sequence[ClientAttribute]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Entries of the list that say nothing: the path within it, and what is wrong."""
    for number, attribute in enumerate(attributes, 1):
        if not attribute.expression:
            yield (str(number),), f"the attribute is empty; it looks like {_EXAMPLE}"

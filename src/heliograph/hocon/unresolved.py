"""The errors of substitutions that have no value."""

from collections.abc import Mapping, Sequence
from typing import Final

from heliograph.hocon.errors import HoconError
from heliograph.hocon.syntax import Reference

_SHOWN_MAX: Final = 100  # substitutions that one message names; more than a file of people has
_CHARACTERS_MAX: Final = 200  # of one of them


def unresolved_error(references: Sequence[Reference], reasons: Mapping[Reference, str]) -> HoconError:
    """The error about substitutions, at least one, in the order of the text; the place is the first one's."""
    shown = [f"{_show(each)} ({each.position}) {reasons[each]}" for each in references[:_SHOWN_MAX]]
    more = f"; and {len(references) - _SHOWN_MAX} more" if len(references) > _SHOWN_MAX else ""
    return HoconError.at(
        references[0].position,
        f"unresolved substitution: {'; '.join(shown)}{more}; define it, or write ${{?path}} where it may be absent",
    )


def _show(reference: Reference) -> str:
    path = ".".join(reference.path)
    shown = reference.written if reference.written == f"${{{path}}}" else f"{reference.written}, here {path},"
    return shown if len(shown) <= _CHARACTERS_MAX else shown[: _CHARACTERS_MAX - 3] + "..."

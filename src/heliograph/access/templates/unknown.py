"""Placeholders that are not known where they stand: they stay texts, and the log says so."""

import logging
from collections.abc import Iterable

_log = logging.getLogger(__name__)


def warn_of_unknown(where: str, names: Iterable[str]) -> None:
    """Write a line for each placeholder that is not allowed.

    Args:
        where: What they stand in, for people.
        names: `Template.unknown`, or that of several templates.
    """
    for name in names:
        _log.warning("%s: ${%s} is no placeholder here and stays as it is", where, name)

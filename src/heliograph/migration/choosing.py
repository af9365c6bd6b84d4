"""Which broker files are of, and what they are here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from heliograph.config.emqx_forms import is_of_mosquitto
from heliograph.config.reading import Check
from heliograph.migration.draft import ImportDraft
from heliograph.migration.errors import ImportRefusedError

MOSQUITTO: Final = "mosquitto"
EMQX: Final = "emqx"
_DATABASE: Final = ".db"
_ARCHIVE: Final = ".tar.gz"


def import_files(files: Sequence[Path], broker: str | None, checks: Iterable[Check] = ()) -> ImportDraft:
    """What files of another broker are here.

    Args:
        broker: Whose they are; None to tell by their names and what they say.
        checks: Checks of higher packages for settings that are valid by themselves, such as whether a text is a rule.

    Raises:
        ImportRefusedError: A file cannot be read, or files are of different brokers.
        ConfigSyntaxError: A file of EMQX is no HOCON.
    """
    brokers = {broker} if broker is not None else {broker_of(file) for file in files}
    if len(brokers) > 1:
        raise ImportRefusedError("the files are of mosquitto and of EMQX: import one after the other, or give --from")
    if brokers == {MOSQUITTO}:
        from heliograph.migration.mosquitto.reading import import_mosquitto

        return import_mosquitto(files)
    from heliograph.migration.emqx.reading import import_emqx

    return import_emqx(files, checks)


def broker_of(file: Path) -> str:
    """Whose a file is."""
    if file.name.endswith(_ARCHIVE):
        return EMQX
    if file.suffix == _DATABASE or file.name == "mosquitto.conf":
        return MOSQUITTO
    try:
        text = file.read_bytes().decode(errors="replace")
    except OSError as error:
        raise ImportRefusedError(f"{file} cannot be read: {error.strerror}") from None
    return MOSQUITTO if is_of_mosquitto(text) else EMQX

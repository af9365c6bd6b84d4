"""The lists of clients and topics that are always traced, on the disk."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from heliograph.settings.units import check_topic_filter
from heliograph.storage.durable_files import write_durably

CLIENTID: Final = "clientid"
TOPIC: Final = "topic"

_TEXT_BYTES_MAX: Final = 65_535


class Whitelists:
    """Two lists by kind, `clientid` and `topic`, kept in a file; owned by the part `opentelemetry`."""

    def __init__(self, file: Path) -> None:
        self.values: dict[str, tuple[str, ...]] = {CLIENTID: (), TOPIC: ()}
        self._file = file

    def load(self) -> None:
        """Load what an earlier process had.

        Raises:
            ValueError: It is not what was written.
        """
        if not self._file.exists():
            return
        found = json.loads(self._file.read_text(encoding="utf-8"))
        for kind in self.values:
            self.values[kind] = checked(kind, found.get(kind, []), _TEXT_BYTES_MAX)

    def save(self, values: Mapping[str, tuple[str, ...]]) -> None:
        """Write other lists, which hold from then on; may wait for the disk."""
        write_durably(self._file, json.dumps(values).encode(), 0o600)


def checked(kind: str, values: Sequence[str], count_max: int) -> tuple[str, ...]:
    """A list, in which each value is there once.

    Raises:
        ValueError: There are too many, or one is no client id or topic filter.
    """
    found = tuple(dict.fromkeys(values))
    if len(found) > count_max:
        setting = f"{kind}_match_rules_max"
        raise ValueError(f"{len(found)} values, and {setting} allows {count_max}")
    for value in found:
        if kind == TOPIC:
            try:
                check_topic_filter(value)
            except ValueError as error:
                raise ValueError(f"{value!r} is no topic filter: {error}") from None
        elif not value or len(value.encode("utf-8", "surrogatepass")) > _TEXT_BYTES_MAX:
            raise ValueError(f"a client id has 1 to {_TEXT_BYTES_MAX} bytes")
    return found

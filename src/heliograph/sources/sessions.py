"""What sessions elsewhere have subscribed to: kept in a file, so that a changed filter ends the one before it."""

import json
import logging
from pathlib import Path
from typing import Final

from heliograph.storage.durable_files import write_whole

_log = logging.getLogger("heliograph.sources")

_FILE: Final = "sessions.json"


class KeptSubscriptions:
    """The filter and QoS of each client id; a view of the file, which all sources of the process share."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / _FILE

    def find(self, clientid: str) -> tuple[str, int] | None:
        """The filter and the QoS; None if nothing is known."""
        found = self._read().get(clientid)
        return (str(found[0]), int(found[1])) if isinstance(found, list) and len(found) == 2 else None

    def keep(self, clientid: str, topic_filter: str, qos: int) -> None:
        """Remember that a session has this subscription."""
        if self.find(clientid) != (topic_filter, qos):
            self._write({**self._read(), clientid: [topic_filter, qos]})

    def forget(self, clientid: str) -> None:
        """The session is not there any more."""
        known = self._read()
        if known.pop(clientid, None) is not None:
            self._write(known)

    def _read(self) -> dict[str, object]:
        try:
            document = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def _write(self, known: dict[str, object]) -> None:
        try:
            write_whole(self._file, json.dumps(known, ensure_ascii=False).encode())
        except OSError as error:
            _log.warning("%s is not written: %s", self._file, error)

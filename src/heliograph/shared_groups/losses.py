"""What durable groups pass over: messages that are damaged, and those that no member may have."""

import logging
from typing import Final

from heliograph.storage.columnar.salvage import Damage
from heliograph.storage.interface import StreamId

_log = logging.getLogger(__name__)

_PLACES_MAX: Final = 10_000  # places that are remembered; beyond that, they are counted each time


class Losses:
    """Counts them, and logs each damaged place once; owned by the node's durable groups."""

    def __init__(self) -> None:
        self.refused_count = 0
        self.damaged_count = 0
        self._places: set[tuple[StreamId, int]] = set()

    def on_refused(self) -> None:
        self.refused_count += 1

    def on_damage(self, damage: Damage) -> None:
        """Some of a stream cannot be read; called each time that a reader comes across it."""
        place = damage.stream, damage.since
        if place in self._places:
            return
        if len(self._places) < _PLACES_MAX:
            self._places.add(place)
        self.damaged_count += 1
        count = "some messages" if damage.messages is None else f"{damage.messages} messages"
        _log.error("shared groups pass over %s of stream %s: %s", count, damage.stream, damage.problem)

    def __repr__(self) -> str:
        return f"Losses({self.refused_count} refused, {self.damaged_count} damaged places)"

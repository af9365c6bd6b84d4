"""Decides when a node is overloaded and what it sheds: measurements in, a stage out. `overload` performs it.

The stages add up: requests of operators; new connections; QoS 0 to slow readers; what can wait (idle sessions that
leave memory, full garbage collections).
"""

from collections.abc import Mapping
from typing import Final

# The stages, by number; 0 is no stage.
MANAGEMENT: Final = 1
CONNECTIONS: Final = 2
QOS0: Final = 3
UPKEEP: Final = 4

# So many looks in a row, or nearly, must find a threshold reached before anything is shed: a burst is no overload.
_CREDITS: Final = 3
# Credits come back below this part of all thresholds.
_CALM: Final = 0.8


class Overload:
    """What a node sheds, from one look to the next; owned by the part `overload`.

    Attributes:
        stage: What is shed now.
        causes: The thresholds that the last look found reached, by name, with how many times.
    """

    def __init__(self) -> None:
        self.stage = 0
        self.causes: Mapping[str, float] = {}
        self._spent = 0

    def look(self, readings: Mapping[str, float]) -> int:
        """Take what was measured, each as a multiple of its threshold: the stage from now on.

        One more stage begins with each look that finds a threshold reached, and ends with each that finds all of them
        well below. All is over when every credit is back.
        """
        self.causes = {name: times for name, times in readings.items() if times >= 1.0}
        if self.causes:
            self._spent = min(self._spent + 1, _CREDITS + UPKEEP - 1)
        elif max(readings.values(), default=0.0) < _CALM:
            self._spent = max(0, self._spent - 1)
        if self._spent == 0:
            self.stage = 0
        elif self.stage or self._spent >= _CREDITS:
            self.stage = max(MANAGEMENT, self._spent - _CREDITS + 1)
        return self.stage

    def __repr__(self) -> str:
        return f"Overload(stage {self.stage}, {', '.join(self.causes) or 'no cause'})"

"""All subjects."""

from typing import Final

from heliograph.management.live import areas, broker, states
from heliograph.management.live.subject import LiveSubject

#: A further subject is declared in a module of its own, and listed here.
SUBJECTS: Final[tuple[LiveSubject, ...]] = (*broker.SUBJECTS, *areas.SUBJECTS, *states.SUBJECTS)

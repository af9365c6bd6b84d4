"""How long to wait before something that failed is tried again."""

from dataclasses import dataclass
from typing import Final

_DOUBLINGS_MAX: Final = 30  # so that the power stays a number


@dataclass(frozen=True, slots=True)
class Backoff:
    """A pause that doubles with each failure in a row."""

    first_s: float
    longest_s: float

    def pause_s(self, failures: int) -> float:
        """After so many failures in a row, at least one."""
        return min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, _DOUBLINGS_MAX))

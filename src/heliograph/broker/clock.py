"""The time of a node: it runs with the monotonic clock and follows the wall clock while that is plausible.

Ids and times of messages must never fall, and what expires must go on expiring, whatever is done to the wall clock:

- A wall clock that is ahead by no more than a bound is followed at once.
- One that is further ahead is followed when it has stayed so for as long as the bound; until then time goes on.
- One that was set back is waited for: time runs slower by one part in 64 until the wall clock has caught up.
"""

from typing import Final

from mypy_extensions import i64

JUMP_US: Final = 1_000_000  # smaller changes are those of NTP
_SLOWER_LOG2: Final = 6

NOTHING: Final = 0
JUMPED: Final = 1  # the wall clock is ahead by more than the bound, and is not followed yet
FOLLOWED: Final = 2  # it jumped ahead, and is followed from now on
RETURNED: Final = 3  # it is back from a jump that was not followed
SET_BACK: Final = 4  # it is behind
CAUGHT_UP: Final = 5  # it is not behind any more


class Clock:
    """Decides what time it is; owned by the broker. The node passes it the wall clock.

    Args:
        jump_max_us: How far a wall clock may be ahead and be followed at once.

    Attributes:
        error_us: How far the wall clock was ahead of this one when it was looked at last; below 0 behind.
    """

    def __init__(self, jump_max_us: i64 = 60_000_000) -> None:
        self.jump_max_us = jump_max_us
        self.error_us: i64 = 0
        self._base_us: i64 = 0  # the time at an uptime
        self._base_uptime_us: i64 = 0
        self._is_slower = False
        self._is_set = False
        self._offset_us: i64 = 0  # of a wall clock that is not followed yet
        self._offset_since_us: i64 = -1  # the uptime at which it was seen first
        self._behind_us: i64 = 0  # how far behind it was when that was logged; 0 for not at all

    def at(self, uptime_us: i64) -> i64:
        """The time at an uptime that is not before the last look at the wall clock."""
        passed = uptime_us - self._base_uptime_us
        if self._is_slower:
            passed -= passed >> _SLOWER_LOG2
        return self._base_us + passed

    def look(self, uptime_us: i64, wall_us: i64) -> i64:
        """See what the wall clock shows: what has happened to it, of the events above."""
        if not self._is_set:
            self._is_set = True
            self._set(uptime_us, wall_us)
            return NOTHING
        now = self.at(uptime_us)
        error = wall_us - now
        self.error_us = error
        if error > self.jump_max_us:
            return self._doubt(uptime_us, wall_us, now)
        was_doubted = self._offset_since_us >= 0
        self._offset_since_us = -1
        if error < 0:
            return self._wait(uptime_us, now, -error, was_doubted)
        self._set(uptime_us, wall_us)
        if self._behind_us > 0:
            self._behind_us = 0
            return CAUGHT_UP
        if was_doubted:
            return RETURNED
        return FOLLOWED if error >= JUMP_US else NOTHING

    def _doubt(self, uptime_us: i64, wall_us: i64, now: i64) -> i64:
        self._set(uptime_us, now)
        offset = wall_us - uptime_us
        drift = offset - self._offset_us
        if self._offset_since_us < 0 or drift > JUMP_US or drift < -JUMP_US:
            self._offset_us = offset
            self._offset_since_us = uptime_us
            self._behind_us = 0
            return JUMPED
        if uptime_us - self._offset_since_us < self.jump_max_us:
            return NOTHING
        self._offset_since_us = -1
        self._set(uptime_us, wall_us)
        return FOLLOWED

    def _wait(self, uptime_us: i64, now: i64, behind_us: i64, was_doubted: bool) -> i64:
        if not self._is_slower:
            self._set(uptime_us, now)
            self._is_slower = True
        if behind_us >= self._behind_us + JUMP_US:
            self._behind_us = behind_us
            return SET_BACK
        return RETURNED if was_doubted else NOTHING

    def _set(self, uptime_us: i64, now: i64) -> None:
        self._base_us = now
        self._base_uptime_us = uptime_us
        self._is_slower = False

    def __repr__(self) -> str:
        return f"Clock(the wall clock is {int(self.error_us)} us ahead)"

"""The line of those that wait for something of which there is not enough: each until its own deadline."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

Given = TypeVar("Given")

# How many are refused in one turn of the event loop, and when the next ones are: a thousand whose
# deadlines pass together would hold up what others do.
_WOKEN_AT_ONCE: Final = 2
_PAUSE_S: Final = 0.002


class _Place(Generic[Given]):
    """Of one that waits: what it gets, and when that is too late, by the clock of the event loop."""

    def __init__(self, due_s: float) -> None:
        self.given: asyncio.Future[Given] = asyncio.get_running_loop().create_future()
        self.due_s = due_s


class WaitingLine(Generic[Given]):
    """Those that wait, in the order in which they came; owned by what gives.

    Args:
        late: Makes the error of one whose deadline has passed.
        take_back: Called with what was given to one that did not wait any more.

    Attributes:
        needs_s: How long it takes to use what is given. One whose deadline is nearer is refused at once:
            all that come too late would else keep those behind them from coming in time.
    """

    def __init__(self, late: Callable[[], Exception], take_back: Callable[[Given], None]) -> None:
        self.needs_s = 0.0
        self._late = late
        self._take_back = take_back
        self._refusal: Callable[[], Exception] | None = None
        self._places: deque[_Place[Given]] = deque()  # the one that is due first in front
        self._due: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._places)

    async def wait(self, due_s: float, is_first: bool) -> Given:
        """Raises if the deadline passes or all are refused; `is_first` has an earlier deadline than the others."""
        place: _Place[Given] = _Place(due_s)
        if is_first:
            self._places.appendleft(place)
        else:
            self._places.append(place)
        if self._due is None or is_first:
            self._look_at(due_s - self.needs_s)
        try:
            return await place.given
        except asyncio.CancelledError:
            with suppress(ValueError):
                self._places.remove(place)
            if not place.given.cancelled() and place.given.exception() is None:
                self._take_back(place.given.result())  # it came in the turn in which nothing waited for it any more
            raise

    def next(self) -> "asyncio.Future[Given] | None":
        """What the first one waits for that can use it in time, which is to be given now; None if none waits."""
        now_s = asyncio.get_running_loop().time()
        for place in self._places:
            if not place.given.done() and place.due_s - self.needs_s > now_s:
                self._places.remove(place)
                return place.given
        return None

    def refuse(self, refusal: Callable[[], Exception] | None) -> None:
        """Refuse all that wait now, some in each turn, unless something is given to them first; None ends that."""
        self._refusal = refusal
        if refusal is not None:
            self._tell_some()

    def _tell_some(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for _ in range(_WOKEN_AT_ONCE):
            if not self._is_in_vain(now_s):
                break
            given = self._places.popleft().given
            if not given.done():
                given.set_exception((self._refusal or self._late)())
        if self._places:
            self._look_at(now_s + _PAUSE_S if self._is_in_vain(now_s) else self._places[0].due_s - self.needs_s)
        else:
            self._due = None

    def _look_at(self, when_s: float) -> None:
        """Tell those that wait in vain at some time, which is the next one."""
        if self._due is not None:
            self._due.cancel()
        self._due = asyncio.get_running_loop().call_at(when_s, self._tell_some)

    def _is_in_vain(self, now_s: float) -> bool:
        return bool(self._places) and (self._refusal is not None or self._places[0].due_s - self.needs_s <= now_s)

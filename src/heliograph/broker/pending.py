"""An answer that is not there yet: one type for everything that a client may have to wait for.

What has to look an answer up makes a `Pending` for this one question, hands it back, and resolves it once, in the event
loop. What asked goes on when it is resolved (at once if it is already), waits no longer than until the deadline, and
cancels it when its client goes. Nothing here knows a loop or a clock: deadlines are
looked at in ticks.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from mypy_extensions import i64, mypyc_attr

__all__ = ["Pending"]

T = TypeVar("T")


@mypyc_attr(allow_interpreted_subclasses=True)
class Wait:
    """The state of a wait, independent of the type of its answer.

    Attributes:
        is_cancelled: Whether nothing waits for the answer any more.
        due_us: The deadline on the monotonic clock; 0 for none. Set by what waits.
    """

    def __init__(self) -> None:
        self.is_resolved = False
        self.is_cancelled = False
        self.due_us: i64 = 0

    def is_late(self, uptime_us: i64) -> bool:
        return self.due_us != 0 and uptime_us >= self.due_us and not self.is_resolved and not self.is_cancelled

    def is_over(self, uptime_us: i64) -> bool:
        """Whether waiting has become needless: the deadline has passed, or the wait was cancelled elsewhere."""
        return self.is_cancelled or (self.due_us != 0 and uptime_us >= self.due_us)

    def expire(self) -> None:
        self.cancel()

    def cancel(self) -> None:
        """Stop waiting: an answer that comes after this changes nothing."""
        raise NotImplementedError(type(self).__name__)


@mypyc_attr(allow_interpreted_subclasses=True)
class Pending(Wait, Generic[T]):
    """One answer, from the question until it is resolved or cancelled; owned by what waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: T | None = None
        self._callback: Callable[[T], None] | None = None
        self._on_cancel: Callable[[], None] | None = None

    def resolve(self, answer: T) -> None:
        """Give the answer. One that is resolved or cancelled stays as it is."""
        if self.is_resolved or self.is_cancelled:
            return
        self.is_resolved = True
        self.answer = answer
        self._on_cancel = None
        callback = self._callback
        self._callback = None
        if callback is not None:
            callback(answer)

    @property
    def is_awaited(self) -> bool:
        """Whether something waits for the answer: another question needs another `Pending`."""
        return self._callback is not None

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call `callback` if nothing waits for the answer any more, to stop looking for it."""
        self._on_cancel = callback

    # --- for what waits

    def then(self, callback: Callable[[T], None]) -> None:
        """Call `callback` with the answer, in this call if it is there already.

        Raises:
            RuntimeError: Something waits for the answer already: each question has a `Pending` of its own.
        """
        if not self.is_resolved:
            if self._callback is not None:
                raise RuntimeError(f"{self!r} is the answer to another question")
            self._callback = callback
        elif self.answer is not None:
            callback(self.answer)

    def cancel(self) -> None:
        if self.is_resolved or self.is_cancelled:
            return
        self.is_cancelled = True
        self._callback = None
        callback = self._on_cancel
        self._on_cancel = None
        if callback is not None:
            callback()

    def __repr__(self) -> str:
        state = "cancelled" if self.is_cancelled else "waiting"
        return f"{type(self).__name__}({f'{self.answer!r}' if self.is_resolved else state})"

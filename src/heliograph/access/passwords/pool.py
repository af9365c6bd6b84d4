"""Passwords whose hash takes milliseconds: checked in a bounded pool of threads with a queue, quick ones at once.

A thousand clients that log in together take a minute of the processor with bcrypt. Both bcrypt and pbkdf2 release the
interpreter's lock while they compute, so threads leave the event loop its turns, and a low priority leaves it the core.
The lowest one would be too low: where other programs want the core too, a thread would get it seldom, also while it
holds that lock for a moment and the event loop waits for it.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from heliograph.access.passwords.algorithms import bcrypt_cost_of, unlike_any, verify
from heliograph.config.passwords import PasswordHashAlgorithm, PasswordThreads
from heliograph.observe.alarms import Alarms
from heliograph.parts.threads import Threads

_log = logging.getLogger(__name__)
ALARM: Final = "password_checks_busy"
_NICENESS: Final = 10
_REMEMBERED: Final = 8  # checks, for the average
Result = TypeVar("Result")
_BCRYPT_COST: Final = 10  # as long as no stored hash was seen
_SEEN_MAX: Final = 8


class PasswordsBusyError(Exception):
    """Too many logins wait for the check of their password: this client is to be refused with `SERVER_BUSY`."""


class PasswordPool:
    def __init__(self, settings: PasswordThreads, alarms: Alarms | None = None) -> None:
        self._settings = settings
        self._alarms = alarms
        self._threads = Threads(settings.threads, "passwords", _give_way)
        self._lock = threading.Lock()
        self._jobs: dict[asyncio.Future[Any], Callable[[], Any]] = {}  # that no thread has taken, oldest first
        self._waiting = 0  # those, and what threads work on
        self._work_s = 0.0  # what the last checks took, on average
        self._is_busy = False
        self.checked = 0
        self.refused = 0

    def check(
        self, algorithm: PasswordHashAlgorithm, password: bytes, stored: bytes, salt: bytes = b""
    ) -> Awaitable[bool]:
        """`algorithms.verify`; `PasswordsBusyError` if too many wait. Cancelled before it begins, it is not made."""
        return self.run(partial(verify, algorithm, password, stored, salt))

    def run(self, work: Callable[[], Result], *, is_refused: bool = True) -> "asyncio.Future[Result]":
        """Do a piece of work in a thread that takes milliseconds without the interpreter's lock.

        Args:
            is_refused: Whether it is refused (`PasswordsBusyError`) where too many wait; else it waits behind them.
        """
        if is_refused and self._load() >= 1:
            self._refuse()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        with self._lock:
            self._jobs[answer] = work
        self._waiting += 1
        answer.add_done_callback(self._done)
        self._threads.run(partial(self._work, loop))
        return answer

    def use(self, settings: PasswordThreads) -> None:
        self._settings = settings
        self._threads.limit(settings.threads)

    def stop(self) -> None:
        """Let the threads end; what waits is not answered."""
        self._threads.stop()
        self._end_alarm()

    def statistics(self) -> dict[str, int]:
        return {
            "passwords.waiting": self._waiting,
            "passwords.checked": self.checked,
            "passwords.refused": self.refused,
        }

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread: do the oldest job; there is none where some were cancelled."""
        with self._lock:
            if not self._jobs:
                return
            answer = next(iter(self._jobs))
            work = self._jobs.pop(answer)
        tell: Callable[[], None]
        began_s = time.monotonic()
        try:
            tell = partial(_tell, answer, work())
        except Exception as error:  # noqa: BLE001 - it belongs to the waiting caller; the thread goes on
            tell = partial(_fail, answer, error)
        self._work_s += (time.monotonic() - began_s - self._work_s) / _REMEMBERED
        with suppress(RuntimeError):  # the event loop is closed: the node has stopped
            loop.call_soon_threadsafe(tell)

    def _done(self, answer: "asyncio.Future[Any]") -> None:
        with self._lock:
            self._jobs.pop(answer, None)  # one that was cancelled keeps a password of up to 64 KiB
        self._waiting -= 1
        self.checked += not answer.cancelled()
        if self._is_busy and self._load() <= 0.5:
            self._end_alarm()

    def _load(self) -> float:
        """How much of what may wait does, by number or by time, whichever is more."""
        settings = self._settings
        wait_s = self._waiting * self._work_s / settings.threads
        return max(self._waiting / settings.max_waiting, wait_s / settings.max_wait)

    def _refuse(self) -> None:
        self.refused += 1
        if not self._is_busy:
            self._is_busy = True
            text = (
                f"{self._waiting} logins wait for the check of their password, as many as may; others are refused with "
                "server busy"
            )
            _log.warning("%s", text)
            if self._alarms is not None:
                self._alarms.activate(ALARM, text, {"waiting": self._waiting})
        raise PasswordsBusyError

    def _end_alarm(self) -> None:
        if self._is_busy:
            self._is_busy = False
            _log.info("logins with slow password hashes are taken again; %d were refused", self.refused)
            if self._alarms is not None:
                self._alarms.deactivate(ALARM)

    def __repr__(self) -> str:
        return f"PasswordPool({self._waiting} waiting)"


def _give_way() -> None:
    """Leave most of the processor to other threads that want it."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def _fail(answer: "asyncio.Future[Any]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _tell(answer: "asyncio.Future[Result]", result: Result) -> None:
    if not answer.done():
        answer.set_result(result)


class PasswordCheck:
    def __init__(self, algorithm: PasswordHashAlgorithm, pool: PasswordPool) -> None:
        self.algorithm = algorithm
        self._pool = pool
        self._bcrypt_cost = _BCRYPT_COST
        self._seen: list[PasswordHashAlgorithm | None] = []  # those of users; None for the authenticator's

    def check(
        self, password: bytes | None, stored: bytes, salt: bytes = b"", own: PasswordHashAlgorithm | None = None
    ) -> bool | Awaitable[bool]:
        """Whether a password is that of a user; None never is.

        What is awaited may be cancelled when the client goes: a check that has not begun is then not made.

        Args:
            own: The algorithm of this user, where it is not the authenticator's.
        """
        if password is None:
            return False
        if own not in self._seen and len(self._seen) < _SEEN_MAX:
            self._seen.append(own)
        if own is None and self.algorithm.name == "bcrypt":
            self._bcrypt_cost = bcrypt_cost_of(stored) or self._bcrypt_cost
        return self._checked(own or self.algorithm, password, stored, salt)

    def check_unknown(self, password: bytes | None, name: str = "") -> bool | Awaitable[bool]:
        """Spend the time of a check where there is no such user, so that time does not tell which users there are.

        Where users have algorithms of their own, as imported ones have, a name costs what one of those costs that were
        seen, always the same one. Returns and raises as `check`.
        """
        if password is None:
            return False
        algorithm = (self._seen[hash(name) % len(self._seen)] if self._seen else None) or self.algorithm
        stored, salt = unlike_any(algorithm, self._bcrypt_cost)
        return self._checked(algorithm, password, stored, salt)

    def _checked(
        self, algorithm: PasswordHashAlgorithm, password: bytes, stored: bytes, salt: bytes
    ) -> bool | Awaitable[bool]:
        if algorithm.is_slow:
            return self._pool.check(algorithm, password, stored, salt)
        return verify(algorithm, password, stored, salt)

    def __repr__(self) -> str:
        return f"PasswordCheck({self.algorithm.name})"

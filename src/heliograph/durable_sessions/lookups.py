"""Reads the sessions of connecting clients in turns of the event loop of their own, not inside CONNECT.

A session may have many subscriptions, and a message of the database for each that is in flight. A step reads a page of
them, or one message; what all lookups do in a turn is bounded, so that a thousand clients that come back at once hold
up no other. The client waits meanwhile, with all that it sends. Connections that come with the same client id read one
after the other, and so find what the first has read: a session is in memory once, however many ask for it.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from heliograph.broker.faults import SESSIONS, Faults
from heliograph.broker.pending import Pending
from heliograph.observe.bounded_log import BoundedLog
from heliograph.parts.loop import Loop
from heliograph.storage.errors import StorageError

_log = logging.getLogger(__name__)

_STEPS_PER_TURN: Final = 8  # of 0.1 to 0.5 ms, where the disk need not be waited for


class SessionLookup(Pending[bool]):
    """Whether all that is needed of a client's session was read; False where it cannot be read now, or not in time."""

    def __init__(self, clientid: str, steps: Iterator[None]) -> None:
        super().__init__()
        self.clientid = clientid
        self.steps = steps

    def expire(self) -> None:
        self.resolve(False)


class SessionLookups:
    """The lookups of a node; owned by `DurableSessions`."""

    def __init__(self, loop: Loop, begin_turn: Callable[[], object], faults: Faults, clock: Callable[[], int]) -> None:
        self._loop = loop
        self._begin_turn = begin_turn
        self._faults = faults
        self._log = BoundedLog(_log, clock)
        self._waiting: deque[SessionLookup] = deque()
        self._behind: dict[str, deque[SessionLookup]] = {}  # one of the same client, by the ids of those that wait
        self._is_scheduled = False
        self._is_stopped = False
        self._counts = {"looked_up": 0, "unreadable": 0}

    def begin(self, clientid: str, steps: Iterator[None]) -> SessionLookup:
        """Go through `steps`, from the next turn on."""
        lookup = SessionLookup(clientid, steps)
        behind = self._behind.get(clientid)
        if behind is not None:
            behind.append(lookup)
        else:
            self._behind[clientid] = deque()
            self._waiting.append(lookup)
            self._schedule()
        return lookup

    def stop(self) -> None:
        """Read nothing more."""
        self._is_stopped = True
        self._waiting.clear()
        self._behind.clear()

    def on_unreadable(self, clientid: str, error: StorageError) -> None:
        self._counts["unreadable"] += 1
        self._log.warn("the session of client %.200r cannot be read now [%s]: %s", clientid, error.code, error)

    def statistics(self) -> dict[str, int]:
        numbers = {f"durable_sessions.{name}": count for name, count in self._counts.items()}
        behind = sum(len(lookups) for lookups in self._behind.values())
        numbers["durable_sessions.lookups_waiting"] = len(self._waiting) + behind
        return numbers

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_stopped:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        if self._is_stopped:
            return
        self._begin_turn()
        for _ in range(min(_STEPS_PER_TURN, len(self._waiting))):
            lookup = self._waiting.popleft()
            if lookup.is_cancelled or lookup.is_resolved:
                self._let_next(lookup.clientid)
            else:
                self._step(lookup)
        if self._waiting:
            self._schedule()

    def _let_next(self, clientid: str) -> None:
        behind = self._behind[clientid]
        while behind:
            lookup = behind.popleft()
            if not lookup.is_cancelled and not lookup.is_resolved:
                self._waiting.append(lookup)
                return
        del self._behind[clientid]

    def _step(self, lookup: SessionLookup) -> None:
        found = True
        try:
            next(lookup.steps)
            self._waiting.append(lookup)
            return
        except StopIteration:
            self._counts["looked_up"] += 1
        except StorageError as error:
            self.on_unreadable(lookup.clientid, error)
            found = False
        except Exception as error:  # noqa: BLE001 - other clients are let in, whatever it is
            self._faults.contain(SESSIONS, error)
            found = False
        self._let_next(lookup.clientid)
        lookup.resolve(found)

    def __repr__(self) -> str:
        return f"SessionLookups({len(self._waiting)} waiting)"

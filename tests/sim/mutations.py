"""Orders of commit and acknowledgement, broken on purpose: a simulation that does not find them proves nothing.

Each mutation takes one promise out of production code, at a seam that is never compiled. A ticket of 0 means that there
is nothing to wait for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from heliograph.durable_sessions.journal import SessionJournal
from heliograph.durable_sessions.sessions import DurableSessions
from heliograph.durable_sessions.taken_messages import SavedTakenMessages
from heliograph.storage.group_commit import CommitQueue
from heliograph.storage.store import Store
from heliograph.storage.wal import LogFiles, SyncRequest
from sim.machine import replaced

Replacement = tuple[object, str, object]


def _without_ticket(owner: type, name: str) -> list[Replacement]:
    """What a session saves is saved, and nobody waits for it."""
    method: Callable[..., int] = getattr(owner, name)

    def saved_some_time(self: object, *args: Any) -> int:
        method(self, *args)
        return 0

    return [(owner, name, saved_some_time)]


def _sync_nothing(self: CommitQueue[Any]) -> None:
    self._finish(None)


def _sync_newest(self: LogFiles) -> SyncRequest:
    request = _sync_request(self)
    request.descriptors = request.descriptors[-1:]
    return request


def _sync_without_directory(self: LogFiles) -> SyncRequest:
    request = _sync_request(self)
    request.directory = None
    return request


def _trust_log(self: Store, request: SyncRequest, error: OSError | None) -> None:
    self._log_files().synced(request.write_count)


def _forget_refused(self: SessionJournal, number: int, batch: object, error: object) -> None:
    self._on_saved(number)


_sync_request: Final = LogFiles.sync_request

MUTATIONS: Final[dict[str, list[Replacement]]] = {
    "acknowledgements before the sync": [(CommitQueue, "_sync", _sync_nothing)],
    "only the newest log file is synced": [(LogFiles, "sync_request", _sync_newest)],
    "the directory of a new log file is not synced": [(LogFiles, "sync_request", _sync_without_directory)],
    "the log is trusted after a failed sync": [(Store, "finish_sync", _trust_log)],
    "QoS 2 PUBLISH, PUBREL and CONNACK before the session": _without_ticket(DurableSessions, "save"),
    "SUBACK before the subscription": _without_ticket(DurableSessions, "save_subscription"),
    "PUBCOMP before the release": _without_ticket(SavedTakenMessages, "release"),
    "refused session state counts as saved": [(SessionJournal, "_keep", _forget_refused)],
}

# A seed that finds each of them: with it the search begins.
FOUND_BY: Final[dict[str, int]] = {
    "acknowledgements before the sync": 3,
    "only the newest log file is synced": 3,
    "the directory of a new log file is not synced": 3,
    "the log is trusted after a failed sync": 30,
    "QoS 2 PUBLISH, PUBREL and CONNACK before the session": 16,
    "SUBACK before the subscription": 8,
    "PUBCOMP before the release": 122,
    "refused session state counts as saved": 5,
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Break one order for a while."""
    with replaced(MUTATIONS[name]):
        yield

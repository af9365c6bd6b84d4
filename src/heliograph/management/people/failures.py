"""How many logins of each user failed since the last one that succeeded: another person may be trying."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from heliograph.management.people.login_file import LoginFile

Kind = Literal["password", "code"]

_COUNTED_MAX: Final = 20_000
_WRITTEN_AFTER_S: Final = 30.0


@dataclass(slots=True)
class FailureCount:
    """Failures of one kind, and since when; 0 for none."""

    count: int = 0
    since_s: float = 0.0


class FailuresSinceLogin:
    """Counts failed logins of the users that there are, until they log in; owned by `Logins`.

    The file is written some time later, for all of them together: a guesser does not make the disk busy, and the time
    of an answer does not tell whether there is a user. `who` is a user, and no later one of the same name.

    Args:
        now_s: The time, in seconds since the epoch.
    """

    def __init__(self, file: LoginFile, now_s: Callable[[], float]) -> None:
        self._file = file
        self._now_s = now_s
        self._counted: OrderedDict[tuple[str, str], FailureCount] = OrderedDict()
        self._changed: set[tuple[str, str]] = set()  # the file has something else
        self._timer: asyncio.TimerHandle | None = None
        for username, kind, count, since_s in file.rows("failures"):
            self._counted[username, kind] = FailureCount(count, since_s)

    def add(self, who: str, kind: Kind) -> None:
        key = who, kind
        self._counted.setdefault(key, FailureCount(0, self._now_s())).count += 1
        self._change(key)
        if len(self._counted) > _COUNTED_MAX:
            oldest, _ = self._counted.popitem(last=False)
            self._change(oldest)

    def take(self, who: str, kind: Kind) -> FailureCount:
        """What there was of one kind; counted from 0 again."""
        key = who, kind
        found = self._counted.pop(key, None)
        if found is None:
            return FailureCount()
        self._change(key)
        return found

    def close(self) -> None:
        """Write what the file does not have."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        changed, self._changed = self._changed, set()
        for username, kind in changed:
            one = self._counted.get((username, kind))
            if one is None:
                self._file.execute("DELETE FROM failures WHERE username = ? AND kind = ?", (username, kind))
            else:
                self._file.put("failures", (username, kind, one.count, one.since_s))

    def _change(self, key: tuple[str, str]) -> None:
        self._changed.add(key)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_WRITTEN_AFTER_S, self.close)

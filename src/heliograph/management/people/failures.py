"""How many logins of each user failed since the last one that succeeded: another person may be trying."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from heliograph.management.people.login_file import LoginFile

Kind = Literal["password", "code"]

_USERS_MAX: Final = 10_000
_WRITTEN_EVERY_S: Final = 30.0  # a guesser is not to write the disk full, nor to keep this process at it


@dataclass(slots=True)
class FailureCount:
    """FailureCount of one kind, and since when; 0 for none."""

    count: int = 0
    since_s: float = 0.0
    written_s: float = 0.0
    is_written: bool = True


class FailuresSinceLogin:
    """Counts failed logins of the users that there are, until they log in; owned by `Logins`.

    Args:
        now_s: The time, in seconds since the epoch.
    """

    def __init__(self, file: LoginFile, now_s: Callable[[], float]) -> None:
        self._file = file
        self._now_s = now_s
        self._counted: OrderedDict[tuple[str, str], FailureCount] = OrderedDict()
        for username, kind, count, since_s in file.rows("failures"):
            self._counted[username, kind] = FailureCount(count, since_s)

    def add(self, username: str, kind: Kind) -> None:
        now_s = self._now_s()
        one = self._counted.setdefault((username, kind), FailureCount(0, now_s))
        one.count += 1
        one.is_written = False
        if abs(now_s - one.written_s) >= _WRITTEN_EVERY_S:
            self._write(username, kind, one)
        while len(self._counted) > 2 * _USERS_MAX:
            self._drop(*next(iter(self._counted)))

    def take(self, username: str, kind: Kind) -> FailureCount:
        """What there was of one kind; counted from 0 again."""
        found = self._counted.get((username, kind), FailureCount())
        if found.count:
            self._drop(username, kind)
        return found

    def close(self) -> None:
        for (username, kind), one in self._counted.items():
            if not one.is_written:
                self._write(username, kind, one)

    def _write(self, username: str, kind: str, one: FailureCount) -> None:
        self._file.put("failures", (username, kind, one.count, one.since_s))
        one.is_written, one.written_s = True, self._now_s()

    def _drop(self, username: str, kind: str) -> None:
        del self._counted[username, kind]
        self._file.execute("DELETE FROM failures WHERE username = ? AND kind = ?", (username, kind))

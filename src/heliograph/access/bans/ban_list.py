"""The ban list: who may not connect, why, and until when.

A ban names one client id, user name or address, or many of them by a regular expression or a network. Columns and words
are EMQX's. Bans of a file stand beside those that are made while the node runs: neither hides the other.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from heliograph.access.bans.ban_table import CLIENTID_RE, USERNAME_RE, Ban, BanError, BanTable, check_lengths
from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import OK, STOP
from heliograph.mqtt import reason_codes as rc
from heliograph.storage.errors import StorageError

_PATTERNS_MAX: Final = 1000


class BanStore(Protocol):
    """Where bans are kept that were made while the node runs; implemented by `bans.stored`."""

    def put(self, ban: Ban) -> None: ...

    def forget(self, kind: str, who: str) -> None: ...

    async def saved(self) -> StorageError | None:
        """Wait until what was decided so far is on the disk; why it is not, or None."""


class BanList:
    """The bans of one node; owned by `BansPart`.

    Args:
        entries_max: Bans that are held; beyond it new ones are refused. It may be changed.

    Attributes:
        store: Where bans are kept that are made; None for memory only.
        is_complete: Whether all that were kept have been read; without them every client is refused.
    """

    def __init__(self, now_s: Callable[[], int], entries_max: int = 100_000) -> None:
        self._now_s = now_s
        self.entries_max = entries_max
        self.store: BanStore | None = None
        self.is_complete = True
        self._made = BanTable()
        self._of_file = BanTable()
        self._ends: list[tuple[int, str, str]] = []  # a heap by the end of bans; passed over if it is not theirs
        self._refused_clients = 0
        self._refused_entries = 0

    def __len__(self) -> int:
        return len(self._made) + len(self._of_file)

    # --- the list

    def add(self, ban: Ban, replaces: bool = False, is_automatic: bool = False) -> bool:
        """False if there is such a ban that it does not replace, or no room; `BanError` if it makes no sense.

        Args:
            is_automatic: Whether the node makes it: a quarter of the places is left for the bans of people.
        """
        check_lengths(ban)
        if ban.until_s is not None and ban.until_s <= self._now_s():
            raise BanError(f"the ban of {ban.kind} {ban.who!r} has ended already")
        self.expire()
        if self.find(ban.kind, ban.who) is not None:
            if not replaces:
                return False
            self.remove(ban.kind, ban.who)
        elif not self._has_room(ban.kind, is_automatic):
            self._refused_entries += 1
            return False
        self._hold(ban)
        if self.store is not None:
            self.store.put(ban)
        return True

    def restore(self, ban: Ban) -> None:
        """Add a ban that was kept, however many there are; one that has ended is forgotten. Raises `BanError`."""
        if self._holds(ban):
            self._hold(ban)
        elif self.store is not None:
            self.store.forget(ban.kind, ban.who)

    async def saved(self) -> StorageError | None:
        return None if self.store is None else await self.store.saved()

    def use_file(self, fresh: "BanList") -> None:
        """Replace the bans of an earlier file, and its limit, by those of `fresh`, which may be more than the limit."""
        self.entries_max = fresh.entries_max
        self._of_file = fresh._made
        self._list_ends()

    def remove(self, kind: str, who: str) -> bool:
        """Lift a ban; whether there was one. One of the file comes back when that is read again. Raises `BanError`."""
        was_made = self._made.remove(kind, who)
        if was_made and self.store is not None:
            self.store.forget(kind, who)
        return self._of_file.remove(kind, who) or was_made

    def find(self, kind: str, who: str) -> Ban | None:
        """The ban of exactly that name, if it holds; `BanError` if there cannot be such a ban."""
        ban = self._made.get(kind, who)
        if ban is None or not self._holds(ban):
            ban = self._of_file.get(kind, who)
        return ban if ban is not None and self._holds(ban) else None

    def __iter__(self) -> Iterator[Ban]:
        yield from self._made
        for ban in self._of_file:
            if self._made.get(ban.kind, ban.who) is None:
                yield ban

    def walk(self) -> Iterator[Ban]:
        """The bans that hold; others may be made and lifted meanwhile."""
        for table in (self._made, self._of_file):
            walk = table.walk()
            while found := walk.take(1):
                ban = found[0].ban
                is_hidden = table is not self._made and self._made.get(ban.kind, ban.who) is not None
                if self._holds(ban) and not is_hidden:
                    yield ban

    def expire(self) -> None:
        now = self._now_s()
        while self._ends and self._ends[0][0] <= now:
            until_s, kind, who = heapq.heappop(self._ends)
            for table in (self._made, self._of_file):
                ban = table.get(kind, who)
                if ban is None or ban.until_s != until_s:
                    continue
                table.remove(kind, who)
                if table is self._made and self.store is not None:
                    self.store.forget(kind, who)

    # --- who is banned

    def check(self, clientid: str, username: str | None, peerhost: str) -> Ban | None:
        """The ban that keeps such a client out."""
        for table in (self._made, self._of_file):
            ban = table.check(clientid, username, peerhost, self._holds) if len(table) else None
            if ban is not None:
                return ban
        return None

    def is_banned(self, clientid: str) -> bool:
        """Whether a client id is banned by name or expression."""
        return self.check(clientid, None, "") is not None

    def may_not_publish(self, clientid: str, username: str | None, peerhost: str) -> bool:
        """Whether its will is not published; an address that is not known any more is empty."""
        return bool(self._made or self._of_file) and self.check(clientid, username, peerhost) is not None

    def on_client_connect(self, client: ClientInfo, _connect: object, code: int) -> object:
        if code != rc.SUCCESS:
            return OK
        if not self.is_complete:
            return STOP, rc.SERVER_UNAVAILABLE
        if not (self._made or self._of_file):
            return OK
        if self.check(client.clientid, client.username, client.peerhost) is None:
            return OK
        self._refused_clients += 1
        return STOP, rc.BANNED

    def statistics(self) -> dict[str, int]:
        return {
            "banned.count": len(self),
            "banned.refused_clients": self._refused_clients,
            "banned.refused_entries": self._refused_entries,
        }

    # --- inside

    def _has_room(self, kind: str, is_automatic: bool) -> bool:
        places = self.entries_max - self.entries_max // 4 if is_automatic else self.entries_max
        is_pattern = kind in (CLIENTID_RE, USERNAME_RE)
        patterns_count = self._made.patterns_count + self._of_file.patterns_count
        return len(self) < places and not (is_pattern and patterns_count >= _PATTERNS_MAX)

    def _holds(self, ban: Ban) -> bool:
        return ban.until_s is None or ban.until_s > self._now_s()

    def _hold(self, ban: Ban) -> None:
        self._made.put(ban)
        if ban.until_s is not None:
            self._push_end(ban.until_s, ban)

    def _push_end(self, until_s: int, ban: Ban) -> None:
        if len(self._ends) > 2 * len(self) + 64:  # lifted bans leave theirs behind
            self._list_ends()
        else:
            heapq.heappush(self._ends, (until_s, ban.kind, ban.who))

    def _list_ends(self) -> None:
        tables = (self._made, self._of_file)
        bans = (ban for table in tables for ban in table)
        self._ends = [(ban.until_s, ban.kind, ban.who) for ban in bans if ban.until_s is not None]
        heapq.heapify(self._ends)

"""Hands rows of rules to the action runner after their commit, so that it reads from the log only what it missed."""

from collections.abc import Callable, Collection, Set
from dataclasses import dataclass, field

from heliograph.actions.handover import HANDOVER_BYTES_MAX, HandedRows, HandedStream, handover_bytes, in_order
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.interface import StorableMessage


@dataclass(slots=True)
class _Taken:
    """The rows of one ticket, until they are committed; `time` and `streams` are known when they are written."""

    rows: list[tuple[str, StorableMessage]] = field(default_factory=list)
    time: int = 0
    streams: list[str] = field(default_factory=list)


class RowHandover:
    """The rows under way to the action runner. Owned by its part; used in the event loop.

    Of an action, a commit is handed over whole or not at all, and the next one says which it follows, handed over or
    not.

    Args:
        database: Where rows are stored.
        query_of: Names the action of a row by its topic; None where the runner does not have it.
        send: Gives bytes to the runner; whether it takes them.
    """

    def __init__(
        self, database: LocalDatabase, query_of: Callable[[str], str | None], send: Callable[[bytes], bool]
    ) -> None:
        self._database = database
        self._query_of = query_of
        self._send = send
        self._taken: dict[int, _Taken] = {}
        self._newest: dict[str, int] = {}
        self._first: dict[str, int] = {}  # of each action in use, the first ticket whose rows are all taken

    def use(self, queries: Collection[str], gathering_ticket: int) -> None:
        """Hand over the rows of these actions, which `query_of` names from now on, and those of no other.

        Args:
            gathering_ticket: That of the next row. It may have rows of an action that are not taken: from before the
                action was in use, or after that.
        """
        self._newest = {
            query: self._newest[query] for query in queries if query in self._first and query in self._newest
        }
        self._first = {query: self._first.get(query, gathering_ticket + 1) for query in queries}

    def took(self, ticket: int, message: StorableMessage) -> None:
        """A row was taken for the commit of a ticket."""
        query = self._query_of(message.topic)
        if query is not None:
            taken = self._taken.get(ticket)
            if taken is None:
                taken = self._taken[ticket] = _Taken()
            taken.rows.append((query, message))

    def written(self, ticket: int) -> None:
        """The messages of a ticket were just written, and nothing since."""
        taken = self._taken.get(ticket)
        if taken is not None:
            taken.streams = list(map(str, self._database.streams_written([message for _, message in taken.rows])))
            taken.time = self._database.newest_commit_us()

    def committed(self, ticket: int, error: Exception | None) -> Set[str]:
        """A ticket is answered for; the actions whose rows were handed over."""
        taken = self._taken.pop(ticket, None)
        if taken is None:
            return frozenset()
        queries = {query for query, _ in taken.rows}
        if not taken.time:  # it was not written, or nothing is known of it
            for query in queries:
                self._newest.pop(query, None)
            return frozenset()
        # Of what was stored before the first of them nothing is known.
        after = {query: self._newest.get(query, taken.time - 1) for query in queries}
        self._newest.update(dict.fromkeys(queries, taken.time))  # whatever becomes of what follows
        if error is not None:
            return frozenset()
        made = [HandedRows(query, after[query], taken.time, streams) for query, streams in _sorted(taken)]
        return {rows.query for rows in made if self._is_whole(ticket, rows.query) and self._is_sent(rows)}

    def _is_whole(self, ticket: int, query: str) -> bool:
        first = self._first.get(query)
        return first is not None and ticket >= first

    def _is_sent(self, rows: HandedRows) -> bool:
        return rows.payload_bytes <= HANDOVER_BYTES_MAX and self._send(handover_bytes(rows))

    def __repr__(self) -> str:
        return f"RowHandover({len(self._newest)} actions, {len(self._taken)} commits under way)"


def _sorted(taken: _Taken) -> list[tuple[str, list[HandedStream]]]:
    """Rows by their action, and of each by their stream."""
    found: dict[str, dict[str, HandedStream]] = {}
    for (query, message), stream in zip(taken.rows, taken.streams, strict=True):
        streams = found.setdefault(query, {})
        rows = streams.get(stream)
        if rows is None:
            rows = streams[stream] = HandedStream(stream, [], [], [])
        high = int(message.id_high)
        rows.payloads.append(message.payload)
        rows.ids.append(high.to_bytes(8, "big") + int(message.id_low).to_bytes(8, "big"))
        rows.times.append(high)
    return [(query, in_order(list(streams.values()))) for query, streams in found.items()]

"""What a node hands to its action runner, and what the runner must read from the log instead."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from heliograph.actions.handover import HANDOVER_BYTES_MAX, HandedRows, rows_of
from heliograph.node.row_handover import RowHandover
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.interface import StorableMessage
from storage.messages import message_maker
from support.databases import open_database, store_batch

QUERIES = {"rows/a": "a", "rows/b": "b"}


class Hands:
    """A handover whose commits a test makes."""

    def __init__(self, database: LocalDatabase) -> None:
        self.database = database
        self.takes: Callable[[str], bool] = lambda query: True
        self.given: list[HandedRows] = []
        self.handover = RowHandover(database, QUERIES.get, self._send)
        self.handover.use(QUERIES.values(), 0)
        self._ticket = 0
        self._make = message_maker()

    def _send(self, data: bytes) -> bool:
        rows = rows_of(data.partition(b"\n")[2])
        if self.takes(rows.query):
            self.given.append(rows)
            return True
        return False

    def commit(self, topics: Sequence[str], error: Exception | None = None, payload: bytes = b"{}") -> set[str]:
        """Store a row for each topic in one commit; the queries that were handed theirs."""
        messages: list[StorableMessage] = [self._make(topic=topic, payload=payload) for topic in topics]
        self._ticket += 1
        for message in messages:
            self.handover.took(self._ticket, message)
        store_batch(self.database, messages)
        self.handover.written(self._ticket)
        return set(self.handover.committed(self._ticket, error))

    def use(self, *queries: str) -> None:
        """Hand over the rows of these while the next ticket is gathered, which may have rows already."""
        self.handover.use(queries, self._ticket + 1)

    def lose(self, topic: str) -> None:
        """Take a row whose commit fails before it is written."""
        self._ticket += 1
        self.handover.took(self._ticket, self._make(topic=topic))
        assert not self.handover.committed(self._ticket, OSError("no room"))


@pytest.fixture
def hands(tmp_path: Path) -> Iterator[Hands]:
    database = open_database(tmp_path)
    yield Hands(database)
    database.close()


def test_each_handover_says_which_commit_it_follows(hands: Hands) -> None:
    assert hands.commit(["rows/a", "rows/b", "other", "rows/a"]) == {"a", "b"}
    assert hands.commit(["rows/b"]) == {"b"}
    assert hands.commit(["other"]) == set()
    assert hands.commit(["rows/a"]) == {"a"}
    of_a = [rows for rows in hands.given if rows.query == "a"]
    assert [rows.count for rows in of_a] == [2, 1]
    assert of_a[0].after == of_a[0].time - 1, "what was before is not known"
    assert of_a[1].after == of_a[0].time
    (stream,) = of_a[1].streams
    assert stream.stream in {str(one.id) for one in hands.database.get_streams("rows/a", of_a[1].time)}


@pytest.mark.parametrize("reason", ["runner", "disk", "size", "unwritten"])
def test_what_is_not_handed_over_is_missed_by_the_next(hands: Hands, reason: str) -> None:
    hands.commit(["rows/a"])
    (first,) = hands.given
    if reason == "runner":
        hands.takes = lambda query: query != "a"
        assert hands.commit(["rows/a", "rows/b"]) == {"b"}
        hands.takes = lambda query: True
    elif reason == "disk":
        assert not hands.commit(["rows/a"], OSError("no answer"))
    elif reason == "size":
        assert not hands.commit(["rows/a"], payload=b"x" * (HANDOVER_BYTES_MAX + 1))
    else:
        hands.lose("rows/a")
    assert hands.commit(["rows/a"]) == {"a"}
    assert first.time < hands.given[-1].after < hands.given[-1].time


def test_a_commit_that_may_have_rows_from_before_is_not_handed_over(hands: Hands) -> None:
    hands.commit(["rows/a"])
    hands.use("b")
    assert hands.commit(["rows/a", "rows/b"]) == {"b"}, "the runner may still have what `a` was before"
    hands.commit(["rows/b"])
    hands.use("a", "b")
    assert hands.commit(["rows/a", "rows/b"]) == {"b"}
    not_handed = hands.database.newest_commit_us()
    assert hands.commit(["rows/a", "rows/b"]) == {"a", "b"}
    assert [rows.after for rows in hands.given if rows.query == "a"][-1] == not_handed


def test_an_action_in_use_again_follows_nothing_that_was_before(hands: Hands) -> None:
    hands.commit(["rows/a"])
    hands.use("b")
    hands.commit(["rows/a", "rows/b"])
    hands.commit(["rows/b"])
    hands.use("a", "b")
    hands.commit(["rows/b"])
    assert hands.commit(["rows/a"]) == {"a"}
    last = hands.given[-1]
    assert last.after == last.time - 1, "rows were stored meanwhile that were not taken"

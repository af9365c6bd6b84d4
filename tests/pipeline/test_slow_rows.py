"""Rows that hold up their batch: a database that is slow for one of them, a service that refuses us for one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.runner.local_rows import LocalRows
from heliograph.pipeline.sinks.http import HttpSink
from heliograph.pipeline.sinks.retry import RetryPolicy, SuspectRowsError
from heliograph.pipeline.sinks.sql_batches import SlowStatementError, write_exactly_once
from support.cases import cases
from support.sinks import Refused, batch_of, sink_of
from support.webhook import Answer, Posted, webhook

AT_ONCE = RetryPolicy(attempts=2, first_pause_s=0.0)


def http_sink(url: str, more: str = "batch_rows = 1") -> HttpSink:
    sink = sink_of(f'{{ type = http, url = "{url}", body = "${{payload}}", retry {{ attempts = 1 }}, {more} }}')
    assert isinstance(sink, HttpSink)
    return sink


class Database:
    """A table without a server, in which statements of some rows time out; it keeps what is committed."""

    def __init__(self, slow: set[bytes]) -> None:
        self.slow = slow
        self.rows: list[bytes] = []
        self._open: list[bytes] = []

    @contextmanager
    def connect(self) -> Iterator["Database"]:
        self._open = []
        yield self

    def last_batch(self, owner: str, query: str) -> int | None:
        return None

    def empty_table(self) -> None:
        raise AssertionError

    def write(self, chunk: pa.RecordBatch) -> None:
        rows = chunk.column("payload").to_pylist()
        if self.slow.intersection(rows):
            raise SlowStatementError("canceling statement due to statement timeout")
        self._open += rows

    def record(self, owner: str, query: str, batch: int) -> None:
        assert batch == 0

    def commit(self) -> None:
        self.rows += self._open


@cases(
    ("slow", "found"),
    [
        (b"b", b"b"),
        (b"a", b"a"),
        (b"f", b"f"),
        (b"bdf", b"bdf"),
        (b"bc", b""),
        (b"abcdef", b""),
        (b"aceg", b""),
    ],
)
def test_a_row_whose_statement_always_times_out_is_refused_where_others_pass(slow: bytes, found: bytes) -> None:
    payloads = [b"%c" % letter for letter in b"abcdefgh"[: 8 if slow == b"aceg" else 6]]
    database, refused = Database({b"%c" % letter for letter in slow}), Refused()
    rows = LocalRows(payloads, http_sink("http://h"))

    def write() -> None:
        write_exactly_once(database.connect, rows, batch_of(0, refused), AT_ONCE, chunk_rows=4, replace=False)

    if found:
        write()
    else:
        with pytest.raises(SinkError, match="statement timeout"):
            write()
    assert b"".join(row["payload"] for row, _ in refused.rows) == found
    assert database.rows == [row for row in payloads if found and row not in found]


def for_the_row(request: Posted, number: int) -> Answer:
    return Answer(403 if b"bad" in request.body else 200)


def for_a_moment(request: Posted, number: int) -> Answer:
    return Answer(401 if number == 2 else 200)


def from_now_on(request: Posted, number: int) -> Answer:
    return Answer(401 if number >= 3 else 200)


@cases(
    ("answer", "rows", "refused_rows", "sent"),
    [
        (for_the_row, "ok1 bad ok2", "bad", "ok1 bad ok2 bad ok2"),
        (for_the_row, "bad ok1", "bad", "bad ok1 bad ok1"),
        (for_the_row, "ok1 bad bad2", "bad bad2", "ok1 bad bad2 bad bad2 ok1"),
        (for_a_moment, "ok1 ok2 ok3", "", "ok1 ok2 ok3 ok2"),
        (from_now_on, "ok1 ok2 ok3", None, "ok1 ok2 ok3 ok3 ok2"),
        (for_the_row, "bad bad2", None, "bad bad2 bad"),
    ],
)
def test_a_row_for_which_a_service_refuses_us_is_refused_where_it_takes_others(
    answer: Callable[[Posted, int], Answer], rows: str, refused_rows: str | None, sent: str
) -> None:
    """A service that refuses all of them is away: nothing is refused, and the batch waits."""
    refused = Refused()
    with webhook() as web:
        web.answer = lambda request: answer(request, len(web.requests))
        sink = http_sink(f"{web.url}/${{payload}}")
        batch = LocalRows([row.encode() for row in rows.split()], sink)
        if refused_rows is None:
            with pytest.raises(SinkError, match=r"answered 40[13]") as error:
                sink.write(batch, batch_of(0, refused))
            assert isinstance(error.value, SuspectRowsError) == (rows == "bad bad2")
        else:
            sink.write(batch, batch_of(0, refused))
    assert " ".join(request.body.decode() for request in web.requests) == sent
    assert " ".join(row["payload"].decode() for row, _ in refused.rows) == (refused_rows or "")


def test_a_filter_that_forbids_the_body_of_one_row_forbids_no_other() -> None:
    refused = Refused()
    with webhook() as web:
        web.answer = lambda request: for_the_row(request, 0)
        sink = http_sink(web.url, "batch_rows = 2")
        figures = sink.write(LocalRows([b"1", b"2", b"3", b'"bad"', b"5"], sink), batch_of(0, refused)).figures
    assert [row["payload"] for row, _ in refused.rows] == [b'"bad"']
    assert (figures["rows"], figures["refused"]) == (4, 1)

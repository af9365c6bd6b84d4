"""What sinks share that write to a database over HTTP: some rows in a request, and what becomes of its answer.

Rows arrive at least once. A request that is refused is halved until the rows are found that are to blame. A batch that
runs again makes the same requests of the same rows, by which a database may tell what it has already.
"""

import base64
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import ClassVar, Final
from urllib.parse import quote, urlencode

import pyarrow as pa

from heliograph.outbound.http_connection import HttpClientAnswer, HttpConnections, HttpUrl, header_line
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.http_delivery import RefusedRequestError, judge
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, Written
from heliograph.pipeline.sinks.retry import Attempts, TransientError
from heliograph.pipeline.sinks.row_values import check_template_columns
from heliograph.pipeline.sinks.rows import RowField, Rows
from heliograph.pipeline.sinks.servers import ServerSink
from heliograph.pipeline.sinks.sql_batches import RefusedRowsError
from heliograph.pipeline.tls import tls_context
from heliograph.settings.fields import setting
from heliograph.settings.kinds import Duration, Integer
from heliograph.settings.tls import ClientTls

_ANSWER_BYTES_MAX: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class RowPortion:
    """Some rows of a batch, next to each other.

    Attributes:
        batch: The identity of the batch.
        name: Of these rows in it; the same whenever the batch brings them in the same portions.
        numbers: The numbers of the rows in the batch.
        time_ns: When the batch began, in nanoseconds since the epoch.
    """

    rows: pa.RecordBatch
    batch: str
    name: str
    numbers: Sequence[int]
    time_ns: int

    def halves(self) -> "tuple[RowPortion, RowPortion]":
        half = self.rows.num_rows // 2
        first, second = self.rows.slice(0, half), self.rows.slice(half)
        return (
            RowPortion(first, self.batch, f"{self.name}.0", self.numbers[:half], self.time_ns),
            RowPortion(second, self.batch, f"{self.name}.1", self.numbers[half:], self.time_ns),
        )

    def taken(self, places: Sequence[int]) -> "RowPortion":
        numbers = [self.numbers[place] for place in places]
        return RowPortion(self.rows.take(pa.array(places, pa.int64())), self.batch, self.name, numbers, self.time_ns)


@dataclass(frozen=True, slots=True)
class DatabaseRequest:
    """A request; `path` begins with a slash, and `query` is its parameters."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """What an answer says of the rows of a request, by their places in it: those that are refused, or not taken yet."""

    refused: Mapping[int, str] = field(default_factory=dict)
    again: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HttpDatabaseSink(ServerSink):
    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    batch_rows: int = setting(Integer(1, 100_000), 1000, "Rows of a request at most.")
    timeout_s: float = setting(Duration(0.001, needs_unit=True), 30.0, "How long an answer may take.", name="timeout")

    @property
    @abstractmethod
    def base_url(self) -> str:
        """Where the database is, without a slash at its end."""

    @property
    @abstractmethod
    def templates(self) -> Sequence[str]:
        """What takes values of the rows."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of every request, which may be secret."""
        if self.username is None:
            return {}
        login = f"{self.username}:{self.password_text or ''}".encode()
        return {"Authorization": f"Basic {base64.b64encode(login).decode()}"}

    @abstractmethod
    def request(self, part: RowPortion) -> DatabaseRequest:
        """The request that writes rows.

        Raises:
            RefusedRowsError: None can be made of one of them.
        """

    @abstractmethod
    def probe(self) -> DatabaseRequest:
        """A request that shows whether the database lets us in, and writes nothing."""

    def outcome(self, answer: HttpClientAnswer, part: RowPortion) -> RequestOutcome:
        """What an answer says; raises as `judge` does."""
        judge(answer, self.target)
        return RequestOutcome()

    def check_probe(self, answer: HttpClientAnswer) -> None:
        judge(answer, self.target)

    def check_fields(self, fields: Sequence[RowField]) -> None:
        check_template_columns(self.templates, fields, self.target)

    def write(self, rows: Rows, batch: MicroBatch) -> Written:
        with batch.connections.opened(self.connections) as connections:
            return _Delivery(self, connections, rows, batch).write()

    def connections(self) -> AbstractContextManager[HttpConnections]:
        return HttpConnections(self.dialer, self._context, self.timeout_s, _ANSWER_BYTES_MAX)

    def exchange(self, connections: HttpConnections, request: DatabaseRequest) -> HttpClientAnswer:
        """Send a request and await its answer."""
        url = HttpUrl.of(self.base_url + quote(request.path))
        # As a query has it, where + is a blank to every server.
        target = f"{url.target}?{urlencode(request.query)}" if request.query else url.target
        headers = {"Host": url.origin.authority, "User-Agent": "heliograph", **self.headers, **request.headers}
        try:
            lines = b"".join(header_line(name, value) for name, value in headers.items())
        except ValueError as error:
            raise SinkError(f"{self.target}: no request can be made: {error}") from error
        head = f"{request.method} {target} HTTP/1.1\r\n".encode() + lines
        with self.connecting():
            connection = connections.borrow(url.origin)
            connection.send(b"%sContent-Length: %d\r\n\r\n%s" % (head, len(request.body), request.body))
            answer = connection.receive()
        connections.give_back(connection)
        return answer

    def check_server(self) -> None:
        """Ask the database whether it lets us in. Raises `SinkError` or `TransientError`."""
        with self.connections() as connections:
            try:
                self.check_probe(self.exchange(connections, self.probe()))
            except RefusedRequestError as error:
                raise SinkError(f"{self.target} {error}") from error

    def _context(self) -> SSLContext:
        return tls_context(self.tls or ClientTls(), SinkError)


class _Delivery:
    """The requests of one batch, one after another."""

    def __init__(self, sink: HttpDatabaseSink, connections: HttpConnections, rows: Rows, batch: MicroBatch) -> None:
        self._sink = sink
        self._connections = connections
        self._rows = rows
        self._batch = batch
        self._figures = Counter(dict.fromkeys(("rows", "bytes", "requests", "retries", "refused"), 0))

    def write(self) -> Written:
        batch, begin, time_ns = self._batch, 0, time.time_ns()
        identity = f"{batch.owner}-{batch.query}-{batch.number}"
        for number, chunk in enumerate(self._rows.chunks(self._sink.batch_rows)):
            parts = [RowPortion(chunk, identity, str(number), range(begin, begin + chunk.num_rows), time_ns)]
            begin += chunk.num_rows
            while parts:
                part = parts.pop()
                try:
                    self._bring(part)
                except (RefusedRowsError, RefusedRequestError) as error:
                    if part.rows.num_rows == 1:
                        self._refuse(part, 0, str(error))
                    else:
                        parts += reversed(part.halves())
        return Written(figures=dict(self._figures))

    def _bring(self, part: RowPortion) -> None:
        """Write the rows, send those again that the database has not taken yet, and refuse what it never will."""
        refused: list[tuple[RowPortion, int, str]] = []
        left = part

        def attempt() -> None:
            nonlocal left
            request = self._sink.request(left)
            outcome = self._sink.outcome(self._sink.exchange(self._connections, request), left)
            self._figures["bytes"] += len(request.body)
            refused.extend((left, place, reason) for place, reason in outcome.refused.items())
            if outcome.again:
                left = left.taken(list(outcome.again))
                raise TransientError(f"{self._sink.target}: {next(iter(outcome.again.values()))}")

        attempts = Attempts(self._sink.retry, tell=self._batch.tell_retry)
        self._figures["requests"] += 1
        try:
            attempts.run(attempt)
        finally:
            self._figures["retries"] += attempts.retries
        self._figures["rows"] += part.rows.num_rows - len(refused)
        for one, place, reason in refused:
            self._refuse(one, place, reason)

    def _refuse(self, part: RowPortion, place: int, reason: str) -> None:
        self._figures["refused"] += 1
        self._batch.refuse(self._rows.row(part.rows, place), reason)

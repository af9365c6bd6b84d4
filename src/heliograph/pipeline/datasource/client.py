"""The client of the broker's storage reader: which streams there are, how far to read, and the rows themselves.

It speaks the JSON and the record batches of the reader over Arrow Flight and knows nothing of Spark, so it serves
Spark's driver, Spark's workers and a program of your own alike. ``docs/storage.md`` says what the requests mean.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
from pyarrow import flight

from heliograph.pipeline.errors import (
    DatabaseAbsentError,
    DataLossError,
    OptionError,
    PipelineError,
    ReaderRefusedError,
    ReaderUnavailableError,
)
from heliograph.storage.reader.local_token import find_token

DEFAULT_ENDPOINT: Final = "127.0.0.1:8815"
DEFAULT_DATABASE: Final = "messages"

#: Where each stream was read up to; a stream that is not in it was not read yet.
Positions = Mapping[str, str]

#: What a read does with what is damaged on disk.
FAIL: Final = "fail"
SKIP: Final = "skip"

_TLS_SCHEME: Final = "grpc+tls"
_REQUEST_DEADLINE_S: Final = 60.0
# The reader's codes.
_DROPPED: Final = b"storage_generation_dropped"
_ABSENT_DATABASE: Final = b"storage_unknown_database"
# A reader that ends cancels what it was asked. That is no refusal, which may mean that nothing is stored yet.
_ABSENT: Final = (flight.FlightUnavailableError, flight.FlightTimedOutError, flight.FlightCancelledError)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MessageSelection:
    """Which stored messages are meant: those of a database that match a topic filter, of a span of commit time.

    Attributes:
        start: The first commit time, in microseconds since the epoch; None is the earliest.
        end: The commit time to stop before, in microseconds since the epoch; None is no end.
        on_damage: ``fail`` refuses a read of what is damaged on disk, ``skip`` leaves it out and reports it.
    """

    database: str = DEFAULT_DATABASE
    topics: tuple[str, ...] = ("#",)
    start: int | None = None
    end: int | None = None
    on_damage: str = FAIL
    clientids: tuple[str, ...] | None = None
    shards: tuple[int, ...] | None = None

    def to_request(self) -> dict[str, Any]:
        """The part of a request to the reader that says what is meant."""
        request: dict[str, Any] = {"database": self.database, "topics": list(self.topics)}
        request |= {"start": self.start, "end": self.end}
        if self.clientids is not None:
            request["clientids"] = list(self.clientids)
        if self.shards is not None:
            request["shards"] = list(self.shards)
        return request


@dataclass(frozen=True)
class StreamInfo:
    """One stream: its id and shard, its rank for replay in order, the topics it learned, and whether it still grows."""

    stream: str
    shard: int
    generation: int
    rank: tuple[int, int]
    topics: str
    is_sealed: bool


@dataclass(frozen=True)
class StreamStep:
    """How far to read one stream: the position reached, and the rows and bytes up to it."""

    position: str
    messages: int
    bytes: int


@dataclass(frozen=True)
class ReadPlan:
    """How far to read each stream, and how many rows the limits left for later.

    Attributes:
        dropped: Streams of the given positions that were removed with their generation, and how many of their rows were
            not read before: 0 if all were, None if unknown.
    """

    streams: Mapping[str, StreamStep]
    messages_remaining: int
    dropped: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def messages(self) -> int:
        """Rows of all streams of this plan."""
        return sum(step.messages for step in self.streams.values())

    def positions(self) -> dict[str, str]:
        """The position of each stream at the end of this plan, in the order of the stream ids."""
        return {stream: step.position for stream, step in sorted(self.streams.items()) if step.position}


@dataclass(frozen=True)
class NewestReadPlan:
    """Which of the newest messages to read: those stored in [since, until), in microseconds since the epoch.

    Attributes:
        since: Where to read from; the ``end`` of the plan that goes on.
        streams: The streams that have rows of them, before those of other topics are left out.
    """

    since: int
    until: int
    streams: tuple[str, ...]
    messages_remaining: int


class StorageClient:
    """A connection to one storage reader. It opens on its first request and is closed by `close` or a ``with`` block.

    Every method raises `ReaderUnavailableError` when the reader cannot be reached and `ReaderRefusedError` when it
    answers with an error. A client may be used by several threads.

    Args:
        endpoint: host:port of the reader, or ``grpc+tls://host:port`` where it speaks TLS.
        token: The token that the reader asks for; without one, that of a node of this user on this machine, looked for
            again before each request: after the node has ended, another user may take its port.
        tls_ca: PEM file with the authorities that the reader's certificate is checked against; with it the client
            speaks TLS whatever the endpoint says. Without, those of gRPC are used.
        tls_cert: PEM file with a certificate to show, where the reader asks for one.
        tls_key: PEM file with its key; None if that is in ``tls_cert``.

    Raises:
        OptionError: A file cannot be read.
    """

    def __init__(
        self,
        endpoint: str = DEFAULT_ENDPOINT,
        *,
        token: str | None = None,
        tls_ca: str | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
    ) -> None:
        scheme, _, self._endpoint = endpoint.rpartition("://")
        self._is_tls = scheme == _TLS_SCHEME or tls_ca is not None
        self._token = token
        self._has_found_token = False
        certificates = {
            "tls_root_certs": _pem("tlsCa", tls_ca),
            "cert_chain": _pem("tlsCert", tls_cert),
            "private_key": _pem("tlsKey", tls_key or tls_cert),
        }
        location = f"{_TLS_SCHEME if self._is_tls else 'grpc+tcp'}://{self._endpoint}"
        self._client = flight.FlightClient(location, **(certificates if self._is_tls else {}))

    def __repr__(self) -> str:
        return f"StorageClient({self._endpoint!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def info(self, database: str | None = None) -> dict[str, Any]:
        """Totals of one database, or the names of all databases."""
        return self._ask("info", {"database": database} if database is not None else {})

    def offloaded(self, database: str) -> list[dict[str, Any]]:
        """Generations of a database whose rows are all in Parquet files: number and files."""
        request = {"database": database, "topics": ["#"]}
        found: list[dict[str, Any]] = self._ask("offloaded", request)["generations"]
        return found

    def streams(self, selection: MessageSelection) -> list[StreamInfo]:
        """The streams that hold messages of the selection, or may come to hold some."""
        return [
            StreamInfo(
                stream=entry["stream"],
                shard=entry["shard"],
                generation=entry["generation"],
                rank=(entry["rank"][0], entry["rank"][1]),
                topics=entry["topics"],
                is_sealed=entry["sealed"],
            )
            for entry in self._ask("get_streams", selection.to_request())["streams"]
        ]

    def plan(
        self,
        selection: MessageSelection,
        positions: Positions | None = None,
        *,
        messages_max: int | None = None,
        bytes_max: int | None = None,
    ) -> ReadPlan:
        """Ask how far to read from the given positions, with at most so many rows or bytes, fairly over the streams."""
        request = {"positions": dict(positions or {}), "max_messages": messages_max, "max_bytes": bytes_max}
        answer = self._ask("plan", selection.to_request() | request)
        steps = {
            stream: StreamStep(step["position"], step["messages"], step["bytes"])
            for stream, step in answer["streams"].items()
        }
        dropped = {stream: lost["messages"] for stream, lost in answer.get("dropped", {}).items()}
        return ReadPlan(steps, answer["remaining"]["messages"], dropped)

    def plan_newest(self, selection: MessageSelection, *, messages_max: int, bytes_max: int) -> NewestReadPlan:
        """Ask since when to read to get the newest messages, with at most so many rows or bytes."""
        request = {"max_messages": messages_max, "max_bytes": bytes_max}
        answer = self._ask("plan_newest", selection.to_request() | request)
        streams, remaining = tuple(answer["streams"]), answer["remaining"]["messages"]
        return NewestReadPlan(answer["since"], answer["until"], streams, remaining)

    def split(
        self, selection: MessageSelection, ranges: Mapping[str, tuple[str, str]], *, messages_max: int, bytes_max: int
    ) -> dict[str, list[StreamStep]]:
        """Ask for pieces of about so many rows or bytes of ranges, each from before its first row to its last."""
        request = {"ranges": ranges, "max_messages": messages_max, "max_bytes": bytes_max}
        answer = self._ask("split", selection.to_request() | request)
        return {
            stream: [StreamStep(step["position"], step["messages"], step["bytes"]) for step in steps]
            for stream, steps in answer["streams"].items()
        }

    def read(
        self,
        selection: MessageSelection,
        stream: str,
        position: str = "",
        to: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one stream after a position, up to another or to the end, as record batches.

        What a selection with ``on_damage="skip"`` has left out is logged as a warning when the stream was read.

        Args:
            position: The position to begin after; "" is the beginning.
            to: The last position; None is the end of what is stored.
        """
        ticket = selection.to_request() | {"stream": stream, "from": position, "to": to}
        ticket["columns"] = list(columns) if columns is not None else None
        ticket["on_damage"] = selection.on_damage
        try:
            options = flight.FlightCallOptions(headers=self._headers())
            for chunk in self._client.do_get(flight.Ticket(json.dumps(ticket).encode()), options):
                if chunk.app_metadata is not None:
                    _tell_damage(stream, json.loads(chunk.app_metadata.to_pybytes()))
                if chunk.data is not None and chunk.data.num_rows:
                    yield chunk.data
        except (pa.ArrowException, OSError) as error:
            raise self._translated(error, f"reading {stream}") from error

    def _ask(self, action: str, request: Mapping[str, Any]) -> dict[str, Any]:
        body = json.dumps(request).encode()
        try:
            options = flight.FlightCallOptions(timeout=_REQUEST_DEADLINE_S, headers=self._headers())
            results = list(self._client.do_action((action, body), options))
        except (pa.ArrowException, OSError) as error:
            raise self._translated(error, action) from error
        if not results:
            raise ReaderRefusedError(f"the storage reader at {self._endpoint} gave no answer to {action}")
        answer: dict[str, Any] = json.loads(results[0].body.to_pybytes())
        return answer

    def _headers(self) -> list[tuple[bytes, bytes]]:
        token = self._token or find_token(self._endpoint)
        if not self._token and token:
            self._has_found_token = True
        elif not token and self._has_found_token:
            raise ReaderUnavailableError(
                f"nothing of this user listens at {self._endpoint} any more, so the token is not sent there: is the "
                "broker running? A reader of another user needs a token of its own"
            )
        return [(b"authorization", f"Bearer {token}".encode())] if token else []

    def _translated(self, error: Exception, doing: str) -> PipelineError:
        if isinstance(error, _ABSENT):
            return ReaderUnavailableError(
                f"the storage reader at {self._endpoint} does not answer ({doing}): is the broker running, and is "
                f"durable_storage.flight.bind this address?{self._tls_hint(error)}"
            )
        if getattr(error, "extra_info", None) == _DROPPED:
            return DataLossError(_said_by_server(error))
        kind = DatabaseAbsentError if getattr(error, "extra_info", None) == _ABSENT_DATABASE else ReaderRefusedError
        return kind(f"the storage reader at {self._endpoint} refused ({doing}): {_said_by_server(error)}")

    def _tls_hint(self, error: Exception) -> str:
        """A hint for a failed connection: one side may speak TLS and the other not, or with another certificate."""
        if self._is_tls:
            failed = " (its certificate is not of an authority of tlsCa, or of another host)"
            return f" Does it speak TLS{failed if 'verif' in str(error).lower() else ''}?"
        return f" If it speaks TLS, the endpoint is {_TLS_SCHEME}://{self._endpoint}."


def _pem(option: str, file: str | None) -> bytes | None:
    try:
        return Path(file).read_bytes() if file is not None else None
    except OSError as error:
        raise OptionError(option, file, f"a PEM file that can be read ({error.strerror})") from None


def _tell_damage(stream: str, note: Mapping[str, Any]) -> None:
    for damage in note["damaged"]:
        lost = "some" if damage["messages"] is None else damage["messages"]
        _log.warning(
            "%s messages of stream %s, stored from %d to %d µs, are damaged and were left out: %s",
            *(lost, stream, damage["since"], damage["until"], damage["problem"]),
        )
    if note["damaged_count"] > len(note["damaged"]):
        _log.warning("%d more places of stream %s are damaged", note["damaged_count"] - len(note["damaged"]), stream)


def _said_by_server(error: Exception) -> str:
    # Arrow appends where in gRPC and in its own source an error passed; people want the sentence of the server.
    text = str(error).split(". gRPC client debug context:")[0].split("; Detail:")[0]
    text = text.split(". Client context:")[0].split(". Detail:")[0]
    return text.removeprefix("Flight returned invalid argument error, with message: ")

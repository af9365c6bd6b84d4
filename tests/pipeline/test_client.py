"""The client of the storage reader against a real reader process."""

from typing import TYPE_CHECKING

import pytest
from pyarrow import flight

from heliograph.pipeline.datasource.client import MessageSelection, StorageClient
from heliograph.pipeline.errors import ReaderRefusedError, ReaderUnavailableError

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]


def _payloads(client: StorageClient, stream: str, position: str = "", to: str | None = None) -> list[bytes]:
    batches = client.read(MessageSelection(), stream, position, to, ["payload"])
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def test_a_stream_is_read_in_two_parts_without_gap_or_overlap(stored: "Stored") -> None:
    stored.put_commits("a/1", 4, 5)
    with StorageClient(stored.endpoint) as client:
        (info,) = client.streams(MessageSelection())
        first = client.plan(MessageSelection(), messages_max=10)
        rest = client.plan(MessageSelection(), first.positions())
        middle = first.streams[info.stream].position
        assert (first.messages, first.messages_remaining) == (10, 10)
        assert (rest.messages, rest.messages_remaining) == (10, 0)
        parts = [_payloads(client, info.stream, to=middle), _payloads(client, info.stream, middle)]
        assert [len(part) for part in parts] == [10, 10]
        assert parts[0] + parts[1] == [b'{"n": %d}' % number for number in range(20)]


def test_the_totals_of_a_database(stored: "Stored") -> None:
    stored.put_commits("a/1", 2, 3)
    with StorageClient(stored.endpoint) as client:
        assert client.info()["databases"] == ["messages"]
        assert client.info("messages")["messages"] == 6


def test_only_the_columns_asked_for_are_read(stored: "Stored") -> None:
    stored.put("a/1", [b"x"])
    with StorageClient(stored.endpoint) as client:
        (info,) = client.streams(MessageSelection())
        (batch,) = client.read(MessageSelection(), info.stream, columns=["payload", "topic"])
        assert batch.to_pylist() == [{"payload": b"x", "topic": "a/1"}]


@pytest.mark.parametrize(
    ("selection", "told"),
    [
        (MessageSelection(database="metrics"), "there is no such database; there are: messages"),
        (MessageSelection(topics=("a/#/b",)), "a/#/b"),
    ],
)
def test_what_the_reader_refuses_is_told_in_its_own_words(
    stored: "Stored", selection: MessageSelection, told: str
) -> None:
    stored.put("a/1", [b"x"])
    with StorageClient(stored.endpoint) as client, pytest.raises(ReaderRefusedError) as caught:
        client.plan(selection)
    assert told in str(caught.value)
    assert "gRPC" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_reader_that_is_not_there_is_named() -> None:
    with StorageClient("127.0.0.1:9") as client, pytest.raises(ReaderUnavailableError) as caught:
        client.info()
    assert str(caught.value).startswith("the storage reader at 127.0.0.1:9 does not answer (info)")


class EndingReader(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """Answers as a reader does that was told to end while it was asked."""

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> list[bytes]:
        raise flight.FlightCancelledError(action.type)


def test_a_reader_that_ends_meanwhile_does_not_answer() -> None:
    with (
        EndingReader("grpc://127.0.0.1:0") as reader,
        StorageClient(f"127.0.0.1:{reader.port}") as client,
        pytest.raises(ReaderUnavailableError, match="does not answer"),
    ):
        client.info()

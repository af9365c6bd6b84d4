"""A stream of Spark whose messages retention removes; the readers are called as Spark calls them."""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from heliograph.pipeline.datasource.offsets import Offset
from heliograph.pipeline.datasource.options import SourceOptions
from heliograph.pipeline.datasource.schema import MESSAGE_SCHEMA
from heliograph.pipeline.datasource.source import MessageStreamReader
from heliograph.pipeline.errors import DataLossError

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]


def reader_of(stored: "Stored", fail: str = "true") -> MessageStreamReader:
    options = SourceOptions.of({"endpoint": stored.endpoint, "failOnDataLoss": fail})
    return MessageStreamReader(options, StructType([MESSAGE_SCHEMA["payload"]]))


def next_rows(reader: MessageStreamReader, start: Offset) -> tuple[Offset, int]:
    end = reader.latestOffset(start, ReadAllAvailable())
    return end, sum(batch.num_rows for part in reader.partitions(start, end) for batch in reader.read(part))


def test_what_was_read_before_it_was_removed_is_no_loss(stored: "Stored") -> None:
    stored.put_commits("a/1", 2, 5)
    reader = reader_of(stored)
    offset, rows = next_rows(reader, reader.initialOffset())
    assert rows == 10
    stored.add_generation()
    stored.put_commits("a/1", 1, 3)
    stored.drop_generation(1)
    offset, rows = next_rows(reader, offset)
    assert rows == 3
    assert list(offset["streams"]) == ["messages/0/2/1"]
    reader.stop()


def test_what_was_not_read_is_an_error_or_is_counted(stored: "Stored", caplog: pytest.LogCaptureFixture) -> None:
    stored.put_commits("a/1", 1, 5)
    reader = reader_of(stored)
    offset, _ = next_rows(reader, reader.initialOffset())
    stored.put_commits("a/1", 1, 7)
    stored.add_generation()
    stored.put_commits("a/1", 1, 3)
    planned = reader.latestOffset(offset, ReadAllAvailable())
    stored.drop_generation(1)
    with pytest.raises(DataLossError, match="before they were read: up to 12 of messages/0/1/1"):
        reader.latestOffset(offset, ReadAllAvailable())
    with pytest.raises(DataLossError, match="generation 1 was dropped"):
        list(reader.read(reader.partitions(offset, planned)[0]))
    reader.stop()
    lenient = reader_of(stored, "false")
    with caplog.at_level(logging.WARNING):
        assert sum(batch.num_rows for part in lenient.partitions(offset, planned) for batch in lenient.read(part)) == 3
        end, rows = next_rows(lenient, offset)
    assert rows == 3
    assert list(end["streams"]) == ["messages/0/2/1"]
    assert "messages are left out: generation 1 was dropped" in caplog.text
    assert "are left out: up to 12 of messages/0/1/1" in caplog.text
    # The offset says it, so that Spark's progress shows it and a restart does not forget it.
    assert end["lost"] == {"messages": 12}
    again = lenient.latestOffset(end, ReadAllAvailable())
    assert again == end
    lenient.stop()


def test_progress_says_how_far_a_stream_is_behind(stored: "Stored") -> None:
    stored.put_commits("a/1", 4, 5)
    reader = reader_of(stored)
    assert "behind" not in (reader.reportLatestOffset() or {})  # nothing was planned yet, so nobody is behind
    options = replace(reader.options, trigger_messages_max=5)
    limited = MessageStreamReader(options, reader.columns)
    end = limited.latestOffset(limited.initialOffset(), limited.getDefaultReadLimit())
    latest = limited.reportLatestOffset()
    assert latest is not None
    assert latest["behind"]["messages"] == 15
    stored_at = [int(offset["streams"]["messages/0/1/1"].split("-")[0]) for offset in (end, latest)]
    assert latest["behind"]["seconds"] == round((stored_at[1] - stored_at[0]) / 1e6, 3)
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert (reader.reportLatestOffset() or {})["behind"] == {"messages": 0, "seconds": 0.0}
    reader.stop()
    limited.stop()

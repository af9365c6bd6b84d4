"""Spark over stored messages of which some are damaged on disk."""

import logging
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from heliograph.pipeline.datasource.client import MessageSelection, StorageClient
from heliograph.pipeline.datasource.source import HeliographDataSource
from heliograph.pipeline.errors import ReaderRefusedError

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]


def test_damaged_messages_fail_a_read_or_are_left_out(
    spark: SparkSession, stored: "Stored", caplog: pytest.LogCaptureFixture
) -> None:
    stored.put_commits("a/1", 4, 5)
    stored.damage_block(2)
    spark.dataSource.register(HeliographDataSource)
    read = spark.read.format("heliograph").option("endpoint", stored.endpoint)
    with pytest.raises(PySparkException, match="checksum"):
        read.load().collect()
    rows = read.option("onDamage", "skip").load().collect()
    assert sorted(bytes(row["payload"]) for row in rows) == sorted(
        b'{"n": %d}' % n for n in (*range(10), *range(15, 20))
    )
    with StorageClient(stored.endpoint) as client:
        (info,) = client.streams(MessageSelection())
        with pytest.raises(ReaderRefusedError, match="checksum"):
            list(client.read(MessageSelection(), info.stream))
        with caplog.at_level(logging.WARNING):
            assert sum(batch.num_rows for batch in client.read(MessageSelection(on_damage="skip"), info.stream)) == 15
    assert f"5 messages of stream {info.stream}, stored from" in caplog.text

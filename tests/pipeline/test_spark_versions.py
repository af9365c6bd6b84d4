"""What older versions of Spark lack, as they call the data source; `make spark-versions` runs these versions."""

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StructType

from heliograph.pipeline.datasource import spark_versions
from heliograph.pipeline.datasource.offsets import Offset
from heliograph.pipeline.datasource.options import SourceOptions
from heliograph.pipeline.datasource.source import MessageStreamReader
from heliograph.pipeline.datasource.spark_versions import UnlimitedStreamReader
from heliograph.pipeline.errors import OptionError

if TYPE_CHECKING:
    from pipeline.conftest import Stored

_PAYLOAD = StructType().add("payload", "binary")


def _numbers(reader: UnlimitedStreamReader, start: Offset, end: Offset) -> list[int]:
    batches = [batch for partition in reader.partitions(start, end) for batch in reader.read(partition)]
    return sorted(json.loads(row["payload"])["n"] for batch in batches for row in batch.to_pylist())


def test_spark_before_4_2_reads_each_message_once_also_after_a_restart(stored: "Stored") -> None:
    def reader() -> UnlimitedStreamReader:
        return UnlimitedStreamReader(MessageStreamReader(SourceOptions.of({"endpoint": stored.endpoint}), _PAYLOAD))

    stored.put("a/1", [b'{"n": 0}', b'{"n": 1}'])
    first = reader()
    begin = first.initialOffset()
    end = first.latestOffset()
    assert _numbers(first, begin, end) == [0, 1]
    assert first.latestOffset() == end
    first.stop()
    second = reader()
    assert second.partitions(end, end) == []  # what Spark calls after a restart
    stored.put("a/1", [b'{"n": 2}'])
    assert _numbers(second, end, second.latestOffset()) == [2]
    second.stop()


def test_spark_before_4_2_refuses_limits_that_it_would_not_keep_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_versions, "HAS_LIMITS", False)
    with pytest.raises(OptionError, match="maxMessagesPerTrigger is 5, but must be left out"):
        MessageStreamReader(SourceOptions.of({"maxMessagesPerTrigger": "5"}), _PAYLOAD)

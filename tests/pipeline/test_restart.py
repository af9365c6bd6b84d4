"""A query that is killed at any point reads everything once; the readers are called as Spark calls them."""

import json
import random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from heliograph.pipeline.datasource.offsets import Offset
from heliograph.pipeline.datasource.options import SourceOptions
from heliograph.pipeline.datasource.schema import MESSAGE_SCHEMA
from heliograph.pipeline.datasource.source import MessageStreamReader
from support.forms import seeds

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]


class Query:
    """What Spark keeps of a query: the offsets that it planned, and which batches are committed.

    A batch is planned and its offset kept, then it is read and written, then it is committed. `kill` may come anywhere.
    """

    def __init__(self, stored: "Stored", numbers: random.Random) -> None:
        self._stored = stored
        self._random = numbers
        self._offsets: list[str] = []
        self._committed = 0
        #: What a sink holds that replaces a batch by its number.
        self.written: dict[int, list[int]] = {}
        self._reader = self._new_reader()

    def _new_reader(self) -> MessageStreamReader:
        limits = {"maxMessagesPerTrigger": str(self._random.choice([1, 7, 50, 10_000]))}
        size = {"partitionMessages": str(self._random.choice([1, 5, 1000]))}
        options = SourceOptions.of({"endpoint": self._stored.endpoint, **limits, **size})
        return MessageStreamReader(options, StructType([MESSAGE_SCHEMA["payload"]]))

    def kill(self) -> None:
        """End the process; another begins with what was kept."""
        self._reader.stop()
        self._reader = self._new_reader()

    def step(self) -> bool:
        """Plan, read or commit; whether there was something to do."""
        if not self._offsets:
            self._offsets.append(json.dumps(self._reader.initialOffset()))
            return True
        batch = len(self._offsets) - 1
        start = json.loads(self._offsets[-1])
        if self._committed == batch:
            limit: ReadLimit = self._random.choice([ReadAllAvailable(), ReadMaxRows(1)])
            end = json.dumps(self._reader.latestOffset(start, limit))
            if end == self._offsets[-1]:
                return False
            self._offsets.append(end)
        elif batch not in self.written or self._random.random() < 0.5:
            self.written[batch] = self._rows(json.loads(self._offsets[-2]), start)
        else:
            self._committed = batch
        return True

    def _rows(self, start: Offset, end: Offset) -> list[int]:
        return [
            json.loads(payload)["n"]
            for partition in self._reader.partitions(start, end)
            for rows in self._reader.read(partition)
            for payload in rows.column("payload").to_pylist()
        ]

    def close(self) -> None:
        """Close the connection."""
        self._reader.stop()


@pytest.mark.parametrize("seed", seeds(6, 3))
def test_a_query_killed_at_random_reads_everything_once(stored: "Stored", seed: int) -> None:
    numbers = random.Random(seed)
    query = Query(stored, numbers)
    count = 0
    for _ in range(60):
        match numbers.randrange(8):
            case 0 | 1:
                size = numbers.randint(1, 20)
                topic = f"{numbers.choice('abc')}/{numbers.randint(0, 15)}"
                stored.put(topic, [b'{"n": %d}' % number for number in range(count, count + size)])
                count += size
            case 2:
                query.kill()
            case 3 if numbers.random() < 0.3:
                stored.add_generation()
            case _:
                query.step()
    while query.step():
        pass
    query.close()
    assert sorted(number for rows in query.written.values() for number in rows) == list(range(count))

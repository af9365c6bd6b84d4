"""Blocks as public record batches: every column, any mix of blocks, filters and columns."""

import struct
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.mqtt.properties import Properties, encode_properties
from heliograph.storage.columnar import keys
from heliograph.storage.columnar.arrow_rows import PUBLIC_SCHEMA, RowCollector, property_texts
from heliograph.storage.columnar.block_writing import encode_block
from heliograph.storage.columnar.replay import BlockSlice
from heliograph.storage.interface import ROW_MAX, StoredMessage, StreamId
from heliograph.storage.topic_filter import TopicFilter
from storage.messages import MakeMessage

STREAM = StreamId("messages", 3, 1, 7)
TIME = 1_700_000_000_000_000
CONTENT_TYPE = b"\x03\x00\x01x"
MESSAGES = st.builds(
    StoredMessage,
    id_high=st.integers(0, 2**60),
    id_low=st.integers(0, 2**64 - 1),
    topic=st.sampled_from(["a/b", "a/c", "d", "é/x"]),
    payload=st.binary(max_size=9),
    qos=st.integers(0, 2),
    retain=st.booleans(),
    clientid=st.sampled_from(["c1", "c2", "ö"]),
    username=st.sampled_from([None, "", "u"]),
    property_bytes=st.sampled_from([b"", CONTENT_TYPE]),
    stored_at=st.just(0),
)
BLOCKS = st.lists(
    st.one_of(
        st.lists(MESSAGES, min_size=1, max_size=5),
        st.builds(lambda message, count: [message] * count, MESSAGES, st.integers(1, 3)),
    ),
    max_size=8,
)


def slices_of(blocks: Sequence[Sequence[StoredMessage]]) -> list[BlockSlice]:
    found = []
    for number, messages in enumerate(blocks):
        key = keys.block(3, 1, 7, TIME + number, 0)
        found.append(BlockSlice(key, encode_block(key, messages, 0, 0)[0], TIME + number, 0, 0, ROW_MAX))
    return found


def as_row(message: StoredMessage, time: int, row: int = 0) -> dict[str, object]:
    return {
        "topic": message.topic,
        "payload": message.payload,
        "qos": message.qos,
        "retain": message.retain,
        "clientid": message.clientid,
        "username": message.username,
        "properties": [("Content-Type", "x")] if message.property_bytes else None,
        "guid": struct.pack(">QQ", message.id_high, message.id_low),
        "received_at": message.id_high,
        "stored_at": time,
        "shard": 3,
        "stream": "messages/3/1/7",
        "position": f"{time}-0-{row}",
    }


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    rows = []
    for batch in batches:
        batch.validate(full=True)
        columns = {}
        for field in batch.schema:
            column = batch.column(field.name)
            columns[field.name] = (column.cast(pa.int64()) if pa.types.is_timestamp(field.type) else column).to_pylist()
        rows += [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return rows


@settings(deadline=None)
@given(
    BLOCKS,
    st.sampled_from([None, ["#"], ["a/+"], ["a/b", "d"], ["nothing"]]),
    st.sets(st.sampled_from(PUBLIC_SCHEMA.names), min_size=1),
)
def test_rows_are_those_of_the_blocks(
    blocks: list[list[StoredMessage]], texts: list[str] | None, columns: set[str]
) -> None:
    filters = None if texts is None else [TopicFilter(text) for text in texts]
    collector = RowCollector(STREAM, filters, sorted(columns))
    found = rows_of(list(collector.batches(iter(slices_of(blocks)))))
    wanted = [
        {name: value for name, value in as_row(message, TIME + number, row).items() if name in columns}
        for number, messages in enumerate(blocks)
        for row, message in enumerate(messages)
        if filters is None or any(one.matches(message.topic) for one in filters)
    ]
    assert found == wanted
    assert collector.schema.names == [name for name in PUBLIC_SCHEMA.names if name in columns]


def test_part_of_a_block_is_a_slice(make_message: MakeMessage) -> None:
    (piece,) = slices_of([[make_message(payload=b"%d" % n) for n in range(9)]])
    (batch,) = RowCollector(STREAM, None, ["payload"]).batches(iter([piece._replace(first=2, end=4)]))
    assert batch.column("payload").to_pylist() == [b"2", b"3"]


def test_small_blocks_are_sent_as_large_batches(make_message: MakeMessage) -> None:
    blocks = [[make_message(payload=b"x" * 10)] * 7 for _ in range(20_000)]
    sizes = [batch.num_rows for batch in RowCollector(STREAM, None, None).batches(iter(slices_of(blocks)))]
    assert sum(sizes) == 140_000
    assert len(sizes) < 20


def test_times_are_of_utc(make_message: MakeMessage) -> None:
    (batch,) = RowCollector(STREAM, None, None).batches(iter(slices_of([[make_message()]])))
    assert batch.schema == PUBLIC_SCHEMA
    assert batch.column("stored_at")[0].as_py() == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_properties_are_texts_under_their_names() -> None:
    properties = Properties()
    properties.numbers = {0x01: 1, 0x02: 60}
    properties.strings = {0x03: "text/plain", 0x08: "answers"}
    properties.binaries = {0x09: b"\x00\xff"}
    properties.user = [("unit", "F"), ("unit", "C"), ("", "e")]
    assert property_texts(encode_properties(properties)) == {
        "Payload-Format-Indicator": "1",
        "Message-Expiry-Interval": "60",
        "Content-Type": "text/plain",
        "Response-Topic": "answers",
        "Correlation-Data": "AP8=",
        "User-Property.unit": "C",
        "User-Property.": "e",
    }
    assert property_texts(b"") is None
    assert property_texts(b"\xff\xff") is None

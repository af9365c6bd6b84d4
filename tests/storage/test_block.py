"""Columnar blocks: what goes in comes out, any Arrow library can read them, damage never passes."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block import (
    CLIENTID,
    FLAGS,
    PROPERTIES,
    TOPIC,
    USERNAME,
    DamagedBlockError,
    read_header,
)
from heliograph.storage.columnar.block_rows import read_matching, read_rows
from heliograph.storage.columnar.block_writing import encode_block, renumbered_block
from heliograph.storage.interface import StoredMessage

TIME = 1_700_000_000_000_000
KEY = keys.block(3, 1, 7, TIME, 2)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
MESSAGES = st.builds(
    StoredMessage,
    id_high=st.integers(0, 2**64 - 1),
    id_low=st.integers(0, 2**64 - 1),
    topic=st.one_of(st.sampled_from(["a/b", "é"]), TEXT),
    payload=st.binary(max_size=20),
    qos=st.integers(0, 2),
    retain=st.booleans(),
    clientid=st.one_of(st.sampled_from(["c1", "c2"]), TEXT),
    username=st.one_of(st.none(), st.just(""), TEXT),
    property_bytes=st.one_of(st.just(b""), st.binary(max_size=9)),
    stored_at=st.just(TIME),
)
UNIFORM = st.builds(lambda message, count: [message] * count, MESSAGES, st.integers(1, 20))
BATCHES = st.one_of(st.lists(MESSAGES, min_size=1, max_size=40), UNIFORM)


@settings(deadline=None)
@given(BATCHES, st.data())
def test_gives_back_what_it_was_given(messages: list[StoredMessage], data: st.DataObject) -> None:
    value, message_bytes = encode_block(KEY, messages, 11, 12)
    header = read_header(KEY, value)
    assert (header.rows, header.rows_before, header.bytes_before) == (len(messages), 11, 12)
    assert header.message_bytes == message_bytes
    assert message_bytes == sum(len(message.topic.encode()) + len(message.payload) for message in messages)
    assert read_rows(KEY, value, 0, len(messages)) == messages
    first = data.draw(st.integers(0, len(messages)))
    count = data.draw(st.integers(0, len(messages) + 1))
    assert read_rows(KEY, value, first, count) == messages[first : first + count]


@settings(deadline=None)
@given(BATCHES, st.data())
def test_a_topic_is_found_as_if_each_were_compared(messages: list[StoredMessage], data: st.DataObject) -> None:
    value, _ = encode_block(KEY, messages, 0, 0)
    topic = data.draw(st.sampled_from([message.topic for message in messages] + ["a", "b", "a/b", "/"])) or "a"
    first = data.draw(st.integers(0, len(messages)))
    count = data.draw(st.integers(1, len(messages) + 1))
    assert read_matching(KEY, value, first, count, topic) == read_matching(KEY, value, first, count, topic.__eq__)


@settings(deadline=None)
@given(BATCHES)
def test_is_an_arrow_message_that_arrow_reads(messages: list[StoredMessage]) -> None:
    value, _ = encode_block(KEY, messages, 0, 0)
    header = read_header(KEY, value)
    fields = [("payload", pa.binary()), ("id_high", pa.uint64()), ("id_low", pa.uint64())]
    fields += [("topic", pa.string())] if header.columns & TOPIC else []
    fields += [("flags", pa.uint8())] if header.columns & FLAGS else []
    fields += [("clientid", pa.string())] if header.columns & CLIENTID else []
    fields += [("username", pa.string())] if header.columns & USERNAME else []
    fields += [("properties", pa.binary())] if header.columns & PROPERTIES else []
    message = pa.py_buffer(value).slice(header.batch_at)
    batch = pa.ipc.read_record_batch(message, pa.schema(fields))
    batch.validate(full=True)
    assert batch.column("payload").to_pylist() == [message.payload for message in messages]
    assert batch.column("id_high").to_pylist() == [message.id_high for message in messages]
    if header.columns & USERNAME:
        assert batch.column("username").to_pylist() == [message.username for message in messages]
    assert header.batch_at % 8 == 0


@settings(deadline=None)
@given(BATCHES, st.data())
def test_no_changed_byte_passes(messages: list[StoredMessage], data: st.DataObject) -> None:
    value, _ = encode_block(KEY, messages, 0, 0)
    at = data.draw(st.integers(0, len(value) - 1))
    changed = bytearray(value)
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamagedBlockError):
        read_rows(KEY, bytes(changed), 0, 1)


@settings(deadline=None)
@given(BATCHES)
def test_renumbering_changes_the_account_and_nothing_else(messages: list[StoredMessage]) -> None:
    value, _ = encode_block(KEY, messages, 11, 12)
    renumbered = renumbered_block(KEY, value, 5, 6)
    assert renumbered == encode_block(KEY, messages, 5, 6)[0]
    assert renumbered_block(KEY, value, 11, 12) is value


def test_a_block_under_another_key_is_damaged() -> None:
    message = StoredMessage(1, 2, "t", b"p", 0, False, "c", None, b"", TIME)
    value, _ = encode_block(KEY, [message], 0, 0)
    with pytest.raises(DamagedBlockError, match="checksum"):
        read_rows(keys.block(3, 1, 8, TIME, 2), value, 0, 1)
    with pytest.raises(DamagedBlockError, match="cut off"):
        read_header(KEY, value[:39])

"""The columns of a message are the same wherever they are named: in Arrow, in Python, in rules and on the page."""

from pathlib import Path

import pyarrow as pa

from heliograph.rules.columns import STORED_NAMES, MessageColumns
from heliograph.storage.columnar.arrow_rows import PUBLIC_SCHEMA
from heliograph.storage.interface import StorableMessage, StoredMessage
from heliograph.storage.message_columns import COLUMNS, MESSAGE, PLACE

# What storage has in another form: an id as two numbers, properties as the bytes that were published.
OTHERWISE = {"guid": {"id_high", "id_low"}, "received_at": {"id_high"}, "properties": {"property_bytes"}}


def test_a_stored_message_has_what_the_columns_say() -> None:
    wanted = set().union(*(OTHERWISE.get(column.name, {column.name}) for column in MESSAGE))
    assert set(StoredMessage._fields) == wanted | {"stored_at"}
    assert {name for name in vars(StorableMessage) if name[0] != "_"} == wanted


def test_a_rule_takes_the_columns_of_a_message_in_their_order() -> None:
    defaults = MessageColumns("", b"").message
    assert len(defaults) == len(STORED_NAMES) == len(MESSAGE)
    assert [default is None for default in defaults] == [column.is_nullable for column in MESSAGE]


def test_the_page_has_a_row_for_each_column() -> None:
    page = (Path(__file__).parents[2] / "docs" / "storage.md").read_text(encoding="utf-8")
    kinds = {pa.timestamp("us", tz="UTC"): "timestamp(us, UTC)", pa.binary(16): "16 bytes"}
    kinds |= {PUBLIC_SCHEMA.field("properties").type: "map<string, string>"}
    for column in MESSAGE + PLACE:
        field = PUBLIC_SCHEMA.field(column.name)
        kind = kinds.get(field.type, str(field.type)) + ", nullable" * field.nullable
        assert f"| `{column.name}` | {kind} | {column.meaning}{' ' * bool(column.meaning)}|" in page
    assert PUBLIC_SCHEMA.names == [column.name for column in COLUMNS]

"""Stream ids and positions as values."""

import pytest

from heliograph.storage.errors import UnknownStreamError
from heliograph.storage.interface import BEGINNING, ROW_MAX, SEQUENCE_MAX, Position, StreamId
from support.cases import cases

STREAM = StreamId("messages", 0, 1, 5)


def test_a_stream_id_reads_as_its_path() -> None:
    assert str(STREAM) == "messages/0/1/5"
    assert StreamId.parse("messages/0/1/5") == STREAM


@cases("text", ["", "messages", "messages/0/1", "messages/0/1/x", "messages/0/1/5/6", "a/-1/1/1"])
def test_what_is_no_stream_id_is_named(text: str) -> None:
    with pytest.raises(UnknownStreamError, match="is not a stream id; one reads like 'messages/0/1/5'"):
        StreamId.parse(text)


@cases("position", [BEGINNING, Position(17, 0, 3), Position(17, 2, ROW_MAX), Position.before(17)])
def test_a_position_survives_as_text(position: Position) -> None:
    assert Position.parse(str(position), STREAM) == position


def test_positions_are_ordered_and_one_before_a_time_lies_before_it() -> None:
    assert str(BEGINNING) == ""
    assert Position.before(0) == BEGINNING
    assert BEGINNING < Position.before(17) < Position(17, 0, 0) < Position(17, 0, ROW_MAX) < Position(17, 1, 0)
    assert Position(16, SEQUENCE_MAX, ROW_MAX) == Position.before(17)


@cases("text", ["x", "1", "1-2-3-4", "1--2", "-1-2"])
def test_what_is_no_position_is_named(text: str) -> None:
    with pytest.raises(UnknownStreamError, match="is not a position"):
        Position.parse(text, STREAM)

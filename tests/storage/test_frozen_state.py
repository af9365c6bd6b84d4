"""State databases and dropped generations that earlier versions wrote are read, and written on, by this one."""

import shutil
from pathlib import Path

import pytest

from heliograph.storage.errors import DroppedGenerationError
from heliograph.storage.interface import ColumnarOptions, DatabaseOptions, Position, StreamId
from heliograph.storage.state.interface import StateBatch
from heliograph.storage.state.local import LocalState
from reference.storage import replayed
from support.databases import open_database

FROZEN = Path(__file__).parent / "frozen_state"


@pytest.fixture
def frozen(tmp_path: Path) -> Path:
    """A copy of the databases of the first format."""
    return Path(shutil.copytree(FROZEN / "state-1", tmp_path / "data"))


@pytest.mark.parametrize("name", ["closed", "killed"])
async def test_old_state_is_read_and_written_on(frozen: Path, name: str) -> None:
    expected = {b"s%02d" % number: b"value %d" % number for number in range(50) if number // 10 != 1}
    expected |= {b"": b"the empty key", b"\xff" * 3: bytes(range(256)), b"s15": b"again", b"s20": b""}
    state = LocalState(frozen, name)
    state.open()
    assert state.scan() == sorted(expected.items())
    batch = StateBatch()
    batch.expect(b"s20", b"")
    batch.delete(b"s20")
    state.submit(batch)
    await state.close()
    state = LocalState(frozen, name)
    state.open()
    assert len(state.scan()) == len(expected) - 1
    await state.close()


def test_generations_that_were_dropped_stay_dropped(frozen: Path) -> None:
    options = DatabaseOptions(n_shards=2, layout=ColumnarOptions(wildcard_thresholds=(3, 2)))
    database = open_database(frozen, "dropped", options)
    assert {info.number for info in database.list_generations()} == {2, 4, 5}
    assert sorted({message.payload for message in replayed(database)}) == [b"1", b"3", b"4"]
    assert len(replayed(database)) == 30
    for number in (1, 3):
        stream = StreamId("dropped", 0, number, 1)
        with pytest.raises(DroppedGenerationError):
            database.make_iterator(stream, "#")
        dropped = database.contents()[1].dropped(stream)
        assert dropped is not None
        assert dropped.lost_rows(1, Position(0, 0, 0)) == 1
    database.drop_generation(2)
    assert len(replayed(database)) == 20
    database.close()

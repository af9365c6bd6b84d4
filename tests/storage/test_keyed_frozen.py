"""Keyed databases that earlier versions wrote are read, and written on, by this one."""

import json
import shutil
from pathlib import Path

import pytest

from heliograph.storage.errors import UnknownLayoutError
from heliograph.storage.interface import Batch, DatabaseOptions, KeyedOptions, StreamIterator
from heliograph.storage.keyed.backend import KeyedBackend
from heliograph.storage.keyed.database import KeyedDatabase
from heliograph.storage.keyed.records import LAYOUT, LAYOUT_VERSION, layout_keys
from heliograph.storage.state.local import LocalState
from storage.frozen_keyed.generate import EXPIRES_US, contents, message

FROZEN = Path(__file__).parent / "frozen_keyed"
VERSIONS = sorted(path.parent.name for path in FROZEN.glob("*/expected.json"))


@pytest.fixture(params=VERSIONS)
def frozen(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the databases of one version."""
    return Path(shutil.copytree(FROZEN / request.param, tmp_path / "data"))


def open_one(frozen: Path, name: str) -> KeyedDatabase:
    """The database, by a program that would lay out a new one otherwise."""
    return KeyedBackend(frozen, KeyedOptions((1,))).open_db(name, DatabaseOptions())


@pytest.mark.parametrize("name", ["closed", "killed"])
def test_an_old_database_is_read_and_written_on(frozen: Path, name: str) -> None:
    expected = json.loads((frozen / "expected.json").read_text())[name]
    database = open_one(frozen, name)
    assert contents(database) == expected
    assert len(database.table) == len(expected)
    streams = list(database.get_streams("#"))
    database.store_batch([message(1, "fleet/1/pos", payload=b"new"), message(2, "fleet/new/pos")])
    assert len(database.table) == len(expected) + 1
    database.close()
    database = open_one(frozen, name)
    assert list(database.get_streams("#")) == streams
    assert len(contents(database)) == len(expected) + 1
    assert len(database.table.due(EXPIRES_US + 2, 10)) == 3
    database.close()


def test_an_iterator_that_was_saved_goes_on(frozen: Path) -> None:
    database = open_one(frozen, "closed")
    saved = b'[1,"closed/0/1/3","fleet/+/pos",[0,0,0,"fleet/101/pos"]]'
    batch = database.next(StreamIterator.from_bytes(saved), 2)
    assert isinstance(batch, Batch)
    assert [one.topic for one in batch.messages] == ["fleet/102/pos", "fleet/103/pos"]
    database.close()


async def test_it_has_the_form_of_a_state_database(frozen: Path) -> None:
    state = LocalState(frozen.parent, "closed")
    state.path.parent.mkdir()
    shutil.copytree(frozen / "keyed" / "closed", state.path)
    state.open()
    assert len(state.scan(b"\x06")) == len(json.loads((frozen / "expected.json").read_text())["closed"])
    await state.close()


def test_what_a_later_version_wrote_is_not_opened(frozen: Path) -> None:
    database = open_one(frozen, "closed")
    _, layout_key = layout_keys()
    with database.table._store.reading() as rocks:
        rocks.put(layout_key, (rocks.get(layout_key) or b"").replace(b'"layout_version": 1', b'"layout_version": 9'))
    database.close()
    with pytest.raises(UnknownLayoutError, match="keyed 9"):
        open_one(frozen, "closed")


def test_there_is_one_of_every_layout_version() -> None:
    assert [f"{LAYOUT}-{version}" for version in range(1, LAYOUT_VERSION + 1)] == VERSIONS

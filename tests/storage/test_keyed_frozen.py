"""Keyed databases that earlier versions wrote are read, and written on, by this one."""

import json
import shutil
from pathlib import Path

import pytest

from heliograph.storage.engine import open_primary
from heliograph.storage.errors import UnknownLayoutError
from heliograph.storage.interface import KeyedOptions
from heliograph.storage.keyed.records import LAYOUT, LAYOUT_VERSION, layout_keys
from heliograph.storage.keyed.table import KeyedTable, keyed_path
from heliograph.storage.state.local import LocalState
from storage.frozen_keyed.generate import EXPIRES_US, contents, message, put, read

FROZEN = Path(__file__).parent / "frozen_keyed"
VERSIONS = sorted(path.parent.name for path in FROZEN.glob("*/expected.json"))


@pytest.fixture(params=VERSIONS)
def frozen(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the databases of one version."""
    return Path(shutil.copytree(FROZEN / request.param, tmp_path / "data"))


def open_one(frozen: Path, name: str) -> KeyedTable:
    """The table, by a program that would lay out a new one otherwise."""
    table = KeyedTable(name, keyed_path(frozen) / name, KeyedOptions((1,)))
    table.open()
    return table


@pytest.mark.parametrize("name", ["closed", "killed"])
def test_an_old_database_is_read_and_written_on(frozen: Path, name: str) -> None:
    expected = json.loads((frozen / "expected.json").read_text())[name]
    table = open_one(frozen, name)
    assert contents(table) == expected
    assert len(table) == len(expected)
    streams = table.topics.stream_count
    put(table, [message(1, "fleet/1/pos", payload=b"new"), message(2, "fleet/new/pos")])
    assert len(table) == len(expected) + 1
    table.close()
    table = open_one(frozen, name)
    assert table.topics.stream_count == streams
    assert len(contents(table)) == len(expected) + 1
    assert len(table.due(EXPIRES_US + 2, 10)) == 3
    table.close()


def test_a_walk_goes_on_behind_a_key_that_was_saved(frozen: Path) -> None:
    table = open_one(frozen, "closed")
    saved = b"K\x06\0\0\0\x03fleet\x00101\0pos"
    assert [one.topic for one in read(table, "fleet/+/pos", saved)][:2] == ["fleet/102/pos", "fleet/103/pos"]
    table.close()


async def test_it_has_the_form_of_a_state_database(frozen: Path) -> None:
    state = LocalState(frozen.parent, "closed")
    state.path.parent.mkdir()
    shutil.copytree(frozen / "keyed" / "closed", state.path)
    state.open()
    assert len(state.scan(b"\x06")) == len(json.loads((frozen / "expected.json").read_text())["closed"])
    await state.close()


def test_what_a_later_version_wrote_is_not_opened(frozen: Path) -> None:
    table = open_one(frozen, "closed")
    _, layout_key = layout_keys()
    table.close()
    rocks = open_primary(table.path, "lz4")
    rocks.put(layout_key, (rocks.get(layout_key) or b"").replace(b'"layout_version": 1', b'"layout_version": 9'))
    rocks.close()
    with pytest.raises(UnknownLayoutError, match="keyed 9"):
        open_one(frozen, "closed")


def test_there_is_one_of_every_layout_version() -> None:
    assert [f"{LAYOUT}-{version}" for version in range(1, LAYOUT_VERSION + 1)] == VERSIONS

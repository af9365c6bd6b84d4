"""Databases written by each released layout version are read, and written on, by this one."""

import json
import shutil
from pathlib import Path

import pytest

from heliograph.storage.columnar.block import LAYOUT, LAYOUT_VERSIONS
from heliograph.storage.offload.blocks import OffloadedBlocks
from storage.frozen.generate import contents
from storage.messages import MakeMessage
from support.databases import open_database, store_batch

FROZEN = Path(__file__).parent / "frozen"
VERSIONS = sorted(path.parent.name for path in FROZEN.glob("*/expected.json"))


@pytest.fixture(params=VERSIONS)
def frozen(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the databases of one version."""
    return Path(shutil.copytree(FROZEN / request.param, tmp_path / "data"))


@pytest.mark.parametrize("name", ["closed", "killed"])
def test_an_old_database_is_read_and_written_on(frozen: Path, name: str, make_message: MakeMessage) -> None:
    expected = json.loads((frozen / "expected.json").read_text())[name]
    database = open_database(frozen, name)
    database.fetch = OffloadedBlocks(frozen).fetch
    assert contents(database) == expected
    store_batch(database, [make_message("fleet/1/pos", b"new")])
    database.add_generation()
    store_batch(database, [make_message("fleet/1/pos", b"newer")])
    database.close()
    database = open_database(frozen, name)
    database.fetch = OffloadedBlocks(frozen).fetch
    assert len(contents(database)) == len(expected) + 2
    database.close()


def test_there_is_one_of_every_layout_version() -> None:
    assert [f"{LAYOUT}-{version}" for version in LAYOUT_VERSIONS] == VERSIONS
    assert sum(path.stat().st_size for path in FROZEN.rglob("*") if path.is_file()) < 200_000 * len(VERSIONS)

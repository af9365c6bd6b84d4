"""Processes killed at every step of a commit to Delta Lake and Iceberg: nothing is missing, nothing is there twice."""

from pathlib import Path

import pyarrow as pa
import pytest

from support.dying import EXPECTED, assert_died, ends_of, write_batches

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.timeout(300)]


def test_each_batch_is_there_once(tmp_path: Path) -> None:
    output = tmp_path / "out"
    assert_died(ends_of("pipeline.lake_driver", str(output), *write_batches(tmp_path)))
    for kind in ("delta", "iceberg"):
        assert {mode: _read(kind, output / kind, mode) for mode in EXPECTED} == EXPECTED, kind


def _read(kind: str, output: Path, name: str) -> list[tuple[str, int]]:
    from deltalake import DeltaTable  # heavy: not while tests are collected
    from pyiceberg.catalog import load_catalog

    if kind == "delta":
        table = pa.table(DeltaTable(str(output / name)).scan())
    else:
        catalog = load_catalog("heliograph", type="sql", uri=f"sqlite:///{output}/iceberg.db")
        table = catalog.load_table(f"default.{name}").scan().to_arrow()
    return sorted((row["station"], row["n"]) for row in table.to_pylist())

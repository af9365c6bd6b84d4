"""Processes killed at every step of a commit to Delta Lake and Iceberg: nothing is missing, nothing is there twice."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

pytestmark = [pytest.mark.service, pytest.mark.slow]

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("append", [("EWR", 2), ("JFK", 1), ("JFK", 3), ("LGA", 4)]),
        ("update", [("EWR", 2), ("JFK", 3), ("LGA", 4)]),
        ("complete", [("JFK", 3), ("LGA", 4)]),
    ],
)
def test_each_batch_is_there_once(tmp_path: Path, kind: str, mode: str, expected: list[tuple[str, int]]) -> None:
    files = []
    for number, rows in enumerate(([("JFK", 1), ("EWR", 2)], [("JFK", 3), ("LGA", 4)])):
        files.append(str(tmp_path / f"{number}.parquet"))
        names = ["station", "n"]
        pq.write_table(pa.table([list(column) for column in zip(*rows, strict=True)], names), files[-1])
    command = [sys.executable, "-m", "pipeline.lake_driver", kind, mode, str(tmp_path / "out"), *files]
    ended = subprocess.run(command, cwd=TESTS, env=os.environ, capture_output=True, text=True, timeout=100, check=True)
    ends = {(number, step): code for number, step, code in json.loads(ended.stdout)}
    dying = {"opened", "reading", "committed"} | ({"files"} if kind == "iceberg" else set())
    for (number, step), code in ends.items():
        # What died at `files` of Delta Lake had nowhere to die, and what came after it found the batch there.
        wanted = -signal.SIGKILL if step in dying else 0
        assert code == wanted, (number, step, ended.stderr)
    assert _read(kind, tmp_path / "out") == expected


def _read(kind: str, output: Path) -> list[tuple[str, int]]:
    if kind == "delta":
        table = pa.table(DeltaTable(str(output / "obs")).scan())
    else:
        catalog = load_catalog("heliograph", type="sql", uri=f"sqlite:///{output}/iceberg.db")
        table = catalog.load_table("default.obs").scan().to_arrow()
    return sorted((row["station"], row["n"]) for row in table.to_pylist())

"""Sessions of Spark that a user starts, without a word of this package: a process of its own for each."""

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]

_PROGRAM = """
import sys
from pyspark.sql import SparkSession

if sys.argv[1] == "imported":
    import pyspark_heliograph
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
if sys.argv[1] == "register":
    from heliograph.pipeline.datasource.source import HeliographDataSource

    spark.dataSource.register(HeliographDataSource)
rows = spark.read.format("heliograph").option("endpoint", sys.argv[2]).load()
print("rows", rows.where("topic = 'a/1'").count())
"""


@pytest.mark.parametrize(
    "how", ["imported", *(pytest.param(how, marks=pytest.mark.long) for how in ("found", "register"))]
)
def test_the_source_works_in_a_session_of_ones_own(stored: "Stored", how: str) -> None:
    stored.put("a/1", [b"1", b"2"])
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    environ |= {"PYSPARK_PYTHON": sys.executable} if how == "found" else {"PATH": "/usr/bin:/bin"}
    program = subprocess.run(
        [sys.executable, "-c", _PROGRAM, how, stored.endpoint],
        capture_output=True,
        text=True,
        env=environ,
        timeout=100,
        check=False,
    )
    assert "rows 2" in program.stdout, program.stderr[-2000:]

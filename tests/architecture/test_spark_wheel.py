"""What `heliograph-spark` holds: the format and the client, what they import, and nothing of a broker."""

from pathlib import Path

from scripts.spark_versions import VERSIONS
from scripts.spark_wheel import LEFT_TO_USERS, PATH, closure, files, requirements

_DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_wheel_for_spark_has_what_it_imports_and_nothing_of_a_broker() -> None:
    # `closure` refuses modules of other rooms by itself.
    modules = closure().modules
    assert {"pyspark_heliograph", "heliograph.client.connection", "heliograph.pipeline.datasource.source"} <= modules
    assert not {name for name in modules if name.startswith("heliograph.config.")} - {"heliograph.config.schemas"}
    assert not {name for name in modules if name.startswith("heliograph.storage.")} - {
        "heliograph.storage.durable_files",
        "heliograph.storage.message_columns",
        "heliograph.storage.reader",
        "heliograph.storage.reader.listening_sockets",
        "heliograph.storage.reader.local_token",
    }
    assert {f"{PATH}/heliograph/hocon/grammar.lark", f"{PATH}/pyspark_heliograph/py.typed"} <= files().keys()
    assert f"{PATH}/heliograph/pipeline/datasource/ColumnPruning.java" in files()
    required = {line.split(">")[0].split("[")[0] for line in requirements()}
    assert {"pyarrow", "protobuf"} <= required
    assert not required & {"fastapi", "rocksdict", "uvicorn", "uvloop"}


def test_the_versions_of_spark_that_are_documented_are_those_that_are_tested() -> None:
    first, last = (version.rpartition(".")[0] for version in (VERSIONS[0], VERSIONS[-1]))
    text = " ".join((_DOCS / "spark_cluster.md").read_text(encoding="utf-8").split())
    assert f"for Spark {first} to {last}." in text
    assert f"installs {', '.join(VERSIONS[:-1])} and {VERSIONS[-1]} in turn" in text
    major, minor = last.split(".")
    assert LEFT_TO_USERS["pyspark"] == f"pyspark>={first},<{major}.{int(minor) + 1}"

"""What `heliograph-spark` holds: the format and the client, what they import, and nothing of a broker."""

from scripts.spark_wheel import PATH, closure, files, requirements


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
    required = {line.split(">")[0].split("[")[0] for line in requirements()}
    assert {"pyarrow", "paho-mqtt", "protobuf"} <= required
    assert not required & {"fastapi", "rocksdict", "uvicorn", "uvloop"}

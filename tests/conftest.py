"""What holds for every test."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["support.watchdog"]

# How long an example takes says more about the machine than about the code.
settings.register_profile("heliograph", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("heliograph")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """The Spark session of all tests of this process, which can have one only; starting it takes seconds."""
    # Imported here: most tests need no Spark.
    from heliograph.pipeline.spark.session import start_session, stop_session

    log_file = tmp_path_factory.mktemp("spark") / "spark.log"
    conf = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    session = start_session("local[2]", "heliograph tests", conf, log_file=log_file)
    yield session
    stop_session(session)

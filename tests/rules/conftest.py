"""The Spark session of the tests of rules."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from heliograph.pipeline.spark.session import start_session, stop_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of this process if there is one already, or else one of its own."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    log_file = tmp_path_factory.mktemp("spark") / "spark.log"
    session = start_session("local[2]", "heliograph rules", {"spark.sql.shuffle.partitions": "2"}, log_file=log_file)
    yield session
    stop_session(session)

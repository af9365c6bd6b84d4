"""The driver's own data sources read with all options of ``heliograph``."""

import json
import re
import zipfile
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

from heliograph.pipeline.datasource.schema import MESSAGE_SCHEMA
from heliograph.pipeline.running.ranges import SET_BY_STREAMS, RangeDataSource, UntilDataSource

_OPTIONS = CaseInsensitiveDict(  # as Spark hands them over
    {
        "endpoint": "grpc+tls://reader:8815",
        "tlsCa": "authorities.pem",
        "maxMessagesPerTrigger": "7",
        "failOnDataLoss": "false",
        "onDamage": "skip",
        "partitionMessages": "3",
    }
)


def test_a_backfill_and_a_second_read_of_a_batch_keep_the_options_of_the_query() -> None:
    offset = json.dumps({"streams": {}})
    until = UntilDataSource(_OPTIONS | {"untilTime": "5", "borderOffset": offset}).streamReader(MESSAGE_SCHEMA)
    again = RangeDataSource(_OPTIONS | {"fromOffset": offset, "toOffset": offset}).reader(MESSAGE_SCHEMA)
    assert UntilDataSource(_OPTIONS | {"untilTime": "5"}).schema().startswith("topic")
    for reader in (until, again.stream):
        options = reader.options
        assert options.tls_ca == "authorities.pem"
        assert (options.trigger_messages_max, options.partition_messages) == (7, 3)
        assert (options.fail_on_data_loss, options.on_damage) == (False, "skip")


@pytest.mark.service
def test_streams_that_begin_at_once_enlarge_no_map_that_they_share(spark: SparkSession) -> None:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-sql_*.jar")
    with zipfile.ZipFile(jar) as classes:
        runner = classes.read("org/apache/spark/sql/execution/python/streaming/PythonStreamingSourceRunner.class")
    assert {name.decode() for name in re.findall(rb"SPARK_[A-Z_]+", runner)} == set(SET_BY_STREAMS)
    assert SET_BY_STREAMS.keys() <= spark.sparkContext.environment.keys()

"""The Python packages that sinks need beside Spark's, and how they are installed."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from heliograph.pipeline.sinks.interface import INSTALL, INSTALL_WITHOUT_SPARK, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Of the module of a sink: the package, and what is imported of it.
_LIBRARIES: Final = {
    "delta": ("deltalake", "deltalake"),
    "dynamo": ("boto3", "boto3"),
    "iceberg": ("pyiceberg", "pyiceberg.catalog"),
    "kafka": ("confluent-kafka", "confluent_kafka"),
    "kinesis": ("boto3", "boto3"),
    "mongodb": ("pymongo", "pymongo"),
    "mysql": ("pymysql", "pymysql"),
    "nats": ("nats-py", "nats"),
    "postgresql": ("psycopg", "psycopg"),
    "rabbitmq": ("pika", "pika"),
    "redis": ("redis", "redis"),
    "sqs": ("boto3", "boto3"),
}


def absent_library(sink: Sink) -> str | None:
    """Why a sink cannot be used without Spark where its package is not installed, without importing the package."""
    kind = type(sink).__module__.rpartition(".")[2]
    if kind not in _LIBRARIES:
        return None
    package, module = _LIBRARIES[kind]
    if find_spec(module.partition(".")[0]) is not None:
        return None
    return f"the sink {kind} needs the package {package}: {INSTALL_WITHOUT_SPARK}"


def library_fault(sink: Sink, session: "SparkSession | None" = None, install: str = INSTALL) -> str | None:
    """Why a sink cannot be used with what is installed; without a session, a Kafka sink is not looked at.

    Args:
        install: What installs the packages of all sinks.
    """
    kind = type(sink).__module__.rpartition(".")[2]
    if kind not in _LIBRARIES or (kind == "kafka" and _is_of_spark(sink, session)):
        return None
    package, module = _LIBRARIES[kind]
    try:
        import_module(module)
    except ImportError as error:
        return f"the sink {kind} needs the package {package}: {install} ({error})"
    return None


def _is_of_spark(sink: Sink, session: "SparkSession | None") -> bool:
    from heliograph.pipeline.sinks.kafka import LIBRDKAFKA, SPARK, KafkaSink

    assert isinstance(sink, KafkaSink)
    if sink.client == LIBRDKAFKA:
        return False
    if sink.client == SPARK or session is None:
        return True
    from heliograph.pipeline.sinks.spark.kafka import spark_knows_kafka

    return spark_knows_kafka(session)

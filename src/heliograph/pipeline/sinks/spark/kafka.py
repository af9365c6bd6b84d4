"""The sink `kafka` by Spark's own, where its jar is there."""

from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import StructType

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import MicroBatch, Written
from heliograph.pipeline.sinks.kafka import ACKS, BY_KEY, LIBRDKAFKA, SPARK, KafkaSink, milliseconds
from heliograph.pipeline.sinks.spark.template_columns import derived_column

_PROVIDER: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def write_by_spark(sink: KafkaSink, rows: DataFrame, batch: MicroBatch) -> Written | None:
    """Bring a batch; None where Spark does not know Kafka, or must not be used.

    Raises:
        SinkError: Spark must be used, and does not know Kafka.
    """
    needs_librdkafka = sink.client == LIBRDKAFKA or sink.all_headers is not None
    has_spark = not needs_librdkafka and spark_knows_kafka(rows.sparkSession)
    if sink.client == SPARK and not has_spark:
        raise SinkError(
            f"{sink.target}: Spark does not know Kafka: add its jar by --conf spark.jars.packages="
            "org.apache.spark:spark-sql-kafka-0-10_2.13:<version of Spark>, or set client = librdkafka"
        )
    if not has_spark:
        return None
    sink.check_servers()
    rows.select(*_columns(sink, rows.schema)).write.format("kafka").options(**_options(sink)).save()
    return Written()


def spark_knows_kafka(session: SparkSession) -> bool:
    jvm: Any = session.sparkContext._jvm
    try:
        jvm.org.apache.spark.util.Utils.classForName(_PROVIDER, False, False)
    except Exception:  # noqa: BLE001 (py4j tells every failure of Java by one class, and any of them means no)
        return False
    return True


def _columns(sink: KafkaSink, schema: StructType) -> list[Column]:
    made = {derived.name: derived_column(derived, schema) for derived in sink.derived}
    headers = [
        F.struct(F.lit(name).alias("key"), made[column].alias("value")) for name, column in sink.header_columns.items()
    ]
    kind = "array<struct<key: string, value: binary>>"
    key = made["key"] if "key" in made else F.lit(None).cast("binary")
    partition = made["partition"].try_cast("int") if "partition" in made else F.lit(None).cast("int")
    return [
        made["topic"].alias("topic"),
        key.alias("key"),
        made["value"].alias("value"),
        (F.array(*headers) if headers else F.lit(None)).cast(kind).alias("headers"),
        partition.alias("partition"),
    ]


def _options(sink: KafkaSink) -> dict[str, str]:
    settings: dict[str, str] = {
        "bootstrap.servers": sink.servers,
        "acks": ACKS[sink.acks],
        "delivery.timeout.ms": str(milliseconds(sink.retry.deadline_s)),
        "compression.type": sink.compression,
        **sink.security(),
    }
    if sink.partitioner != BY_KEY:
        settings["partitioner.class"] = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    if sink.username is not None:
        password = sink.password_text or ""
        module = "scram.ScramLoginModule" if sink.mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
        settings["sasl.mechanism"] = sink.mechanism
        settings["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required "
            f"username={_in_quotes(sink.username)} password={_in_quotes(password)};"
        )
    if sink.tls is not None and sink.tls.cacertfile:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": sink.tls.cacertfile}
    options = {f"kafka.{name}": text for name, text in (settings | dict(sink.properties)).items()}
    return options | ({"includeHeaders": "true"} if sink.headers else {})


def _in_quotes(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

"""The sink `kafka`: rows as messages in Kafka, by Spark's own sink where its jar is there, by librdkafka otherwise.

Both wait for all replicas that are in step. librdkafka's producer is idempotent: what it sends again by itself arrives
once and in order. A batch that runs again is sent again, so rows arrive at least once; a key or a header with the
message's id lets a consumer tell doubles.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import StructType

from heliograph.hocon.values import Content
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.arrow_rows import ArrowRows
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, Written
from heliograph.pipeline.sinks.kafka_delivery import KafkaDelivery
from heliograph.pipeline.sinks.servers import ServerSink
from heliograph.pipeline.sinks.template import bytes_column, row_as_json, template_column
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.kinds import Choice, RefusedError, Text, Texts

AUTO: Final = "auto"
SPARK: Final = "spark"
LIBRDKAFKA: Final = "librdkafka"

_CHUNK_ROWS: Final = 10_000
_SPARK_PROVIDER: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_PREFIX: Final = "heliograph_"
_MESSAGE: Final = ("topic", "key", "value", "headers", "partition")

# Settings of the client that the sink answers for.
_OWN_PROPERTIES: Final = frozenset(
    {"bootstrap.servers", "enable.idempotence", "acks", "delivery.timeout.ms", "message.timeout.ms"}
    | {"security.protocol", "sasl.mechanism", "sasl.username", "sasl.password", "sasl.jaas.config", "compression.type"}
)


class ClientProperties(Texts):
    def convert(self, value: Content) -> Mapping[str, str]:
        properties = super().convert(value)
        for name in properties:
            if name in _OWN_PROPERTIES:
                raise RefusedError(f"{name} is not for a person to set: the sink has a setting for it")
        return properties


@dataclass(frozen=True)
class KafkaSink(ServerSink):
    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    servers: str = required(Text("host:port of brokers, by commas"), "Brokers, from which the others are learned.")
    topic: str = required(Text("a template of a topic"), "Template of the topic.")
    key: str | None = optional(
        Text("a template"), "Template of the key. Nothing but a placeholder is null where its column is."
    )
    value: str | None = optional(
        Text("a template"),
        "Template of the value; without, the row as JSON. Nothing but a placeholder is null where its column is (a "
        "tombstone).",
    )
    headers: Mapping[str, str] = setting(Texts(), {}, "Templates of headers, by name.", is_secret=True)
    partition: str | None = optional(
        Text("a template of a number"), "Template of the partition's number; without, the key decides."
    )
    client: str = setting(
        Choice(AUTO, SPARK, LIBRDKAFKA), AUTO, "What sends; `auto` is Spark's own sink where its jar is there."
    )
    compression: str = setting(Choice("none", "gzip", "snappy", "lz4", "zstd"), "none", "Compression of messages.")
    mechanism: str = setting(
        Choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), "PLAIN", "Mechanism of SASL, which is used with `username`."
    )
    properties: Mapping[str, str] = setting(
        ClientProperties(), {}, "More settings of the client, by their names in quotes.", is_secret=True
    )

    @property
    def target(self) -> str:
        return f"Kafka topic {self.topic} at {self.servers}"

    def check(self, schema: StructType) -> None:
        self._columns(schema)

    def write(self, rows: DataFrame, batch: MicroBatch) -> Written:
        has_spark = self.client != LIBRDKAFKA and spark_knows_kafka(rows.sparkSession)
        if self.client == SPARK and not has_spark:
            raise SinkError(
                f"{self.target}: Spark does not know Kafka: add its jar by --conf spark.jars.packages="
                "org.apache.spark:spark-sql-kafka-0-10_2.13:<version of Spark>, or set client = librdkafka"
            )
        if has_spark:
            rows.select(*self._columns(rows.schema)).write.format("kafka").options(**self._spark_options()).save()
            return Written()
        return self._write_by_librdkafka(rows, batch)

    def _write_by_librdkafka(self, rows: DataFrame, batch: MicroBatch) -> Written:
        held = ArrowRows(rows, computed=list(_renamed(self._columns(rows.schema))))
        delivery = KafkaDelivery(self.target, self.producer_settings())
        for chunk in held.chunks(_CHUNK_ROWS):
            delivery.send(*_message_columns(chunk))
        delivery.finish(self.retry.deadline_s)
        refused = dict(delivery.refused)
        if delivery.suspects:
            suspects = sorted(delivery.suspects)
            alone = self._write_alone(held, suspects)
            refused |= {suspects[number]: reason for number, reason in alone.refused.items()}
        for row, reason in held.rows_at(_CHUNK_ROWS, refused):
            batch.refuse(row, reason)
        figures = {"rows": delivery.count - len(refused), "bytes": delivery.bytes, "refused": len(refused)}
        return Written(figures=figures)

    def _write_alone(self, held: ArrowRows, numbers: Sequence[int]) -> "KafkaDelivery":
        """Send some rows once more, in their order, each as a request of its own: the broker's answer is of one row."""
        settings = {**self.producer_settings(), "batch.num.messages": 1, "linger.ms": 0}
        delivery = KafkaDelivery(self.target, settings, is_alone=True)
        wanted = set(numbers)
        begin = 0
        for chunk in held.chunks(_CHUNK_ROWS):
            chosen = [index for index in range(chunk.num_rows) if begin + index in wanted]
            begin += chunk.num_rows
            if chosen:
                delivery.send(*_message_columns(chunk.take(pa.array(chosen, pa.int64()))))
        delivery.finish(self.retry.deadline_s)
        return delivery

    def _columns(self, schema: StructType) -> list[Column]:
        value = row_as_json(schema.fieldNames()).cast("binary")
        if self.value is not None:
            value = bytes_column(self.value, schema, "value", keep_null=True)
        key = F.lit(None).cast("binary") if self.key is None else bytes_column(self.key, schema, "key", keep_null=True)
        headers = [
            F.struct(F.lit(name).alias("key"), bytes_column(text, schema, f"headers.{name}").alias("value"))
            for name, text in self.headers.items()
        ]
        partition = F.lit(None).cast("int")
        if self.partition is not None:
            partition = template_column(self.partition, schema, "partition").try_cast("int")
        kind = "array<struct<key: string, value: binary>>"
        return [
            template_column(self.topic, schema, "topic").alias("topic"),
            key.alias("key"),
            value.alias("value"),
            (F.array(*headers) if headers else F.lit(None)).cast(kind).alias("headers"),
            partition.alias("partition"),
        ]

    def producer_settings(self) -> dict[str, str | int | bool]:
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": self.servers,
            "enable.idempotence": True,
            "acks": "all",
            "delivery.timeout.ms": _milliseconds(self.retry.deadline_s),
            "retry.backoff.ms": _milliseconds(self.retry.first_pause_s),
            "retry.backoff.max.ms": _milliseconds(max(self.retry.first_pause_s, self.retry.longest_pause_s)),
            "compression.type": self.compression,
            "linger.ms": 20,
            **self._security(),
        }
        if self.username is not None:
            settings |= {"sasl.mechanism": self.mechanism, "sasl.username": self.username}
            settings["sasl.password"] = self.password_text or ""
        if self.tls is not None:
            files = {
                "ssl.ca.location": self.tls.cacertfile,
                "ssl.certificate.location": self.tls.certfile,
                "ssl.key.location": self.tls.keyfile or self.tls.certfile,
            }
            settings |= {name: file for name, file in files.items() if file}
            settings["enable.ssl.certificate.verification"] = self.tls.verify
        return settings | dict(self.properties)

    def _spark_options(self) -> dict[str, str]:
        settings: dict[str, str] = {
            "bootstrap.servers": self.servers,
            "acks": "all",
            "delivery.timeout.ms": str(_milliseconds(self.retry.deadline_s)),
            "compression.type": self.compression,
            **self._security(),
        }
        if self.username is not None:
            password = self.password_text or ""
            scram = self.mechanism.startswith("SCRAM")
            module = "scram.ScramLoginModule" if scram else "plain.PlainLoginModule"
            settings["sasl.mechanism"] = self.mechanism
            settings["sasl.jaas.config"] = (
                f"org.apache.kafka.common.security.{module} required "
                f"username={_in_quotes(self.username)} password={_in_quotes(password)};"
            )
        if self.tls is not None and self.tls.cacertfile:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.tls.cacertfile}
        options = {f"kafka.{name}": text for name, text in (settings | dict(self.properties)).items()}
        return options | ({"includeHeaders": "true"} if self.headers else {})

    def _security(self) -> dict[str, str]:
        kind = "SASL_" if self.username is not None else ""
        return {"security.protocol": f"{kind}{'SSL' if self.tls is not None else 'PLAINTEXT'}"}


def spark_knows_kafka(session: SparkSession) -> bool:
    jvm: Any = session.sparkContext._jvm
    try:
        jvm.org.apache.spark.util.Utils.classForName(_SPARK_PROVIDER, False, False)
    except Exception:  # noqa: BLE001 (py4j tells every failure of Java by one class, and any of them means no)
        return False
    return True


def _message_columns(chunk: pa.RecordBatch) -> Iterator[list[Any]]:
    return (chunk.column(f"{_PREFIX}{name}").to_pylist() for name in _MESSAGE)


def _renamed(columns: list[Column]) -> Iterator[Column]:
    for name, column in zip(_MESSAGE, columns, strict=True):
        yield column.alias(f"{_PREFIX}{name}")


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _in_quotes(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

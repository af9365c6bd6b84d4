"""The sink `kafka`: rows as messages in Kafka, by Spark's own sink where its jar is there, by librdkafka otherwise.

Both wait for all replicas that are in step. librdkafka's producer is idempotent: what it sends again by itself arrives
once and in order. A batch that runs again is sent again, so rows arrive at least once; a key or a header with the
message's id lets a consumer tell doubles.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import StructType

from heliograph.client_tls import ClientTls
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.files.section import Section
from heliograph.pipeline.files.tls import read_tls
from heliograph.pipeline.sinks.arrow_rows import ArrowRows
from heliograph.pipeline.sinks.interface import INSTALL, Guarantee, MicroBatch, OutputMode, Written
from heliograph.pipeline.sinks.retry import DEFAULT_RETRY, RetryPolicy
from heliograph.pipeline.sinks.secret import Secret, read_secret
from heliograph.pipeline.sinks.template import bytes_column, row_as_json, template_column

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

AUTO: Final = "auto"
SPARK: Final = "spark"
LIBRDKAFKA: Final = "librdkafka"

_CHUNK_ROWS: Final = 10_000
_SPARK_PROVIDER: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_PARTITION_UNSET: Final = -1
_POLL_S: Final = 0.1
_PREFIX: Final = "heliograph_"
_MESSAGE: Final = ("topic", "key", "value", "headers", "partition")

# The producer's errors say what it would log.
_SILENT: Final = logging.Logger("librdkafka", logging.CRITICAL)

# Settings of the client that the sink answers for.
_OWN_PROPERTIES: Final = frozenset(
    {"bootstrap.servers", "enable.idempotence", "acks", "delivery.timeout.ms", "message.timeout.ms"}
    | {"security.protocol", "sasl.mechanism", "sasl.username", "sasl.password", "sasl.jaas.config", "compression.type"}
)


@dataclass(frozen=True)
class KafkaSink:
    """Rows become messages.

    Attributes:
        servers: host:port of brokers, by commas; the others are learned from them.
        topic: Template of the topic.
        key: Template of the key; None is without.
        value: Template of the value; None is the row as JSON. Nothing but a placeholder that is null is a tombstone.
        headers: Templates of headers, by name.
        partition: Template of the partition's number; None leaves it to the key.
        client: `spark`, `librdkafka`, or `auto`: Spark's where its jar is there.
        compression: Compression of messages.
        username: Who connects, by SASL.
        password: Its password.
        mechanism: The mechanism of SASL.
        tls: How to speak TLS; None is without.
        properties: More settings of the client, by their names.
        retry: How long the client tries to deliver a message, and with which pauses.
    """

    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    servers: str
    topic: str
    key: str | None = None
    value: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    partition: str | None = None
    client: str = AUTO
    compression: str = "none"
    username: str | None = None
    password: Secret | None = None
    mechanism: str = "PLAIN"
    tls: ClientTls | None = None
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    retry: RetryPolicy = DEFAULT_RETRY

    @classmethod
    def read(cls, section: Section, mode: OutputMode, more_keys: tuple[str, ...]) -> Self:
        """See `Sink.read`."""
        own = ("servers", "topic", "key", "value", "headers", "partition", "client", "compression", "properties")
        access = ("username", "password", "password_file", "mechanism", "ssl")
        section.check_keys("type", *own, *access, "retry", *more_keys)
        properties = section.texts("properties")
        for name in properties:
            if name in _OWN_PROPERTIES:
                told = f"{section.path}.properties.{name} is not for a person to set: the sink has a setting for it"
                raise section.mistake(told, section.fields["properties"])
        return cls(
            servers=section.text("servers"),
            topic=section.text("topic"),
            key=section.optional_text("key"),
            value=section.optional_text("value"),
            headers=tuple(section.texts("headers").items()),
            partition=section.optional_text("partition"),
            client=_one_of(section, "client", (AUTO, SPARK, LIBRDKAFKA)),
            compression=_one_of(section, "compression", _COMPRESSIONS),
            username=section.optional_text("username"),
            password=read_secret(section, "password"),
            mechanism=_one_of(section, "mechanism", _MECHANISMS),
            tls=read_tls(section),
            properties=tuple(properties.items()),
            retry=RetryPolicy.read(section),
        )

    @property
    def owned(self) -> tuple[str, ...]:
        """Nothing: several queries may write to a topic."""
        return ()

    @property
    def target(self) -> str:
        """The topic and the brokers."""
        return f"Kafka topic {self.topic} at {self.servers}"

    def check(self, schema: StructType) -> None:
        """See `ChecksRows.check`."""
        self._columns(schema)

    def write(self, rows: DataFrame, batch: MicroBatch) -> Written:
        """Send the rows and wait until all are delivered."""
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
        delivery = _Delivery(self.target, self._producer_settings())
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

    def _write_alone(self, held: ArrowRows, numbers: Sequence[int]) -> "_Delivery":
        """Send some rows once more, in their order, each as a request of its own: the broker's answer is of one row."""
        settings = {**self._producer_settings(), "batch.num.messages": 1, "linger.ms": 0}
        delivery = _Delivery(self.target, settings, is_alone=True)
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
        """The columns that Spark's sink knows."""
        value = row_as_json(schema.fieldNames()).cast("binary")
        if self.value is not None:
            value = bytes_column(self.value, schema, "value", keep_null=True)
        key = F.lit(None).cast("binary") if self.key is None else bytes_column(self.key, schema, "key", keep_null=True)
        headers = [
            F.struct(F.lit(name).alias("key"), bytes_column(text, schema, f"headers.{name}").alias("value"))
            for name, text in self.headers
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

    def _producer_settings(self) -> dict[str, str | int | bool]:
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
            settings["sasl.password"] = self.password.reveal() if self.password is not None else ""
        if self.tls is not None:
            files = {
                "ssl.ca.location": self.tls.cacertfile,
                "ssl.certificate.location": self.tls.certfile,
                "ssl.key.location": self.tls.keyfile or self.tls.certfile,
            }
            settings |= {name: file for name, file in files.items() if file is not None}
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
            password = self.password.reveal() if self.password is not None else ""
            scram = self.mechanism.startswith("SCRAM")
            module = "scram.ScramLoginModule" if scram else "plain.PlainLoginModule"
            settings["sasl.mechanism"] = self.mechanism
            settings["sasl.jaas.config"] = (
                f"org.apache.kafka.common.security.{module} required "
                f"username={_in_quotes(self.username)} password={_in_quotes(password)};"
            )
        if self.tls is not None and self.tls.cacertfile is not None:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.tls.cacertfile}
        options = {f"kafka.{name}": text for name, text in (settings | dict(self.properties)).items()}
        return options | ({"includeHeaders": "true"} if self.headers else {})

    def _security(self) -> dict[str, str]:
        kind = "SASL_" if self.username is not None else ""
        return {"security.protocol": f"{kind}{'SSL' if self.tls is not None else 'PLAINTEXT'}"}


def spark_knows_kafka(session: SparkSession) -> bool:
    """Whether the jar of Spark's own Kafka sink is there."""
    jvm: Any = session.sparkContext._jvm
    try:
        jvm.org.apache.spark.util.Utils.classForName(_SPARK_PROVIDER, False, False)
    except Exception:  # noqa: BLE001 (py4j tells every failure of Java by one class, and any of them means no)
        return False
    return True


class _Delivery:
    """The messages of one batch on their way. Owned by the thread that sends them; callbacks run inside its calls.

    Attributes:
        refused: What is said of messages that will never be taken, by their numbers.
        suspects: Numbers of messages that a broker refused together because of one of them; those of several
            partitions in no order.

    Args:
        target: Where they go, for people.
        settings: The producer's.
        is_alone: Whether each message is a request of its own, so that what a broker says is of that message.
    """

    def __init__(self, target: str, settings: Mapping[str, str | int | bool], *, is_alone: bool = False) -> None:
        self.count = 0
        self.bytes = 0
        self.refused: dict[int, str] = {}
        self.suspects: list[int] = []
        self._target = target
        self._is_alone = is_alone
        self._failed = 0
        self._failure = ""
        self._fault: str | None = None
        self._last_error = ""
        self._producer = self._make(settings)

    def send(
        self,
        topics: Sequence[str],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[list[dict[str, Any]] | None],
        partitions: Sequence[int | None],
    ) -> None:
        """Hand messages to the producer; it blocks while the producer's queue is full."""
        for topic, key, value, header, partition in zip(topics, keys, values, headers, partitions, strict=True):
            arguments: dict[str, Any] = {"partition": _PARTITION_UNSET if partition is None else partition}
            if header:
                arguments["headers"] = [(each["key"], each["value"]) for each in header]
            self._hand_over(topic, key, value, arguments)
            self.count += 1
            self.bytes += len(value or b"") + len(key or b"")
        self._producer.poll(0)
        self._check()

    def finish(self, deadline_s: float) -> None:
        """Wait until every message was delivered or given up.

        Raises:
            SinkError: One was not delivered, and may be another time.
        """
        # The producer gives every message up by its own timeout; the rest is for its answers to be handed over.
        left = self._producer.flush(deadline_s + 10)
        self._check()
        if self._failed or left:
            told = self._failure or "no answer"
            hint = f"; {self._last_error}" if self._last_error and self._last_error != told else ""
            raise SinkError(
                f"{self._target}: {self._failed + left} of {self.count} messages were not delivered: {told}{hint}"
            )

    def _hand_over(self, topic: str, key: bytes | None, value: bytes | None, arguments: dict[str, Any]) -> None:
        from confluent_kafka import KafkaException

        report = partial(self._on_delivery, self.count)
        while True:
            try:
                self._producer.produce(topic, value=value, key=key, on_delivery=report, **arguments)
            except BufferError:
                self._producer.poll(_POLL_S)
                self._check()
            except KafkaException as error:
                self._judge(self.count, error.args[0])
                self._check()
                return
            else:
                return

    def _make(self, settings: Mapping[str, str | int | bool]) -> "Producer":
        try:
            from confluent_kafka import KafkaException, Producer
        except ImportError as error:
            raise SinkError(f"Kafka needs confluent-kafka: {INSTALL}") from error
        try:
            return Producer({**settings, "error_cb": self._on_error}, logger=_SILENT)
        except KafkaException as error:
            raise SinkError(f"{self._target}: {error.args[0].str()}") from error

    def _on_error(self, error: "KafkaError") -> None:
        from confluent_kafka import KafkaError

        self._last_error = error.str()
        if error.fatal() or error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            self._fault = error.str()

    def _on_delivery(self, number: int, error: "KafkaError | None", message: "Message") -> None:
        if error is None:
            return
        if not self._is_alone and error.code() in _codes_of_requests():
            self.suspects.append(number)
        else:
            self._judge(number, error)

    def _judge(self, number: int, error: "KafkaError") -> None:
        from confluent_kafka import KafkaError

        of_messages = (KafkaError.TOPIC_EXCEPTION, KafkaError._UNKNOWN_PARTITION, KafkaError._INVALID_ARG)
        if error.code() in (*of_messages, *_codes_of_requests()):
            self.refused[number] = error.str()
        elif error.fatal():
            self._fault = error.str()
        else:
            self._failed += 1
            self._failure = error.str()

    def _check(self) -> None:
        if self._fault is not None:
            raise SinkError(f"{self._target}: {self._fault}")


def _codes_of_requests() -> tuple[int, ...]:
    """What a broker says of a request as a whole, however many messages of a partition are in it."""
    from confluent_kafka import KafkaError

    sizes = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
    return (*sizes, KafkaError.INVALID_RECORD, KafkaError.INVALID_MSG, KafkaError.INVALID_TIMESTAMP)


def _message_columns(chunk: pa.RecordBatch) -> Iterator[list[Any]]:
    return (chunk.column(f"{_PREFIX}{name}").to_pylist() for name in _MESSAGE)


def _renamed(columns: list[Column]) -> Iterator[Column]:
    for name, column in zip(_MESSAGE, columns, strict=True):
        yield column.alias(f"{_PREFIX}{name}")


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _in_quotes(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _one_of(section: Section, key: str, valid: tuple[str, ...]) -> str:
    said = section.text(key, valid[0])
    if said not in valid:
        told = f"{section.path}.{key} is {said!r}, but must be one of {', '.join(valid)}"
        raise section.mistake(told, section.fields[key])
    return said

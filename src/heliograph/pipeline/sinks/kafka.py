"""The sink `kafka`: rows as messages in Kafka, by Spark's own sink where its jar is there, by librdkafka otherwise.

Both wait for all replicas that are in step, unless `acks` says otherwise. librdkafka's producer is idempotent then:
what it sends again by itself arrives once and in order. A batch that runs again is sent again, so rows arrive at least
once; a key or a header with the message's id lets a consumer tell doubles.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa

from heliograph.hocon.values import Content
from heliograph.outbound.kafka import login_settings, security_of
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, Written
from heliograph.pipeline.sinks.kafka_delivery import KafkaDelivery, KafkaProducer
from heliograph.pipeline.sinks.rows import Derived, Rows, rows_at
from heliograph.pipeline.sinks.servers import ServerSink
from heliograph.pipeline.sinks.template import placeholders
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.kinds import Choice, RefusedError, Text, Texts
from heliograph.settings.outbound import server_of
from heliograph.settings.units import Address

AUTO: Final = "auto"
SPARK: Final = "spark"
LIBRDKAFKA: Final = "librdkafka"

#: Who must have a message, with what both clients call it.
ACKS: Final = {"all": "all", "leader": "1", "none": "0"}
BY_KEY: Final = "key"

_CHUNK_ROWS: Final = 10_000
_PORT: Final = 9092

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
    all_headers: str | None = optional(
        Text("a template"),
        "Template of a JSON object, or of a list of `{key, value}`, with more headers; only by librdkafka.",
    )
    header_encoding: str = setting(
        Choice("none", "json"), "none", "Whether values of `all_headers` are JSON, or texts as they are."
    )
    timestamp: str | None = optional(
        Text("a template of a number"),
        "Template of the time in ms since the epoch, by librdkafka; what is no number is now.",
    )
    partition: str | None = optional(
        Text("a template of a number"), "Template of the partition's number; without, `partitioner` decides."
    )
    partitioner: str = setting(
        Choice(BY_KEY, "random"), BY_KEY, "Which partition: that of the key, as Java's client chooses it, or any."
    )
    acks: str = setting(
        Choice(*ACKS), "all", "Who must have a message: all replicas in step, the leader, or no broker; see below."
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

    def __post_init__(self) -> None:
        if self.client == SPARK and self.all_headers is not None:
            raise RefusedError(f"Spark's own client does not have them: set client = {LIBRDKAFKA}", "all_headers")

    @property
    def target(self) -> str:
        return f"Kafka topic {self.topic} at {self.servers}"

    @property
    def header_columns(self) -> Mapping[str, str]:
        """The derived column of each header."""
        return {name: f"header_{number}" for number, name in enumerate(self.headers)}

    @property
    def derived(self) -> Sequence[Derived]:
        made = [
            Derived("topic", self.topic, "topic", is_text=True),
            Derived("value", self.value, "value", keep_null=True),
        ]
        if self.key is not None:
            made.append(Derived("key", self.key, "key", keep_null=True))
        if self.partition is not None:
            made.append(Derived("partition", self.partition, "partition", is_text=True))
        for name, template in (("timestamp", self.timestamp), ("all_headers", self.all_headers)):
            if template is not None:
                made.append(Derived(name, template, name, is_text=True))
        columns = self.header_columns
        return made + [Derived(columns[name], text, f"headers.{name}") for name, text in self.headers.items()]

    def check_servers(self) -> None:
        """Hold the brokers of the settings against the file: librdkafka and Spark resolve and connect by themselves.

        Brokers that these name are not looked at.
        """
        for text in ",".join((self.servers, self.properties.get("metadata.broker.list", ""))).split(","):
            host, port = server_of(text.strip().rpartition("://")[2])
            if host:
                self.deny_or_leave(Address(host, port or _PORT))

    def write(self, rows: Rows, batch: MicroBatch) -> Written:
        with batch.connections.opened(self._producer, stays=True) as producer:
            delivery = KafkaDelivery(producer, has_topic_of_row=bool(placeholders(self.topic)))
            for chunk in rows.chunks(_CHUNK_ROWS):
                delivery.send(*self._messages(chunk))
            delivery.finish(self.retry.deadline_s)
        refused = dict(delivery.refused)
        if delivery.suspects:
            suspects = sorted(delivery.suspects)
            alone = self._write_alone(rows, suspects)
            refused |= {suspects[number]: reason for number, reason in alone.refused.items()}
        for row, reason in rows_at(rows, _CHUNK_ROWS, refused):
            batch.refuse(row, reason)
        figures = {"rows": delivery.count - len(refused), "bytes": delivery.bytes, "refused": len(refused)}
        return Written(figures=figures)

    def _producer(self, *, is_alone: bool = False) -> KafkaProducer:
        self.check_servers()
        alone: dict[str, str | int | bool] = {"batch.num.messages": 1, "linger.ms": 0} if is_alone else {}
        return KafkaProducer(self.target, {**self.producer_settings(), **alone})

    def _write_alone(self, rows: Rows, numbers: Sequence[int]) -> KafkaDelivery:
        """Send some rows once more, in their order, each as a request of its own: the broker's answer is of one row."""
        wanted = set(numbers)
        begin = 0
        with self._producer(is_alone=True) as producer:
            delivery = KafkaDelivery(producer, is_alone=True, has_topic_of_row=bool(placeholders(self.topic)))
            for chunk in rows.chunks(_CHUNK_ROWS):
                chosen = [index for index in range(chunk.num_rows) if begin + index in wanted]
                begin += chunk.num_rows
                if chosen:
                    delivery.send(*self._messages(chunk.take(pa.array(chosen, pa.int64()))))
            delivery.finish(self.retry.deadline_s)
        return delivery

    def _messages(self, chunk: pa.RecordBatch) -> tuple[list[Any], ...]:
        """Topics, keys, values, headers, partitions and times."""
        made = {derived.name: chunk.column(derived.column).to_pylist() for derived in self.derived}
        none = [None] * chunk.num_rows
        pairs = [[(name, value) for value in made[column]] for name, column in self.header_columns.items()]
        headers = list(map(list, zip(*pairs, strict=True))) if pairs else none
        if "all_headers" in made:
            own = [_headers_in(text, self.header_encoding == "json") for text in made["all_headers"]]
            headers = [[*more, *(named or ())] for named, more in zip(headers, own, strict=True)]
        partitions = list(map(_number, made["partition"])) if "partition" in made else none
        times = list(map(_number, made["timestamp"])) if "timestamp" in made else none
        return made["topic"], made.get("key", none), made["value"], headers, partitions, times

    def producer_settings(self) -> dict[str, str | int | bool]:
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": self.servers,
            "enable.idempotence": self.acks == "all",
            "acks": ACKS[self.acks],
            "partitioner": "murmur2_random" if self.partitioner == BY_KEY else "random",
            "delivery.timeout.ms": milliseconds(self.retry.deadline_s),
            "retry.backoff.ms": milliseconds(self.retry.first_pause_s),
            "retry.backoff.max.ms": milliseconds(max(self.retry.first_pause_s, self.retry.longest_pause_s)),
            "compression.type": self.compression,
            "linger.ms": 20,
            **login_settings(self.mechanism, self.username, self.password_text, self.tls),
        }
        return settings | dict(self.properties)

    def security(self) -> dict[str, str]:
        return security_of(self.username, self.tls)


def _headers_in(text: str, is_json: bool) -> list[tuple[str, bytes]]:
    """The headers in a JSON object, or in a list of objects with `key` and `value`; of another text, none."""
    try:
        given = json.loads(text)
    except ValueError:
        return []
    if isinstance(given, list):
        pairs = [(one["key"], one.get("value")) for one in given if isinstance(one, dict) and "key" in one]
    else:
        pairs = list(given.items()) if isinstance(given, dict) else []
    return [
        (
            str(name),
            (value if isinstance(value, str) and not is_json else json.dumps(value, ensure_ascii=False)).encode(),
        )
        for name, value in pairs
    ]


def _number(text: str) -> int | None:
    """A number; None for another text, so that the client decides."""
    try:
        return int(text)
    except ValueError:
        return None


def milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))

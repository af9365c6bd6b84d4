"""Settings of sources of queues: `kafka_consumer`, `rabbitmq` and `nats`."""

from dataclasses import dataclass
from typing import Final

from heliograph.config.actions.interface import ignored
from heliograph.config.sources.interface import ConnectedSource
from heliograph.settings.fields import optional, required, required_section, setting
from heliograph.settings.kinds import Boolean, Choice, Duration, Integer, RefusedError, Size, Text

NONE: Final = "none"
BASE64: Final = "base64"
_NATS_NAME: Final = r"[^\s.*>/\\]+"


@dataclass(frozen=True, kw_only=True)
class KafkaConsumerParameters:
    topic: str = required(Text("the name of a topic", r"[A-Za-z0-9._-]{1,249}"), "The topic, by its name.")
    group_id: str | None = optional(
        Text("the name of a group"), "The consumer group; without it, one of the node and the source."
    )
    offset_reset_policy: str = setting(
        Choice("latest", "earliest"),
        "latest",
        "Where a group begins that has read nothing yet: with what comes from then on, or with all that is there.",
    )
    key_encoding_mode: str = setting(Choice(NONE, BASE64), NONE, "How rules see the key: as it is, or as Base64.")
    value_encoding_mode: str = setting(Choice(NONE, BASE64), NONE, "How the value comes: as it is, or as Base64.")
    max_batch_bytes: int = setting(
        Size(1024, 100 * 1024**2), 896 * 1024, "Bytes that are fetched of a partition at a time, about."
    )
    max_wait_time: float = setting(
        Duration(0.001, 30.0), 1.0, "How long a broker waits for a message before it answers that there is none."
    )
    offset_commit_interval_seconds: float = setting(Duration(0.01, 3600.0), 5.0, "How often offsets are committed.")
    max_rejoin_attempts: int = ignored(Integer(0), 5, "it is tried until it works")


@dataclass(frozen=True, kw_only=True)
class KafkaConsumer(ConnectedSource):
    parameters: KafkaConsumerParameters = required_section(KafkaConsumerParameters, "What is read.")


@dataclass(frozen=True, kw_only=True)
class RabbitmqSourceParameters:
    queue: str = required(Text("the name of a queue", r"(?s).{1,255}"), "The queue, which has to be there.")
    prefetch_count: int = setting(
        Integer(1, 10_000), 256, "Messages that the broker may have sent and that are not acknowledged yet."
    )
    no_ack: bool = ignored(Boolean(), True, "each message is acknowledged after the commit")
    wait_for_publish_confirmations: bool = ignored(Boolean(), True, "a source publishes nothing there")


@dataclass(frozen=True, kw_only=True)
class RabbitmqSource(ConnectedSource):
    parameters: RabbitmqSourceParameters = required_section(RabbitmqSourceParameters, "What is consumed.")


@dataclass(frozen=True, kw_only=True)
class NatsSourceParameters:
    subject: str = required(
        Text("a subject, as in `plant.*.temp` or `plant.>`", r"[^\s.]+(\.[^\s.]+)*"), "The subject, with its wildcards."
    )
    jetstream: bool = setting(
        Boolean(),
        True,
        "Whether messages are those of a stream of JetStream, which come at least once; without, what is published "
        "while the source is connected comes at most once.",
    )
    queue_group: str | None = optional(
        Text("the name of a group", r"[^\s]+"),
        "Without JetStream: the queue group, in which each message is for one of the subscribers.",
    )
    stream: str | None = optional(
        Text("the name of a stream", _NATS_NAME), "With JetStream: the stream; without, the first that has the subject."
    )
    durable: str | None = optional(
        Text("the name of a consumer", _NATS_NAME),
        "With JetStream: the durable consumer, which nodes share; without, one of the node and the source.",
    )
    deliver_policy: str = setting(
        Choice("new", "all"),
        "new",
        "With JetStream: where a consumer begins, with what comes after it was made, or with all that is there.",
    )
    ack_wait: float = setting(
        Duration(1.0, 3600.0),
        5.0,
        "With JetStream: how long the stream waits before it sends a message again whose receiver is gone.",
    )

    def __post_init__(self) -> None:
        others = ("queue_group",) if self.jetstream else ("stream", "durable")
        for name in others:
            if (value := getattr(self, name)) is not None:
                valid = "only without JetStream: set jetstream = false" if self.jetstream else "only of JetStream"
                instead = "; nodes share a `durable`" if self.jetstream else "; nodes share a `queue_group`"
                raise RefusedError(f'found "{value}", which is {valid}{instead}', name)


@dataclass(frozen=True, kw_only=True)
class NatsSource(ConnectedSource):
    parameters: NatsSourceParameters = required_section(NatsSourceParameters, "The subscription.")

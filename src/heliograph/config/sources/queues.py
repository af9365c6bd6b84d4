"""Settings of sources of queues: `kafka_consumer`."""

from dataclasses import dataclass
from typing import Final

from heliograph.config.actions.interface import ignored
from heliograph.config.sources.interface import ConnectedSource
from heliograph.settings.fields import optional, required, required_section, setting
from heliograph.settings.kinds import Choice, Duration, Integer, Size, Text

NONE: Final = "none"
BASE64: Final = "base64"


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

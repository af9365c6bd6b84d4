"""Settings of `durable_storage`: what is stored on disk, and how it is read."""

from dataclasses import dataclass

from heliograph.config.kinds import (
    Bind,
    Boolean,
    Choice,
    Duration,
    Integer,
    ListOf,
    Size,
    TopicFilter,
    Unless,
    list_setting,
    section,
    setting,
)
from heliograph.config.units import Address

_KB = 1024
_MB = 1024 * 1024
_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class LayoutConfig:
    """How a generation keeps its messages; a change takes effect with the next generation."""

    wildcard_thresholds: tuple[int, ...] = list_setting(
        ListOf(Integer(1), at_least=1),
        (100, 10),
        "Different values from which a topic level is taken as a variable, level by level; the last is for the rest.",
    )
    compression: str = setting(Choice("zstd", "lz4", "none"), "zstd", "Compression of stored blocks.")


@dataclass(frozen=True, slots=True)
class MessagesConfig:
    """The database of messages."""

    topics: tuple[str, ...] = list_setting(
        ListOf(TopicFilter()),
        ("#",),
        "Topic filters of the messages to store; `#` does not cover topics that start with `$`, and [] stores nothing.",
    )
    n_shards: int = setting(Integer(1, 1024), 1, "Shards of a new database.")
    retention: float | None = setting(
        Unless(Duration(1.0), "infinity"),
        7 * _DAY,
        "How long messages are kept at least; at most one `generation_interval` longer.",
    )
    generation_interval: float | None = setting(
        Unless(Duration(1.0), "infinity"),
        _DAY,
        "How long one generation is written; old messages are removed by whole generations.",
    )
    max_bytes: int | None = setting(
        Unless(Size(_MB), "infinity"),
        None,
        "How large the table files may become before the oldest generation is removed, however young it is.",
    )
    fsync: bool = setting(
        Boolean(), True, "Whether a commit is on the disk, not only with the system, before it is acknowledged."
    )
    max_buffered_bytes: int = setting(Size(64 * _KB), 64 * _MB, "Messages that may wait for their commit, in bytes.")
    layout: LayoutConfig = section(LayoutConfig, "How messages lie on disk.")


@dataclass(frozen=True, slots=True)
class StateConfig:
    """A database of state: small records that change often."""

    fsync: bool = setting(
        Boolean(), True, "Whether a commit is on the disk, not only with the system, before it counts as done."
    )
    max_buffered_bytes: int = setting(Size(64 * _KB), 64 * _MB, "Changes that may wait for their commit, in bytes.")


@dataclass(frozen=True, slots=True)
class FlightConfig:
    """The reader process that serves stored messages over Arrow Flight."""

    enable: bool = setting(Boolean(), True, "Whether the reader process is started.")
    bind: Address = setting(Bind(), Address("127.0.0.1", 8815), "Address and port of the reader.")


@dataclass(frozen=True, slots=True)
class DurableStorageConfig:
    """What is stored on disk, and how it is read."""

    messages: MessagesConfig = section(MessagesConfig, "Stored messages.")
    sessions: StateConfig = section(StateConfig, "The state of sessions.")
    flight: FlightConfig = section(FlightConfig, "Bulk reads over Arrow Flight.")

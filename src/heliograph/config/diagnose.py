"""Settings of `diagnose`: what is recorded to find faults."""

from dataclasses import dataclass

from heliograph.config.kinds import RateLimit
from heliograph.settings.fields import ListOf, list_setting, section, setting
from heliograph.settings.kinds import Boolean, Duration, Size, Text, TopicFilters, Unless
from heliograph.settings.units import Rate

_MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class MessageWaysConfig:
    """The ways of messages: who published each, and what became of it at every receiver."""

    enable: bool = setting(Boolean(), False, "Whether the ways of messages are recorded (docs/message_ways.md).")
    topics: tuple[str, ...] = setting(
        TopicFilters(), ("#",), "Those of messages whose topics match one of these filters; `#` is all but `$` topics."
    )
    clients: tuple[str, ...] = list_setting(
        ListOf(Text("a client id")), (), "Those of messages that these clients publish; empty for all clients."
    )
    rate: Rate | None = setting(
        Unless(RateLimit(), "infinity"),
        Rate(10_000, 1.0),
        "How many are recorded at the most; others are counted. Messages that are refused or dropped before they have "
        "receivers have as many of their own.",
    )
    settle_time: float = setting(
        Duration(1.0, 3600.0),
        60.0,
        "How long a way is held in memory for receivers that have yet to acknowledge; what comes later is added to it "
        "on the disk.",
    )
    retention: float = setting(Duration(60.0), 86_400.0, "How long ways are kept.")
    max_bytes: int = setting(Size(_MB), 256 * _MB, "What they may take on the disk, about; the oldest go first.")
    max_memory: int = setting(
        Size(_MB), 64 * _MB, "What ways may hold in memory that are not on the disk yet; more are not recorded."
    )


@dataclass(frozen=True, slots=True)
class DiagnoseConfig:
    """What is recorded to find faults."""

    messages: MessageWaysConfig = section(MessageWaysConfig, "The ways of messages.")

"""Settings of what watches a node, its deliveries and its messages: alarms, limits of load, slow subscriptions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from heliograph.config.kinds import PartOfAll, RateLimit
from heliograph.mqtt.topic import topic_name_fault
from heliograph.settings.fields import How, ListOf, list_setting, section, setting
from heliograph.settings.kinds import (
    Boolean,
    Choice,
    Duration,
    Integer,
    RefusedError,
    Size,
    Text,
    Texts,
    TopicFilters,
    Unless,
)
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Percentage, Rate

COUNTED_TOPICS_MAX: Final = 512
TOP_K_MAX: Final = 1000
_LEVELS_MAX: Final = 65_535
_MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class AlarmWebhook:
    enable: bool = setting(Boolean(), False, "Whether a POST is sent when an alarm begins and when it ends.")
    url: str = setting(
        Text("a URL as in https://example.org/alarms, or empty", r"(?:https?://\S+)?"),
        "",
        "What it is sent to; required with `enable`. Never shown, since many services have their key in it.",
        is_secret=True,
    )
    headers: Mapping[str, str] = setting(
        Texts(), {}, "Headers of each request, beside `content-type: application/json`.", is_secret=True
    )
    timeout: float = setting(Duration(0.1, 60.0), 5.0, "How long one attempt may take; there are three.")
    max_queue: int = setting(
        Integer(1, 10_000), 100, "Messages that may wait; when there are more, the oldest is dropped."
    )
    ssl: ClientTls = section(ClientTls, "TLS, where the URL is one of https.")

    def __post_init__(self) -> None:
        if self.enable and not self.url:
            raise RefusedError("enable = true needs a url", "url")


@dataclass(frozen=True, slots=True)
class AlarmConfig:
    actions: tuple[str, ...] = list_setting(
        ListOf(Choice("log", "publish")),
        ("log", "publish"),
        "What is done when an alarm begins and ends: `log` writes a line, `publish` sends messages below "
        "`$SYS/brokers/<node>/alarms/`.",
    )
    size_limit: int = setting(Integer(1, 10_000), 1000, "Alarms that are kept after their ends; the newest stay.")
    validity_period: float = setting(Duration(1.0), 86_400.0, "How long an alarm is kept after its end.")
    webhook: AlarmWebhook = section(AlarmWebhook, "Where alarms are sent over HTTP.")


@dataclass(frozen=True, slots=True)
class SysmonOs:
    cpu_check_interval: float = setting(Duration(1.0), 60.0, "How often the use of processors is looked at.")
    cpu_high_watermark: Percentage = setting(
        PartOfAll(),
        Percentage(80),
        "Use of processors since the last look above which there is an alarm `high_cpu_usage`: of all of the "
        "machine's, or of the one that the node's event loop has, whichever is more.",
    )
    cpu_low_watermark: Percentage = setting(PartOfAll(), Percentage(60), "Use below which that alarm ends.")
    mem_check_interval: float | None = setting(
        Unless(Duration(1.0), "disabled"), 60.0, "How often memory is looked at."
    )
    sysmem_high_watermark: Percentage = setting(
        PartOfAll(),
        Percentage(70),
        "Part of the machine's memory above which there is an alarm `high_system_memory_usage`.",
    )
    procmem_high_watermark: Percentage = setting(
        PartOfAll(),
        Percentage(50),
        "Part of the machine's memory, or of the cgroup's limit, above which the node by itself is an alarm "
        "`high_process_memory_usage`. EMQX compares each of its many processes with 5%; a node is one.",
    )

    def __post_init__(self) -> None:
        _check_marks(self.cpu_low_watermark, self.cpu_high_watermark, "cpu")


@dataclass(frozen=True, slots=True)
class SysmonVm:
    """When the process of the node is an alarm. A connection is an open file, as it is a process in EMQX."""

    process_check_interval: float = setting(Duration(1.0), 30.0, "How often open files are counted.")
    process_high_watermark: Percentage = setting(
        PartOfAll(),
        Percentage(80),
        "Part of the files that may be open above which there is an alarm `too_many_open_files`.",
    )
    process_low_watermark: Percentage = setting(PartOfAll(), Percentage(60), "Part below which that alarm ends.")
    long_schedule: float | None = setting(
        Unless(Duration(0.01), "disabled"),
        0.24,
        "A turn of the event loop that takes longer, while all others wait, is logged, at most ten times a minute.",
    )

    def __post_init__(self) -> None:
        _check_marks(self.process_low_watermark, self.process_high_watermark, "process")


@dataclass(frozen=True, slots=True)
class SysmonOverload:
    """When the node is overloaded: if one of these is reached in three looks; it ends below 80 % of all of them."""

    check_interval: float = setting(Duration(0.5, 60.0), 1.0, "How often is looked.")
    mean_loop_turn: float | None = setting(
        Unless(Duration(0.01), "disabled"),
        0.1,
        "How long turns of the event loop took on average since the last look: what comes meanwhile waits so long.",
    )
    longest_loop_turn: float | None = setting(
        Unless(Duration(0.01), "disabled"), 2.0, "How long the longest of them took."
    )
    commit_queue: Percentage | None = setting(
        Unless(PartOfAll(), "disabled"),
        Percentage(90),
        "What waits for its commit, as a part of what may (`durable_storage.messages.max_buffered_bytes`).",
    )
    memory: Percentage | None = setting(
        Unless(PartOfAll(), "disabled"), Percentage(90), "Memory of the node, as a part of `node.memory_limit`."
    )
    open_files: Percentage | None = setting(
        Unless(PartOfAll(), "disabled"), Percentage(85), "Open files, as a part of those that may be open."
    )


@dataclass(frozen=True, slots=True)
class SysmonConfig:
    os: SysmonOs = section(SysmonOs, "The machine.")
    vm: SysmonVm = section(SysmonVm, "The process.")
    overload: SysmonOverload = section(SysmonOverload, "When the node is overloaded.")


@dataclass(frozen=True, slots=True)
class ConnCongestion:
    """Connections whose peers do not read what they are sent."""

    enable_alarm: bool = setting(
        Boolean(),
        True,
        "Whether there is an alarm `conn_congestion/<clientid>/<username>` while what a client was sent has not "
        "gone for a second.",
        how=How.LIVE,
    )
    min_alarm_sustain_duration: float = setting(
        Duration(1.0), 60.0, "How long the connection must have been well before that alarm ends.", how=How.LIVE
    )


@dataclass(frozen=True, slots=True)
class OverloadProtection:
    """What is shed while the node is overloaded (`sysmon.overload` says when it is)."""

    enable: bool = setting(
        Boolean(),
        False,
        "Whether anything is shed: requests of operators, new connections, QoS 0 to slow readers, in this order.",
    )
    backoff_delay: int = setting(
        Integer(0, 60_000), 1, "Milliseconds that a CONNECT waits; then it is looked whether the overload goes on."
    )
    backoff_gc: bool = setting(Boolean(), False, "Whether full garbage collections are put off.")
    backoff_hibernation: bool = setting(
        Boolean(), True, "Whether idle durable sessions stay in memory, since to let them go takes time."
    )
    backoff_new_conn: bool = setting(
        Boolean(), True, "Whether a client whose CONNECT has waited in vain is refused with 0x97."
    )


def _check_marks(low: Percentage, high: Percentage, name: str) -> None:
    if low.percent > high.percent:
        raise RefusedError(f"{low.percent}% is above {name}_high_watermark, {high.percent}%", f"{name}_low_watermark")


@dataclass(frozen=True, slots=True)
class SlowSubs:
    """The receivers and topics whose messages take longest."""

    enable: bool = setting(Boolean(), False, "Whether slow subscriptions are looked for.")
    threshold: float = setting(Duration(0.001), 0.5, "What a message may take and not be slow.")
    expire_interval: float = setting(
        Duration(1.0), 300.0, "How long one is listed after the last message that was slow."
    )
    top_k_num: int = setting(Integer(1, TOP_K_MAX), 10, "How many are listed: the slowest.")
    stats_type: str = setting(
        Choice("whole", "internal", "response"),
        "whole",
        "What is measured: `internal` from the publish until the message was sent, `response` from then until it was "
        "acknowledged, `whole` both. At QoS 0 a message is done when it is sent.",
    )


@dataclass(frozen=True, slots=True)
class TopicMetric:
    topic: str = setting(Text("a topic without wildcards"), "", "The topic.")

    def __post_init__(self) -> None:
        fault = topic_name_fault(self.topic, _LEVELS_MAX) if self.topic else None
        if fault is not None:
            raise RefusedError(fault, "topic")


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
class TracesConfig:
    """Traces that `heliograph ctl trace` and the HTTP API start."""

    max_bytes: int = setting(
        Size(_MB),
        1024 * _MB,
        "What the files of ended traces may take together; the oldest go first, and the newest stays.",
    )


@dataclass(frozen=True, slots=True)
class DiagnoseConfig:
    messages: MessageWaysConfig = section(MessageWaysConfig, "The ways of messages.")
    traces: TracesConfig = section(TracesConfig, "Traces of clients, topics, addresses and rules.")

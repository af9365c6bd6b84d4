"""Settings of `opentelemetry`: what is sent to an OpenTelemetry collector, and what is traced."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from heliograph.config.kinds import RateLimit
from heliograph.hocon.values import Content
from heliograph.settings.fields import section, setting
from heliograph.settings.kinds import AnyText, Boolean, Choice, Duration, Integer, Kind, RefusedError, Text, Texts
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Rate

#: What a text is that says a share.
SHARE_PATTERN: Final = r"(?:100(?:\.0{1,9})?|[0-9]{1,2}(?:\.[0-9]{1,9})?)%|0(?:\.[0-9]{1,9})?|1(?:\.0{1,9})?"

_SHARE: Final = re.compile(SHARE_PATTERN)


class SampleRatio(Kind[float]):
    """A share of something, as a percentage or a number."""

    expected = 'a percentage as in "10%" or "0.1%", or a number from 0 to 1'

    def convert(self, value: Content) -> float:
        if isinstance(value, str) and _SHARE.fullmatch(value):
            return float(Decimal(value.removesuffix("%")) / (100 if value.endswith("%") else 1))
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise RefusedError
        return float(value)

    def plain(self, value: float) -> str:
        return f"{(Decimal(str(value)) * 100).normalize():f}%"


@dataclass(frozen=True, slots=True)
class CollectorTls(ClientTls):
    enable: bool = setting(
        Boolean(),
        False,
        "Whether there is TLS with `grpc` where the endpoint has `http`; with `https` there always is.",
    )


@dataclass(frozen=True, slots=True)
class OtelExporterConfig:
    endpoint: str = setting(
        Text("an http or https URL", r"https?://[^/?#\s@]+(/[^?#\s]*)?"),
        "http://localhost:4317",
        "The collector, for `grpc` with host and port only. With `http_protobuf`, `/v1/traces`, `/v1/metrics` and "
        "`/v1/logs` are added to it.",
    )
    protocol: str = setting(
        Choice("grpc", "http_protobuf"), "grpc", "How it is spoken to: OTLP over gRPC or over HTTP, in Protobuf."
    )
    headers: Mapping[str, str] = setting(
        Texts(), {}, "Headers (with gRPC: metadata) of each request, such as a token.", is_secret=True
    )
    ssl_options: CollectorTls = section(CollectorTls, "TLS towards the collector.")

    def __post_init__(self) -> None:
        if self.uses_tls and self.protocol == "grpc" and not self.ssl_options.verify:
            raise RefusedError("over gRPC a collector is always verified: ssl_options.verify has to be verify_peer")

    @property
    def uses_tls(self) -> bool:
        return self.endpoint.startswith("https:") or (self.protocol == "grpc" and self.ssl_options.enable)


@dataclass(frozen=True, slots=True)
class OtelMetricsConfig:
    enable: bool = setting(Boolean(), False, "Whether metrics are exported.")
    interval: float = setting(Duration(0.1), 10.0, "How often.")


@dataclass(frozen=True, slots=True)
class OtelLogsConfig:
    enable: bool = setting(Boolean(), False, "Whether the log is exported.")
    level: str = setting(
        Choice("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"),
        "warning",
        "Least severe entries that are exported. What the log itself does not write at `log.console.level` or "
        "`log.file.level` is not exported either.",
    )
    scheduled_delay: float = setting(Duration(0.01), 1.0, "How long entries are collected for one request.")
    max_queue_size: int = setting(
        Integer(1, 1_000_000), 2048, "Entries that wait to be exported; beyond it the oldest are dropped and counted."
    )
    exporting_timeout: float = setting(Duration(0.1), 30.0, "How long one export may take, with its repetitions.")


@dataclass(frozen=True, slots=True)
class E2eTracingOptions:
    cluster_identifier: str = setting(
        AnyText("a text"), "emqxcl", "The attribute `cluster.id` of each span, which tells clusters apart."
    )
    msg_trace_level: int = setting(
        Integer(0, 2),
        0,
        "How far into the flow of a message spans are made: 0 up to its PUBLISH packets, 1 also PUBACK, 2 also PUBREC, "
        "PUBREL and PUBCOMP.",
    )
    sample_ratio: float = setting(
        SampleRatio(),
        0.1,
        "Which part of connections, subscriptions and messages is traced, besides what is asked for.",
    )
    client_connect_disconnect: bool = setting(Boolean(), False, "Whether connections are traced.")
    client_subscribe_unsubscribe: bool = setting(Boolean(), False, "Whether subscriptions are traced.")
    client_messaging: bool = setting(Boolean(), False, "Whether messages are traced.")
    clientid_match_rules_max: int = setting(Integer(1, 10_000), 30, "Client ids on the list of those that are traced.")
    topic_match_rules_max: int = setting(Integer(1, 10_000), 30, "Topic filters on the list of those that are traced.")
    follow_traceparent: bool = setting(
        Boolean(), True, "Whether a message is traced that a trace of its publisher holds, as its `traceparent` says."
    )
    follow_rate: Rate = setting(
        RateLimit(),
        Rate(1000, 1.0),
        "How many messages are traced at the most because their publishers say so; beyond it they count like others.",
    )


@dataclass(frozen=True, slots=True)
class OtelTraceFilter:
    trace_mode: str = setting(
        Choice("legacy", "e2e"),
        "legacy",
        "`legacy`: two kinds of spans, for messages that carry a trace context. `e2e`: what clients do, from end to "
        "end, by ratio and lists.",
    )
    trace_all: bool = setting(
        Boolean(), False, "In `legacy` mode, whether messages without a trace context are traced too."
    )
    e2e_tracing_options: E2eTracingOptions = section(E2eTracingOptions, "What is traced in `e2e` mode.")


@dataclass(frozen=True, slots=True)
class OtelTracesConfig:
    enable: bool = setting(Boolean(), False, "Whether traces are made and exported.")
    max_queue_size: int = setting(
        Integer(1, 1_000_000), 2048, "Spans that wait to be exported; beyond it the oldest are dropped and counted."
    )
    scheduled_delay: float = setting(Duration(0.01), 5.0, "How long spans are collected for one request.")
    exporting_timeout: float = setting(Duration(0.1), 30.0, "How long one export may take, with its repetitions.")
    filter: OtelTraceFilter = section(OtelTraceFilter, "What is traced.")


@dataclass(frozen=True, slots=True)
class OpenTelemetryConfig:
    exporter: OtelExporterConfig = section(OtelExporterConfig, "The collector.")
    metrics: OtelMetricsConfig = section(OtelMetricsConfig, "Metrics.")
    logs: OtelLogsConfig = section(OtelLogsConfig, "The log.")
    traces: OtelTracesConfig = section(OtelTracesConfig, "Traces.")

"""What a run shows: progress while it goes on, the result as text and as JSON. Nothing is measured here."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from heliograph_bench.endpoint import Transport
from heliograph_bench.latency import Latencies
from heliograph_bench.workload import Shape, Workload

# Above this share of a core the tool, not the broker, may be what limits the figures.
TOOL_BUSY: Final = 0.9

_VERSION_NAMES: Final = {4: "3.1.1", 5: "5"}


@dataclass(frozen=True)
class RunProgress:
    """Counters after some seconds of the run, or (`since`) the rates of the last interval."""

    seconds: float
    sent: float
    acked: float
    received: float
    connections: int

    def since(self, last: "RunProgress") -> "RunProgress":
        """The rates per second since `last`, at this progress's time."""
        span = self.seconds - last.seconds
        sent = (self.sent - last.sent) / span
        acked = (self.acked - last.acked) / span
        return RunProgress(self.seconds, sent, acked, (self.received - last.received) / span, self.connections)

    def line(self) -> str:
        return (
            f"{self.seconds:5.0f} s  sent {self.sent:>11,.0f}/s  acknowledged {self.acked:>11,.0f}/s  "
            f"received {self.received:>11,.0f}/s  connections {self.connections}"
        )


@dataclass
class Result:
    """Everything a run found out; filled by the run that owns it, complete after `finish`."""

    workload: Workload
    latencies: Latencies
    connect_latencies: Latencies
    connected: int = 0
    connect_seconds: float = 0.0
    sent: int = 0
    acked: int = 0
    rejected: int = 0
    received: int = 0
    expected: int | None = None
    seconds: float = 0.0
    tool_cpu: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def lost(self) -> int:
        """Messages that subscribers of this run should have got and did not."""
        return max((self.expected or 0) - self.received, 0)

    @property
    def ok(self) -> bool:
        """No connection was refused or lost, no message refused, and no acknowledged message is missing."""
        return not self.failures and not self.rejected and not (self.workload.qos and self.lost)

    def finish(self, started_us: int, first_us: int, last_us: int, wall_s: float) -> None:
        """Settle how long the messages took: from the first to the last, not the time spent looking for more."""
        began_us = first_us if self.workload.shape is Shape.SUB and first_us else started_us
        self.seconds = (last_us - began_us) / 1e6 if last_us > began_us else wall_s

    def per_second(self, messages: int) -> float:
        return messages / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, object]:
        """The result for programs; times in `_us` are microseconds, `tool_cpu` is a share of one core."""
        workload = self.workload
        return {
            "shape": str(workload.shape),
            "publishers": workload.publishers,
            "subscribers": workload.subscribers,
            "idle": workload.idle,
            "qos": workload.qos,
            "payload_bytes": workload.payload_bytes,
            "window": workload.window,
            "mqtt": _VERSION_NAMES[workload.version],
            "transport": str(workload.transport),
            "connected": self.connected,
            "connect_seconds": round(self.connect_seconds, 6),
            "connect_per_s": round(self.connected / self.connect_seconds, 1) if self.connect_seconds else 0.0,
            "connect_latency_us": self.connect_latencies.statistics(),
            "seconds": round(self.seconds, 6),
            "sent": self.sent,
            "acknowledged": self.acked,
            "rejected": self.rejected,
            "received": self.received,
            "expected": self.expected,
            "lost": self.lost,
            "sent_per_s": round(self.per_second(self.sent), 1),
            "received_per_s": round(self.per_second(self.received), 1),
            "latency_us": self.latencies.statistics() if self.latencies.count else None,
            "tool_cpu": round(self.tool_cpu, 3),
            "failures": dict(self.failures),
        }

    def text(self) -> str:
        workload = self.workload
        lines = [_headline(workload)]
        lines.append(
            _row("connected", f"{self.connected:,} clients in {self.connect_seconds:.2f} s", self._connect_rate())
        )
        if self.seconds:
            lines += self._measured()
        lines += [_row("FAILED", f"{times:,} × {cause}") for cause, times in self.failures.most_common()]
        return "\n".join(lines)

    def _measured(self) -> list[str]:
        workload = self.workload
        lines = []
        if workload.shape is Shape.CONNECT:
            lines.append(_row("handshake", _latency_text(self.connect_latencies)))
        if workload.publishers:
            lines.append(_row("sent", f"{self.sent:,}", f"{self.per_second(self.sent):,.0f}/s"))
            if workload.qos:
                refused = f", {self.rejected:,} refused" if self.rejected else ""
                lines.append(_row("acknowledged", f"{self.acked:,}{refused}", f"{self.per_second(self.acked):,.0f}/s"))
        if workload.shape is Shape.PUB and workload.qos:
            lines.append(_row("latency", f"{_latency_text(self.latencies)} (to the acknowledgement)"))
        if workload.subscribers:
            lost = f", {self.lost:,} of {self.expected:,} missing" if self.lost else ""
            lines.append(_row("received", f"{self.received:,}{lost}", f"{self.per_second(self.received):,.0f}/s"))
            lines.append(_row("latency", _latency_text(self.latencies)))
        if workload.shape is not Shape.CONNECT:
            is_limit = self.tool_cpu >= TOOL_BUSY and not workload.precise
            busy = " (it may be what limits the figures)" if is_limit else ""
            lines.append(_row("time", f"{self.seconds:.2f} s, this tool used {self.tool_cpu:.0%} of a core{busy}"))
        return lines

    def _connect_rate(self) -> str:
        return f"{self.connected / self.connect_seconds:,.0f}/s" if self.connect_seconds else ""


def _headline(workload: Workload) -> str:
    clients = [
        f"{number:,} {role}{'s' if number > 1 and role != 'idle' else ''}"
        for role, number in (
            ("publisher", workload.publishers),
            ("subscriber", workload.subscribers),
            ("idle", workload.idle),
        )
        if number
    ]
    if workload.shape is Shape.CONNECT:
        return f"{workload.shape}: {', '.join(clients)}, {_protocol(workload)}"
    window = f" (window {workload.window})" if workload.qos and workload.publishers else ""
    size = f", {workload.payload_bytes} bytes" if workload.publishers else ""
    pace = ""
    if workload.publishers:
        pace = f", {workload.rate:g} messages/s each" if workload.rate else ", as fast as the broker takes them"
    return f"{workload.shape}: {', '.join(clients)}, QoS {workload.qos}{window}{size}, {_protocol(workload)}{pace}"


def _protocol(workload: Workload) -> str:
    over = "" if workload.transport is Transport.TCP else f" over {workload.transport}"
    return f"MQTT {_VERSION_NAMES[workload.version]}{over}"


def _row(name: str, text: str, rate: str = "") -> str:
    return f"  {name:<13}{text:<34}{rate}".rstrip()


def _latency_text(latencies: Latencies) -> str:
    if not latencies.count:
        return "no message carried a timestamp"
    return ", ".join(f"{name} {_duration(value)}" for name, value in latencies.statistics().items())


def _duration(microseconds: int) -> str:
    if microseconds < 1000:
        return f"{microseconds} µs"
    if microseconds < 1_000_000:
        return f"{microseconds / 1000:.1f} ms"
    return f"{microseconds / 1e6:.2f} s"

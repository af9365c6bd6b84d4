"""Settings of `log`: where the log and the audit log go, in which form, and from which severity on."""

from dataclasses import dataclass

from heliograph.settings.fields import How, section, setting
from heliograph.settings.kinds import Boolean, Choice, Duration, Integer, Size, Text, Unless

_KB = 1024
_MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogTargetConfig:
    enable: bool = setting(Boolean(), True, "Whether the log goes there.")
    level: str = setting(
        Choice("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"),
        "info",
        "Least severe entries that are written.",
    )
    formatter: str = setting(Choice("text", "json"), "text", "Lines for people, or one object of JSON for each.")
    timestamp_format: str = setting(
        Choice("auto", "epoch", "rfc3339"),
        "auto",
        "How the time is written: microseconds since 1970 (`epoch`), or date and time; `auto` is that with a blank "
        "between them in text, and `rfc3339` in JSON.",
    )
    time_offset: str = setting(
        Text('system, utc, or an offset as in "+02:00"', r"system|utc|[+-][0-9]{2}:[0-9]{2}"),
        "system",
        "The time zone of dates and times.",
    )


@dataclass(frozen=True, slots=True)
class LogFileConfig(LogTargetConfig):
    enable: bool = setting(Boolean(), False, "Whether the log goes there.")
    path: str = setting(Text("a file"), "log/heliograph.log", "The file; a relative path is one in the data directory.")
    rotation_size: int | None = setting(
        Unless(Size(_KB), "infinity"), 50 * _MB, "From which size on the file is renamed and a new one begun."
    )
    rotation_count: int = setting(
        Integer(1, 2048), 10, "Files that are kept, the present one among them; older ones are deleted."
    )


@dataclass(frozen=True, slots=True)
class AuditLogConfig:
    """The audit log: who changed what, in `audit.log` of the data directory."""

    enable: bool = setting(
        Boolean(), True, "Whether changes of the configuration and actions of operators are written down.", how=How.LIVE
    )
    rotation_size: int = setting(
        Size(64 * 1024),
        50 * 1024 * 1024,
        "Size at which the file is put aside as `audit.log.1` and a new one begun.",
        how=How.LIVE,
    )
    rotation_interval: float | None = setting(
        Unless(Duration(3600.0), "infinity"),
        None,
        "How long lines go to one file: with `1d` the first line of a day, in UTC, begins a new file. `infinity`: by "
        "size only.",
        how=How.LIVE,
    )
    rotation_count: int = setting(
        Integer(1, 1_000),
        10,
        "Files that are kept beside the newest; of older ones the last line of each caller.",
        how=How.LIVE,
    )


@dataclass(frozen=True, slots=True)
class LogConfig:
    console: LogTargetConfig = section(LogTargetConfig, "The log on standard error.")
    file: LogFileConfig = section(LogFileConfig, "The log in a file.")
    audit: AuditLogConfig = section(AuditLogConfig, "Who changed what.")

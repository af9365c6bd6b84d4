"""Settings of the audit log."""

from dataclasses import dataclass

from heliograph.settings.fields import setting
from heliograph.settings.how import How
from heliograph.settings.kinds import Boolean, Integer, Size


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
    rotation_count: int = setting(Integer(1, 1_000), 10, "Files that are kept beside the newest.", how=How.LIVE)

"""What every source of authorization has."""

from dataclasses import dataclass

from heliograph.settings.fields import setting
from heliograph.settings.kinds import Boolean


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """One source of rules; its class adds `type`, of one valid word."""

    enable: bool = setting(Boolean(), True, "Whether it is asked.")

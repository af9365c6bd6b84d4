"""Settings of connectors and actions of the type `disk_log`."""

from dataclasses import dataclass

from heliograph.config.actions.interface import ActionConfig, ConnectorConfig, SentTemplate, ignored
from heliograph.settings.fields import required, section, setting
from heliograph.settings.kinds import Choice, Integer, NodePath, Size


@dataclass(frozen=True, kw_only=True)
class DiskLogConnectorConfig(ConnectorConfig):
    filepath: str = required(
        NodePath(),
        "Beginning of the names of the files, which end with `.1`, `.2`, ...; a relative one lies in `disk_log` of "
        "`pipeline.output`. Only callers that may change the configuration name an absolute one.",
    )
    max_file_size: int = required(Size(1), "Bytes of a file at most; then the next one is written.")
    max_file_number: int = required(Integer(1, 100_000), "How many files there are; then the first is written again.")


@dataclass(frozen=True, kw_only=True)
class DiskLogParameters:
    template: str = setting(SentTemplate(), "${.}", "Template of a line.")
    write_mode: str = ignored(Choice("sync", "async"), "sync", "each batch is forced to the disk before it counts")


@dataclass(frozen=True, kw_only=True)
class DiskLogAction(ActionConfig):
    parameters: DiskLogParameters = section(DiskLogParameters, "The line.")

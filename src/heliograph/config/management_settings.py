"""What a node tells the management process of its configuration: one line of JSON, on that process's standard input."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from heliograph.config.management import ApiKeyConfig, DashboardConfig, ManagementConfig
from heliograph.config.opentelemetry import OpenTelemetryConfig
from heliograph.config.prometheus import PrometheusConfig
from heliograph.settings.outbound import OutboundConfig

if TYPE_CHECKING:
    from heliograph.config.settings import Config


@dataclass(frozen=True, slots=True)
class ManagementSettings:
    """What the management process goes by. It has secrets: it is for that process only."""

    node_name: str
    data_dir: str
    management: ManagementConfig
    dashboard: DashboardConfig
    api_key: ApiKeyConfig
    prometheus: PrometheusConfig
    opentelemetry: OpenTelemetryConfig
    outbound: OutboundConfig


def settings_line(config: "Config", data_dir: Path) -> bytes:
    """What a node says, without the end of the line."""
    settings = ManagementSettings(
        config.node.name,
        str(data_dir.resolve()),
        config.management,
        config.dashboard,
        config.api_key,
        config.prometheus,
        config.opentelemetry,
        config.outbound,
    )
    return _encoder.encode(settings)


def read_settings_line(line: bytes) -> ManagementSettings:
    """Raises `msgspec.DecodeError` if the line is not what a node of this version says."""
    return _decoder.decode(line)


def _encodable(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


def _decoded(kind: type, value: object) -> object:
    if kind is Path:
        return Path(str(value))
    raise NotImplementedError(kind)


_encoder: Final = msgspec.json.Encoder(enc_hook=_encodable)
_decoder: Final = msgspec.json.Decoder(ManagementSettings, dec_hook=_decoded)

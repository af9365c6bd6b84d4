"""The typed configuration: its schema, its layers, and its description.

`settings` holds every setting; the language that files are written in is `heliograph.hocon`.
"""

from heliograph.config.description import describe
from heliograph.config.errors import ConfigError, Problem
from heliograph.config.loading import environment_name, known_overrides, load_config
from heliograph.config.settings import (
    BrokerConfig,
    Config,
    DurableStorageConfig,
    FlightConfig,
    LayoutConfig,
    Listeners,
    LogConfig,
    MessagesConfig,
    MqttConfig,
    NodeConfig,
    RetainerConfig,
    TcpListener,
)
from heliograph.config.units import Address

__all__ = [
    "Address",
    "BrokerConfig",
    "Config",
    "ConfigError",
    "DurableStorageConfig",
    "FlightConfig",
    "LayoutConfig",
    "Listeners",
    "LogConfig",
    "MessagesConfig",
    "MqttConfig",
    "NodeConfig",
    "Problem",
    "RetainerConfig",
    "TcpListener",
    "describe",
    "environment_name",
    "known_overrides",
    "load_config",
]

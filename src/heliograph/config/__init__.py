"""The typed configuration: its schema, its layers, and its description.

`settings` holds every setting; the language that files are written in is `heliograph.hocon`.
"""

from heliograph.config.access import Authorization, AuthorizationCache
from heliograph.config.description import describe
from heliograph.config.errors import ConfigError, Problem
from heliograph.config.listeners import Listeners, TcpListener
from heliograph.config.loading import environment_name, known_overrides, load_config
from heliograph.config.mqtt import BrokerConfig, ForceShutdown, MqttConfig
from heliograph.config.retainer import RetainerConfig
from heliograph.config.services import (
    AutoSubscribe,
    AutoSubscribeTopic,
    Banned,
    Delayed,
    EventMessage,
    FlappingDetect,
    RewriteRule,
    SysEventMessages,
    SysTopics,
)
from heliograph.config.settings import Config, LogConfig, NodeConfig, Zone
from heliograph.config.storage import DurableStorageConfig, FlightConfig, LayoutConfig, MessagesConfig, StateConfig
from heliograph.config.units import Address

__all__ = [
    "Address",
    "Authorization",
    "AuthorizationCache",
    "AutoSubscribe",
    "AutoSubscribeTopic",
    "Banned",
    "BrokerConfig",
    "Config",
    "ConfigError",
    "Delayed",
    "DurableStorageConfig",
    "EventMessage",
    "FlappingDetect",
    "FlightConfig",
    "ForceShutdown",
    "LayoutConfig",
    "Listeners",
    "LogConfig",
    "MessagesConfig",
    "MqttConfig",
    "NodeConfig",
    "Problem",
    "RetainerConfig",
    "RewriteRule",
    "StateConfig",
    "SysEventMessages",
    "SysTopics",
    "TcpListener",
    "Zone",
    "describe",
    "environment_name",
    "known_overrides",
    "load_config",
]

"""The typed configuration: its schema, its layers, and its description.

`settings` holds every setting; the language of files is `heliograph.hocon`. What is exported is imported
at its first use: the process of the HTTP API reads a few settings, and does not pay for the memory of all.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heliograph.config.names import *

__all__ = [
    "Address",
    "AddressLimits",
    "Authorization",
    "AuthorizationCache",
    "AutoSubscribe",
    "AutoSubscribeTopic",
    "Banned",
    "BrokerConfig",
    "ClientAttribute",
    "Config",
    "ConfigError",
    "ConsoleAction",
    "Delayed",
    "DurableStorageConfig",
    "EventMessage",
    "FlappingDetect",
    "FlightConfig",
    "ForceShutdown",
    "Layers",
    "LayoutConfig",
    "Listeners",
    "LogConfig",
    "LogFailure",
    "LogFileConfig",
    "LogTargetConfig",
    "MessagePolicy",
    "MessageTransformationConfig",
    "MessagesConfig",
    "MqttConfig",
    "NamedAction",
    "NodeConfig",
    "Operation",
    "PayloadCoding",
    "PipelineAction",
    "PipelineConfig",
    "Problem",
    "RepublishAction",
    "RetainerConfig",
    "RewriteRule",
    "RuleConfig",
    "RuleEngineConfig",
    "SchemaConfig",
    "SchemaRegistryConfig",
    "SchemaValidationConfig",
    "SlowSubs",
    "Sources",
    "SparkplugConfig",
    "StateConfig",
    "SysEventMessages",
    "SysTopics",
    "TcpListener",
    "TopicMetric",
    "Transformation",
    "Validation",
    "ValidationCheck",
    "Zone",
    "config_of",
    "describe",
    "environment_name",
    "load_config",
]


def __getattr__(name: str) -> object:
    """A name that is exported; all of them are imported with the first."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    names = import_module("heliograph.config.names")
    globals().update({one: getattr(names, one) for one in __all__})
    return globals()[name]

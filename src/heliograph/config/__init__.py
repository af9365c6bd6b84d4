"""The typed configuration: its schema, its layers, and its description.

`settings` holds every setting; the language that files are written in is `heliograph.hocon`.
"""

from heliograph.config.access import Authorization, AuthorizationCache
from heliograph.config.client_attrs import ClientAttribute
from heliograph.config.description import describe
from heliograph.config.layers import Layers, Sources
from heliograph.config.listeners import Listeners, TcpListener
from heliograph.config.loading import config_of, environment_name, load_config
from heliograph.config.log import LogConfig, LogFileConfig, LogTargetConfig
from heliograph.config.message_policies import LogFailure, MessagePolicy
from heliograph.config.message_transformation import (
    MessageTransformationConfig,
    Operation,
    PayloadCoding,
    Transformation,
)
from heliograph.config.mqtt import BrokerConfig, ForceShutdown, MqttConfig
from heliograph.config.pipeline import PipelineConfig
from heliograph.config.retainer import RetainerConfig
from heliograph.config.rules import ConsoleAction, PipelineAction, RepublishAction, RuleConfig, RuleEngineConfig
from heliograph.config.schema_validation import SchemaValidationConfig, Validation, ValidationCheck
from heliograph.config.schemas import SchemaConfig, SchemaRegistryConfig, SparkplugConfig
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
from heliograph.config.settings import Config, NodeConfig, Zone
from heliograph.config.storage import DurableStorageConfig, FlightConfig, LayoutConfig, MessagesConfig, StateConfig
from heliograph.settings.errors import ConfigError, Problem
from heliograph.settings.units import Address

__all__ = [
    "Address",
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
    "Sources",
    "SparkplugConfig",
    "StateConfig",
    "SysEventMessages",
    "SysTopics",
    "TcpListener",
    "Transformation",
    "Validation",
    "ValidationCheck",
    "Zone",
    "config_of",
    "describe",
    "environment_name",
    "load_config",
]

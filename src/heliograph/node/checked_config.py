"""What layers say, with all that only the languages in a configuration can find wrong."""

from collections.abc import Iterator, Mapping

from heliograph.config.backends.sql import SqlConnection
from heliograph.config.contradictions import open_listener_faults
from heliograph.config.layers import Layers
from heliograph.config.listeners import enabled
from heliograph.config.loading import config_of
from heliograph.config.settings import Config
from heliograph.node.file_faults import file_faults

Fault = tuple[tuple[str, ...], str]


def checked_config(layers: Layers, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration of a node, or a `ConfigError` with every problem; may be called in a thread."""
    return config_of(layers, (open_listener_faults, language_faults), environ)


def startable_config(layers: Layers) -> Config:
    """One that a node can start with too; reads files. Raises `ConfigError` with every problem."""
    return config_of(layers, (open_listener_faults, language_faults, file_faults))


def language_faults(config: Config) -> Iterator[Fault]:
    """The path of each setting that a language or a schema finds wrong, and why.

    A language is loaded where a configuration uses it: the start of a node that has no rules does not wait for theirs.
    """
    if config.schema_registry.schemas or config.schema_registry.external:
        from heliograph.rules.schemas.configured import schema_faults

        yield from schema_faults(config)
    if any(mqtt.client_attrs_init for mqtt in (config.mqtt, *(zone.mqtt for zone in config.zones.values()))):
        from heliograph.rules.client_attrs import client_attribute_faults

        yield from client_attribute_faults(config)
    if config.authentication or any(listener.authentication for _, _, listener in enabled(config.listeners)):
        from heliograph.access.faults import authentication_faults

        yield from authentication_faults(config)
    if any(isinstance(source, SqlConnection) for source in config.authorization.sources):
        from heliograph.access.faults import source_faults

        yield from source_faults(config)
    if config.schema_validation.validations or config.message_transformation.transformations:
        from heliograph.message_policies.faults import policy_faults

        yield from policy_faults(config)
    if config.rule_engine.rules:
        from heliograph.rules.engine.faults import rule_faults

        yield from rule_faults(config)

"""What layers say, with all that only the languages in a configuration can find wrong."""

from collections.abc import Mapping
from typing import Final

from heliograph.config import Config, Layers, config_of
from heliograph.message_policies.faults import policy_faults
from heliograph.node.file_faults import file_faults
from heliograph.rules.client_attrs import client_attribute_faults
from heliograph.rules.engine.faults import rule_faults
from heliograph.rules.schemas.configured import schema_faults

_CHECKS: Final = (schema_faults, client_attribute_faults, policy_faults, rule_faults)


def checked_config(layers: Layers, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration of a node; may be called in a thread.

    Args:
        environ: Where variables are that a warning tells to have no meaning; None for no warning.

    Raises:
        ConfigError: With every problem that was found.
    """
    return config_of(layers, _CHECKS, environ)


def startable_config(layers: Layers) -> Config:
    """The configuration of a node that runs, which has to be one that it can start with too; reads files.

    Raises:
        ConfigError: With every problem that was found.
    """
    return config_of(layers, (*_CHECKS, file_faults))

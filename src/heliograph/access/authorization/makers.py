"""From settings to sources: which module makes those of a type. A module is loaded when it is needed."""

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from heliograph.access.authorization.interface import AuthorizationSource, SourceSurroundings
from heliograph.config.authorization.built_in_database import BuiltInDatabaseSourceConfig
from heliograph.config.authorization.file import FileSourceConfig
from heliograph.config.authorization.http import HttpSourceConfig
from heliograph.config.authorization.ldap import LdapSourceConfig
from heliograph.config.authorization.mongodb import MongoSourceConfig
from heliograph.config.authorization.mysql import MysqlSourceConfig
from heliograph.config.authorization.postgresql import PostgresqlSourceConfig
from heliograph.config.authorization.redis import RedisSourceConfig
from heliograph.config.authorization.source import SourceConfig

# The modules of this package by the kinds of settings; each has `make(settings, surroundings) -> AuthorizationSource`.
_MODULES: Final[Mapping[type[SourceConfig], str]] = MappingProxyType(
    {
        FileSourceConfig: "file",
        BuiltInDatabaseSourceConfig: "built_in_database",
        HttpSourceConfig: "http",
        MysqlSourceConfig: "sql",
        PostgresqlSourceConfig: "sql",
        MongoSourceConfig: "mongodb",
        RedisSourceConfig: "redis",
        LdapSourceConfig: "ldap",
    }
)


def make_source(settings: SourceConfig, surroundings: SourceSurroundings) -> AuthorizationSource:
    """A source that is not started.

    Raises:
        Exception: Its settings cannot be used, as the maker says.
    """
    module: Any = importlib.import_module(f"{__package__}.{_MODULES[type(settings)]}")
    made = module.make(settings, surroundings)
    assert isinstance(made, AuthorizationSource)
    return made

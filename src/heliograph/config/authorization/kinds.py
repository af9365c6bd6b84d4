"""Which sources of authorization there are: the kinds of `authorization.sources`."""

from typing import Any, Final

from heliograph.config.authorization.built_in_database import BuiltInDatabaseSourceConfig
from heliograph.config.authorization.file import FileSourceConfig
from heliograph.config.authorization.http import HttpSourceConfig
from heliograph.config.authorization.ldap import LdapSourceConfig
from heliograph.config.authorization.mongodb import MongoSourceConfig
from heliograph.config.authorization.mysql import MysqlSourceConfig
from heliograph.config.authorization.postgresql import PostgresqlSourceConfig
from heliograph.config.authorization.redis import RedisSourceConfig
from heliograph.config.authorization.source import SourceConfig
from heliograph.settings.fields import ListOfVariants

# One line for each kind, in the order of the documents.
_MODELS: Final[tuple[type[Any], ...]] = (
    FileSourceConfig,
    BuiltInDatabaseSourceConfig,
    HttpSourceConfig,
    MysqlSourceConfig,
    PostgresqlSourceConfig,
    MongoSourceConfig,
    RedisSourceConfig,
    LdapSourceConfig,
)

SOURCES: Final = ListOfVariants(_MODELS, ("type",))


def source_type(settings: SourceConfig) -> str:
    """The type of a source, as `mysql`."""
    return SOURCES.name_of(type(settings))

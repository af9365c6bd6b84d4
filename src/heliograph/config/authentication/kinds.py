"""Which authenticators there are: the kinds of `authentication` and of a listener's own chain."""

from typing import Any, Final

from heliograph.config.authentication.built_in_database import BuiltInDatabaseConfig, ScramConfig
from heliograph.config.authentication.cinfo import CinfoConfig
from heliograph.config.authentication.gssapi import GssapiConfig
from heliograph.config.authentication.http import HttpConfig, ScramHttpConfig
from heliograph.config.authentication.jwt import JwtConfig
from heliograph.config.authentication.ldap import LdapAuthenticatorConfig
from heliograph.config.authentication.mongodb import MongoAuthenticatorConfig
from heliograph.config.authentication.mysql import MysqlAuthenticatorConfig
from heliograph.config.authentication.postgresql import PostgresqlAuthenticatorConfig
from heliograph.config.authentication.redis import RedisAuthenticatorConfig
from heliograph.settings.fields import ListOfVariants

_TAGS: Final = ("mechanism", "backend")

# One line for each kind, in the order of the documents.
_MODELS: Final[tuple[type[Any], ...]] = (
    BuiltInDatabaseConfig,
    MysqlAuthenticatorConfig,
    PostgresqlAuthenticatorConfig,
    HttpConfig,
    MongoAuthenticatorConfig,
    RedisAuthenticatorConfig,
    LdapAuthenticatorConfig,
    JwtConfig,
    ScramConfig,
    ScramHttpConfig,
    CinfoConfig,
    GssapiConfig,
)

AUTHENTICATORS: Final = ListOfVariants(_MODELS, _TAGS)
LISTENER_AUTHENTICATORS: Final = ListOfVariants(_MODELS, _TAGS, described_at="authentication")

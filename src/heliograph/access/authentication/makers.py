"""From settings to authenticators: which module makes those of a kind. A module is loaded when it is needed."""

import importlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from heliograph.access.authentication.interface import Authenticator, Surroundings
from heliograph.config.authentication.authenticator import AuthenticatorConfig
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

# The modules of this package by the kinds of settings; each has `make(settings, surroundings) -> Authenticator`.
_MODULES: Final[Mapping[type[AuthenticatorConfig], str]] = MappingProxyType(
    {
        BuiltInDatabaseConfig: "built_in_database",
        MysqlAuthenticatorConfig: "sql",
        PostgresqlAuthenticatorConfig: "sql",
        HttpConfig: "http",
        MongoAuthenticatorConfig: "mongodb",
        RedisAuthenticatorConfig: "redis",
        LdapAuthenticatorConfig: "ldap",
        JwtConfig: "jwt",
        ScramConfig: "scram",
        ScramHttpConfig: "scram_http",
        CinfoConfig: "cinfo",
        GssapiConfig: "gssapi",
    }
)


def load_makers(wanted: Iterable[AuthenticatorConfig]) -> None:
    """Load what makes authenticators of settings, libraries too; takes long, and may be called in a thread."""
    for settings in wanted:
        importlib.import_module(f"{__package__}.{_MODULES[type(settings)]}")
        if isinstance(settings, JwtConfig) and settings.use_jwks:
            importlib.import_module(f"{__package__}.jwks")


def make_authenticator(settings: AuthenticatorConfig, surroundings: Surroundings) -> Authenticator:
    """An authenticator that is not started.

    Raises:
        Exception: Its settings cannot be used, as the maker says.
    """
    module: Any = importlib.import_module(f"{__package__}.{_MODULES[type(settings)]}")
    made = module.make(settings, surroundings)
    assert isinstance(made, Authenticator)
    return made

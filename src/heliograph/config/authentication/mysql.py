"""Settings of the authenticator `password_based:mysql`."""

from dataclasses import dataclass

from heliograph.config.authentication.authenticator import AuthenticatorConfig
from heliograph.config.backends.sql import QUERY, MysqlConnection
from heliograph.config.passwords import PasswordHashAlgorithm
from heliograph.settings.fields import required, section, setting
from heliograph.settings.kinds import Choice


@dataclass(frozen=True, kw_only=True)
class MysqlAuthenticatorConfig(AuthenticatorConfig, MysqlConnection):
    """Users in MySQL or MariaDB."""

    mechanism: str = setting(Choice("password_based"), "password_based", "Which authenticator it is, with `backend`.")
    backend: str = setting(Choice("mysql"), "mysql", "Where the users are.")
    query: str = required(
        QUERY,
        "What gives the user's row: `password_hash` (or `password`), and if wanted `salt` and `is_superuser`. "
        "Placeholders are parameters, without quotes.",
    )
    password_hash_algorithm: PasswordHashAlgorithm = section(PasswordHashAlgorithm, "How the passwords are hashed.")

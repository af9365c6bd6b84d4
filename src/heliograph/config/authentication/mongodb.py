"""Settings of the authenticator `password_based:mongodb`."""

from dataclasses import dataclass

from heliograph.config.authentication.authenticator import AuthenticatorConfig
from heliograph.config.backends.mongodb import MongoConnection
from heliograph.config.passwords import PasswordHashAlgorithm
from heliograph.settings.fields import section, setting
from heliograph.settings.kinds import Choice, Text


@dataclass(frozen=True, kw_only=True)
class MongoAuthenticatorConfig(AuthenticatorConfig, MongoConnection):
    """Users in documents of MongoDB."""

    mechanism: str = setting(Choice("password_based"), "password_based", "Which authenticator it is, with `backend`.")
    backend: str = setting(Choice("mongodb"), "mongodb", "Where the users are.")
    password_hash_field: str = setting(Text("the name of a field"), "password_hash", "Where a document has the hash.")
    salt_field: str = setting(Text("the name of a field"), "salt", "Where it has the salt.")
    is_superuser_field: str = setting(
        Text("the name of a field"), "is_superuser", "Where it says whether the user may do everything."
    )
    password_hash_algorithm: PasswordHashAlgorithm = section(PasswordHashAlgorithm, "How the passwords are hashed.")

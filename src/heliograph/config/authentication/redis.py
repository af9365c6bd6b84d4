"""Settings of the authenticator `password_based:redis`."""

from dataclasses import dataclass

from heliograph.config.authentication.authenticator import AuthenticatorConfig
from heliograph.config.backends.redis import RedisCommand, RedisCommandText, RedisConnection
from heliograph.config.passwords import PasswordHashAlgorithm
from heliograph.settings.fields import required, section, setting
from heliograph.settings.kinds import Choice


@dataclass(frozen=True, kw_only=True)
class RedisAuthenticatorConfig(AuthenticatorConfig, RedisConnection):
    """Users in hashes of Redis."""

    mechanism: str = setting(Choice("password_based"), "password_based", "Which authenticator it is, with `backend`.")
    backend: str = setting(Choice("redis"), "redis", "Where the users are.")
    cmd: RedisCommand = required(
        RedisCommandText(
            RedisCommand.of_user,
            'HGET KEY FIELD or HMGET KEY FIELD .., as in "HMGET user:${username} password_hash salt"',
        ),
        "What gives the user: of the fields `password_hash`, `password`, `salt` and `is_superuser` at least one of the "
        "first two. The key may have placeholders.",
    )
    password_hash_algorithm: PasswordHashAlgorithm = section(PasswordHashAlgorithm, "How the passwords are hashed.")

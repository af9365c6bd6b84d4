"""The authenticator `password_based:redis`: users in hashes of Redis."""

from collections.abc import Sequence

from heliograph.access.authentication.interface import Surroundings
from heliograph.access.authentication.stored_user import StoredUser, StoredUserAuthenticator
from heliograph.access.backends.redis import Redis
from heliograph.access.templates import Template, Values
from heliograph.access.templates.template import warn_of_unknown
from heliograph.access.templates.values import AUTHENTICATION_NAMES
from heliograph.config.authentication import RedisAuthenticatorConfig


class RedisAuthenticator(StoredUserAuthenticator):
    def __init__(self, settings: RedisAuthenticatorConfig, surroundings: Surroundings) -> None:
        super().__init__("password_based:redis", settings.password_hash_algorithm, surroundings)
        self._redis = Redis(surroundings.backend_name(self.id), settings, surroundings.backends)
        self.backend = self._redis.pool
        self._command = settings.cmd
        self._key = Template(settings.cmd.key, AUTHENTICATION_NAMES)
        warn_of_unknown(self._redis.pool.name, self._key.unknown)

    def asked_names(self) -> Sequence[str]:
        return self._key.names

    async def find(self, values: Values) -> StoredUser | None:
        fields = await self._redis.fields(self._command, self._key.render(values))
        return StoredUser.of_row(fields) if fields else None


def make(settings: RedisAuthenticatorConfig, surroundings: Surroundings) -> RedisAuthenticator:
    return RedisAuthenticator(settings, surroundings)

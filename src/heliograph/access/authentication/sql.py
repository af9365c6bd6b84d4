"""The authenticators `password_based:mysql` and `password_based:postgresql`: users in rows of a database."""

from collections.abc import Sequence

from heliograph.access.authentication.interface import Surroundings
from heliograph.access.authentication.stored_user import StoredUser, StoredUserAuthenticator
from heliograph.access.backends.databases import sql_backend
from heliograph.access.templates import TemplateError, Values
from heliograph.access.templates.values import AUTHENTICATION_NAMES
from heliograph.config.authentication import MysqlAuthenticatorConfig, PostgresqlAuthenticatorConfig


class SqlAuthenticator(StoredUserAuthenticator):
    def __init__(
        self, settings: MysqlAuthenticatorConfig | PostgresqlAuthenticatorConfig, surroundings: Surroundings
    ) -> None:
        super().__init__(f"{settings.mechanism}:{settings.backend}", settings.password_hash_algorithm, surroundings)
        name = surroundings.backend_name(self.id)
        self._database = sql_backend(name, settings, AUTHENTICATION_NAMES, surroundings.backends)
        self.backend = self._database

    def asked_names(self) -> Sequence[str]:
        return self._database.statement.names

    async def find(self, values: Values) -> StoredUser | None:
        try:
            params = self._database.statement.params(values)
        except TemplateError:  # what is not UTF-8 is the name of nothing in a database
            return None
        rows = await self._database.rows(params)
        return StoredUser.of_row(rows[0]) if rows else None


def make(
    settings: MysqlAuthenticatorConfig | PostgresqlAuthenticatorConfig, surroundings: Surroundings
) -> SqlAuthenticator:
    return SqlAuthenticator(settings, surroundings)

"""The authenticator `password_based:mongodb`: users in documents of MongoDB."""

from collections.abc import Sequence

from heliograph.access.authentication.interface import Surroundings
from heliograph.access.authentication.stored_user import StoredUser, StoredUserAuthenticator
from heliograph.access.backends.mongodb import MongoDb
from heliograph.access.templates import Values
from heliograph.access.templates.documents import DocumentTemplate
from heliograph.access.templates.template import warn_of_unknown
from heliograph.access.templates.values import AUTHENTICATION_NAMES
from heliograph.config.authentication import MongoAuthenticatorConfig


class MongoAuthenticator(StoredUserAuthenticator):
    def __init__(self, settings: MongoAuthenticatorConfig, surroundings: Surroundings) -> None:
        super().__init__("password_based:mongodb", settings.password_hash_algorithm, surroundings)
        self._mongodb = MongoDb(surroundings.backend_name(self.id), settings, surroundings.backends)
        self.backend = self._mongodb.pool
        self._settings = settings
        self._filter = DocumentTemplate(dict(settings.filter), AUTHENTICATION_NAMES)
        warn_of_unknown(f"the filter of {self.id}", self._filter.unknown)

    def asked_names(self) -> Sequence[str]:
        return self._filter.names

    async def find(self, values: Values) -> StoredUser | None:
        settings = self._settings
        for document in await self._mongodb.find(self._filter.query(values), limit=1):
            user = StoredUser.of_row(
                document, settings.password_hash_field, settings.salt_field, settings.is_superuser_field
            )
            return None if user.password_hash is None else user
        return None


def make(settings: MongoAuthenticatorConfig, surroundings: Surroundings) -> MongoAuthenticator:
    return MongoAuthenticator(settings, surroundings)

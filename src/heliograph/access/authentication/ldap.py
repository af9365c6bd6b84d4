"""The authenticator `password_based:ldap`: users in entries of a directory."""

from collections.abc import Awaitable, Callable
from typing import Final

from heliograph.access.acl.carried import CarriedAcl, carried_acl
from heliograph.access.acl.errors import AclError
from heliograph.access.acl.topic_lists import EntryRules
from heliograph.access.authentication.interface import Answer, Authenticator, Surroundings
from heliograph.access.authentication.results import accepted, is_superuser
from heliograph.access.backends.ldap import Ldap, LdapEntry
from heliograph.access.passwords.ldap_hash import verify_ldap_hash
from heliograph.access.templates import Template, Values, client_values
from heliograph.access.templates.values import AUTHENTICATION_NAMES
from heliograph.broker.authentication import AuthAttempt, AuthStep, Grants
from heliograph.broker.client import ClientInfo
from heliograph.config.authentication import LdapAuthenticatorConfig
from heliograph.mqtt import reason_codes as rc
from heliograph.settings.units import parse_duration

_PASSWORD: Final = "userPassword"
_ENABLED: Final = "isEnabled"
_NOBODY: Final = "cn=nobody-d1b7f0a2"
_PLACEHOLDER: Final = "${password}"
_WRONG: Final = rc.BAD_USERNAME_OR_PASSWORD


class LdapAuthenticator(Authenticator):
    """Checks passwords against a directory: against the hash of an entry, or by binding as the entry."""

    def __init__(self, settings: LdapAuthenticatorConfig, surroundings: Surroundings) -> None:
        super().__init__("password_based:ldap")
        self._settings = settings
        self._bind_password = Template(settings.method.bind_password or _PLACEHOLDER, AUTHENTICATION_NAMES)
        self._hash_attribute = settings.method.password_attribute or _PASSWORD
        self._rights = _Rights(settings, surroundings.now_s)
        wanted = [_ENABLED, settings.method.is_superuser_attribute, *self._rights.attributes]
        if settings.method.type == "hash":
            wanted.append(self._hash_attribute)
        name = surroundings.backend_name(self.id)
        self._ldap = Ldap(name, settings, AUTHENTICATION_NAMES, wanted, surroundings.backends)
        self.backend = self._ldap.pool

    def authenticate(self, client: ClientInfo, attempt: AuthAttempt) -> Answer | Awaitable[Answer]:
        """A client without a password is left to the next authenticator."""
        if attempt.method is not None or attempt.password is None:
            return None
        return self._answer(client_values(client, attempt), attempt.password)

    async def _answer(self, values: Values, password: bytes) -> Answer:
        question = self._ldap.question(values)
        entries = await self._ldap.rows(question)
        if not entries:
            # As for a user who is known, so that times do not tell who is.
            await self._is_password(LdapEntry(f"{_NOBODY},{question[0]}", {}), values, password)
            return None
        entry = entries[0]
        if not await self._is_password(entry, values, password):
            return AuthStep(_WRONG)
        if not _is_true(entry, _ENABLED, default=True):
            return AuthStep(rc.NOT_AUTHORIZED)
        try:
            acl = self._rights.of(entry)
        except ValueError:
            return AuthStep(_WRONG)
        superuser = _is_true(entry, self._settings.method.is_superuser_attribute, default=False)
        return accepted(Grants(is_superuser=superuser, acl=acl))

    async def _is_password(self, entry: LdapEntry, values: Values, password: bytes) -> bool:
        if self._settings.method.type == "hash":
            return any(verify_ldap_hash(stored, password) for stored in entry.values(self._hash_attribute))
        if not password:
            return False
        rendered = self._bind_password.render(values)
        return await self._ldap.is_password(entry.dn, rendered.encode("utf-8", "surrogateescape"))


class _Rights:
    def __init__(self, settings: LdapAuthenticatorConfig, now_s: Callable[[], int]) -> None:
        self._rules = EntryRules(settings)
        self._ttl = settings.acl_ttl_attribute
        self._now_s = now_s

    @property
    def attributes(self) -> list[str]:
        return [*self._rules.attributes, *([] if self._ttl is None else [self._ttl])]

    def of(self, entry: LdapEntry) -> CarriedAcl | None:
        """None where no attribute says them; `ValueError` where they cannot be read."""
        if not self._rules.attributes:
            return None
        try:
            return carried_acl(self._rules.of(entry.values), self._expire_s(entry), "ldap")
        except AclError as error:
            raise ValueError(str(error)) from None

    def _expire_s(self, entry: LdapEntry) -> float | None:
        value = None if self._ttl is None else entry.value(self._ttl)
        if value is None:
            return None
        text = value.decode("utf-8", "replace").strip()
        return self._now_s() + (float(int(text)) if text.isdigit() else parse_duration(text))


def make(settings: LdapAuthenticatorConfig, surroundings: Surroundings) -> LdapAuthenticator:
    return LdapAuthenticator(settings, surroundings)


def _is_true(entry: LdapEntry, attribute: str, *, default: bool) -> bool:
    value = entry.value(attribute)
    return default if value is None else is_superuser(value.decode("utf-8", "replace").lower())

"""Which entry is searched for a client: a name and a filter with placeholders."""

from heliograph.access.templates import Template, Values
from heliograph.access.templates.ldap import dn_value, filter_value
from heliograph.access.templates.unknown import warn_of_unknown
from heliograph.config.backends.ldap import LdapConnection


class LdapSearch:
    """A name and a filter, filled in for each client; values are escaped for where they stand.

    Args:
        settings: What is searched.
        names: The placeholders that are allowed.
    """

    def __init__(self, settings: LdapConnection, names: frozenset[str]) -> None:
        self._base = Template(settings.base_dn, names)
        self._filter = Template(settings.filter, names)
        warn_of_unknown("base_dn and filter of LDAP", [*self._base.unknown, *self._filter.unknown])

    def render(self, values: Values) -> tuple[str, str]:
        """The name and the filter for a client."""
        return self._base.render(values, dn_value), self._filter.render(values, filter_value)

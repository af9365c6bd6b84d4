"""Texts, SQL statements, URLs, JSON and LDAP filters with placeholders `${...}` that are filled in for each client.

A text of the configuration is taken apart once. What a client brings is inserted as a value only: it is encoded for the
place where it stands, so that no name of a client becomes a part of a statement, a filter, a path or a wildcard.
"""

from heliograph.access.templates.template import Template, TemplateError
from heliograph.access.templates.values import Values, client_values

__all__ = ["Template", "TemplateError", "Values", "client_values"]

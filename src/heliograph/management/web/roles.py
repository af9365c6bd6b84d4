"""Roles: sets of scopes. A scope is an area and a verb, as `clients:read`, and stands at the routes.

`*` is every scope, `*:read` that verb of every area. What only administrators may do is in no other role, also where a
pattern matches it.
"""

from collections.abc import Mapping
from typing import Final

from heliograph.access.people.names import ADMINISTRATOR, OPERATOR, PUBLISHER, VIEWER

# A user's own logout, password and second factor.
OWN: Final = "own:write"
PUBLISH: Final = "publish"

# What shows or changes who may do what, where the node can be reached, or all of its data at once.
ADMINISTRATOR_ONLY: Final = frozenset({"data:read", "users:write", "api_keys:write"})

_OPERATED: Final = (
    "actions:write",
    "alarms:write",
    "clients:write",
    "connectors:write",
    "metrics:write",
    "pipeline:write",
    "policies:write",
    "rules:write",
    "schemas:write",
    "sources:write",
    "traces:write",
)

SCOPES: Final[Mapping[str, frozenset[str]]] = {
    ADMINISTRATOR: frozenset({"*"}),
    OPERATOR: frozenset({"*:read", OWN, PUBLISH, *_OPERATED}),
    VIEWER: frozenset({"*:read", OWN}),
    PUBLISHER: frozenset({PUBLISH}),
}
# Of these only GET is allowed, and what is their own.
READ_ONLY: Final = frozenset({VIEWER})


def may(role: str, scope: str, method: str = "GET") -> bool:
    """Whether a role allows a scope, with a method of HTTP; an unknown role allows nothing."""
    scopes = SCOPES.get(role, frozenset())
    if "*" in scopes:
        return True
    if scope in ADMINISTRATOR_ONLY:
        return False
    if role in READ_ONLY and method not in ("GET", "HEAD") and scope != OWN:
        return False
    return scope in scopes or f"*:{scope.partition(':')[2]}" in scopes

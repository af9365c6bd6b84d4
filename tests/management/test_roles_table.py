"""The table in docs/management_access.md is that of the roles: `python tests/management/test_roles_table.py` writes it
anew. What roles name are scopes of routes.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from heliograph.access.people.names import KEY_ROLES
from heliograph.management.api.areas import AREAS
from heliograph.management.web.area import Area
from heliograph.management.web.roles import ADMINISTRATOR_ONLY, SCOPES, may

PAGE = Path(__file__).parents[2] / "docs" / "management_access.md"
_TABLE = re.compile(r"(<!-- roles -->\n).*(<!-- end of roles -->)", re.DOTALL)


def scopes() -> Iterator[tuple[str, str]]:
    """Each scope with a method that needs it."""
    for area in AREAS:
        for route in (one.made for one in area.routes):
            scope = (getattr(route, "openapi_extra", None) or {}).get("x-scope")
            if scope:
                for method in getattr(route, "methods", ()):
                    yield scope, method


def table() -> str:
    """A row for each scope that a role other than the administrator's names, and two for all others."""
    named = {scope for found in SCOPES.values() for scope in found if "*" not in scope} | ADMINISTRATOR_ONLY
    rows = {
        "every `...:read` besides": [may(role, "any:read") for role in KEY_ROLES],
        **{f"`{scope}`": [may(role, scope, _method_of(scope)) for role in KEY_ROLES] for scope in sorted(named)},
        "every other": [may(role, "any:write", "POST") for role in KEY_ROLES],
    }
    lines = [f"| scope | {' | '.join(KEY_ROLES)} |", f"| --- |{' --- |' * len(KEY_ROLES)}"]
    for name, allowed in rows.items():
        lines.append(f"| {name} | {' | '.join('yes' if one else '-' for one in allowed)} |")
    return "\n".join(lines) + "\n"


def _method_of(scope: str) -> str:
    return "GET" if scope.endswith(":read") else "POST"


async def _nothing() -> None:
    """Nothing."""


def test_a_route_that_names_no_scope_has_that_of_its_area() -> None:
    area = Area("Things", scope="things")
    for route in (area.get, area.put, area.post, area.delete):
        route("/things")(_nothing)
    area.get("/others", scope="others:read")(_nothing)
    assert area.scopes == {"things:read", "things:write", "others:read"}
    with pytest.raises(AssertionError, match="GET /things names none"):
        Area("Others").get("/things")


def test_the_table_is_that_of_the_roles() -> None:
    found = _TABLE.search(PAGE.read_text())
    assert found is not None
    assert found[0] == f"{found[1]}{table()}{found[2]}", __doc__


def test_what_changes_anything_is_no_scope_of_a_viewer() -> None:
    changing = [(scope, method) for scope, method in scopes() if method not in ("GET", "HEAD")]
    assert {scope for scope, method in changing if may("viewer", scope, method)} == {"own:write"}


def test_roles_name_scopes_of_routes_only() -> None:
    named = {scope for found in SCOPES.values() for scope in found if "*" not in scope} | ADMINISTRATOR_ONLY
    assert named - {scope for scope, _ in scopes()} == set()


if __name__ == "__main__":
    PAGE.write_text(_TABLE.sub(lambda found: f"{found[1]}{table()}{found[2]}", PAGE.read_text()))

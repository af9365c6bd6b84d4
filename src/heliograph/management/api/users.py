"""Users who log in to manage the node, and their passwords."""

from typing import Annotated, Any, Final

from fastapi import Request
from pydantic import Field

from heliograph.access.people.names import ADMINISTRATOR, PeopleError
from heliograph.access.people.passwords import check_password
from heliograph.control.proto_v1.people import (
    PEOPLE_USER_ADD,
    PEOPLE_USER_DELETE,
    PEOPLE_USER_SET,
    PEOPLE_USERS,
    ManagementUserChange,
    ManagementUserName,
    ManagementUserRow,
    NewManagementUser,
)
from heliograph.management.api.people import CallerDep, PeopleDep, check_new_user, kept
from heliograph.management.people.callers import address_of, device_of
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Str
from heliograph.management.web.roles import OWN
from heliograph.management.web.rows import ApiRow

area = Area(
    "Users", "Users who log in; those of MQTT clients are under Authentication. Not for API keys.", scope="users"
)

_LOCAL: Final = "local"
_SECRET = {"format": "password", "writeOnly": True}
_NEW_PASSWORD = "8 to 64 characters, with two of letters, digits and special characters"


class NewManagementUserBody(Body):
    """A user to add."""

    username: Annotated[Str, Field(description="Letters, digits and underscores")]
    password: Annotated[Str, Field(description=_NEW_PASSWORD, json_schema_extra=_SECRET)]
    description: Str = ""
    role: Str = ADMINISTRATOR


class ManagementUserChangeBody(Body):
    """What is to be changed of a user."""

    description: Str | None = None
    role: Str | None = None


class PasswordChangeBody(Body):
    """Another password."""

    old_pwd: Annotated[Str, Field(max_length=1024, json_schema_extra=_SECRET)]
    new_pwd: Annotated[Str, Field(description=_NEW_PASSWORD, json_schema_extra=_SECRET)]


_USER: Final = ApiRow("UserAnswer", ManagementUserRow, backend=str)


@area.get("/users", answers=_USER.rows)
async def list_users(nodes: NodesDep) -> list[dict[str, Any]]:
    """All users."""
    return [_USER(row, backend=_LOCAL) for row in await nodes.own.rows(PEOPLE_USERS())]


@area.post("/users", answers=_USER.one)
async def add_user(body: NewManagementUserBody, nodes: NodesDep, people: PeopleDep) -> dict[str, Any]:
    """Add a user."""
    check_new_user(body.username, body.password)
    password_hash = await people.logins.hashed(body.password)
    wanted = NewManagementUser(body.username, password_hash, body.role, body.description)
    return _USER(await kept(nodes.own.ask(PEOPLE_USER_ADD(wanted))), backend=_LOCAL)


@area.put("/users/{username}", errors={400: ("NOT_ALLOWED",), 404: ("USER_NOT_FOUND",)}, answers=_USER.one)
async def change_user(username: str, body: ManagementUserChangeBody, nodes: NodesDep) -> dict[str, Any]:
    """Change a user's description or role; its logins end."""
    wanted = ManagementUserChange(username, role=body.role, description=body.description, keeps_administrator=True)
    row = await kept(nodes.own.ask(PEOPLE_USER_SET(wanted)), "USER_NOT_FOUND")
    return _USER(row, backend=_LOCAL)


@area.delete("/users/{username}", errors={400: ("NOT_ALLOWED",), 404: ("USER_NOT_FOUND",)})
async def delete_user(username: str, nodes: NodesDep, people: PeopleDep, caller: CallerDep) -> None:
    """Delete a user; its logins end. Neither the default user, nor the caller, nor the only administrator."""
    found = (await people.known.fresh()).users.get(username)
    if found is None:
        raise ApiError(404, "USER_NOT_FOUND", f"there is no user {username[:100]!r}")
    if found.user.is_default:
        raise ApiError(400, "NOT_ALLOWED", f"Cannot delete the default user {username!r}")
    if caller.kind == "user" and caller.name == username:
        raise ApiError(400, "NOT_ALLOWED", "Cannot delete yourself")
    wanted = ManagementUserName(username, keeps_administrator=True)
    await kept(nodes.own.ask(PEOPLE_USER_DELETE(wanted)), "USER_NOT_FOUND")
    people.logins.tokens.end_all(username)


@area.post(
    "/users/{username}/change_pwd",
    scope=OWN,
    status=204,
    errors={400: ("ERROR_PWD_NOT_MATCH",), 404: ("USER_NOT_FOUND",), 429: ("TOO_MANY_REQUESTS",)},
)
async def change_password(
    username: str, body: PasswordChangeBody, request: Request, nodes: NodesDep, people: PeopleDep, caller: CallerDep
) -> None:
    """Give a user another password; its logins end. Others than administrators change their own."""
    if caller.role != ADMINISTRATOR and (caller.kind, caller.name) != ("user", username):
        raise ApiError(403, "UNAUTHORIZED_ROLE", f"the role {caller.role} changes no password but its own")
    if username not in (await people.known.fresh()).users:
        raise ApiError(404, "USER_NOT_FOUND", f"there is no user {username[:100]!r}")
    try:
        check_password(body.new_pwd)
        await people.logins.verified(username, body.old_pwd, address_of(request), device_of(request, people))
    except PeopleError as error:
        raise ApiError(400, "BAD_REQUEST", str(error)) from None
    except ApiError as error:
        if error.code != "BAD_USERNAME_OR_PWD":
            raise
        raise ApiError(400, "ERROR_PWD_NOT_MATCH", "Old password not match") from None
    wanted = ManagementUserChange(username, await people.logins.hashed(body.new_pwd))
    await kept(nodes.own.ask(PEOPLE_USER_SET(wanted)), "USER_NOT_FOUND")
    people.logins.tokens.end_all(username)

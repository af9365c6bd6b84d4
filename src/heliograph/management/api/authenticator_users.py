"""Users of built-in databases."""

import asyncio
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import Query, Request, Response
from pydantic import Field
from starlette.datastructures import UploadFile
from typing_extensions import TypedDict

from heliograph.control.proto_v1 import users as proto
from heliograph.control.proto_v1.authn import AUTHN_SHOW
from heliograph.management.api.authentication import ChainDep
from heliograph.management.asking.nodes import Node
from heliograph.management.web.answering import answering
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Bool, Str
from heliograph.management.web.paging import PageDep, json_response, page_response, take_page
from heliograph.management.web.rows import ApiRow

_BUILT_IN: Final = "built_in_database"
_BAD: Final = {400: ("INVALID_PARAMETER",), 404: ("NOT_FOUND",)}
_HASHED: Final = ("password_hash",)

area = Area("Authentication users", "Users of built-in databases.", scope="authentication")


class NewUserBody(Body):
    """A user to add."""

    user_id: Str = Field(min_length=1)
    password: Str
    is_superuser: Bool = False


class UserChangeBody(Body):
    """What changes of a user."""

    user_id: Str | None = None
    password: Str | None = None
    is_superuser: Bool | None = None


_USER: Final = ApiRow("AuthenticatorUser", proto.UserRow)


class ImportedUsers(TypedDict):
    """How many users of a file were new, replaced others, or were passed over."""

    total: int
    success: int
    override: int
    skipped: int
    failed: int


async def list_authenticator_users(
    id: str,
    nodes: NodesDep,
    chain: ChainDep,
    page: PageDep,
    like_user_id: Annotated[str, Query(description="A text that the id has in it")] = "",
    is_superuser: Annotated[bool | None, Query(description="Only superusers, or only others")] = None,
) -> Response:
    """A page of users."""
    of = await _of(nodes.own, id, chain)
    wanted = proto.UsersWanted(of.chain, of.mechanism, like=like_user_id, is_superuser=is_superuser)
    rows, has_next = await take_page(nodes.own.slices(proto.USERS_LIST(wanted)), page)
    return page_response([_USER(row) for row in rows], page, None, has_next)


async def create_authenticator_user(id: str, nodes: NodesDep, chain: ChainDep, body: NewUserBody) -> Response:
    """Add a user; it is on the disk when this is answered."""
    of = await _of(nodes.own, id, chain)
    new = proto.NewUser(of.chain, of.mechanism, body.user_id, body.password.encode(), body.is_superuser)
    with answering(already_exists=(409, "ALREADY_EXISTS")):
        done = await nodes.own.ask(proto.USERS_ADD(new))
    return json_response(_USER(done.user), 201)


async def get_authenticator_user(id: str, user_id: str, nodes: NodesDep, chain: ChainDep) -> Response:
    """One user."""
    of = await _of(nodes.own, id, chain)
    with answering():
        return json_response(
            _USER(await nodes.own.ask(proto.USERS_SHOW(proto.UserName(of.chain, of.mechanism, user_id))))
        )


async def update_authenticator_user(
    id: str, user_id: str, nodes: NodesDep, chain: ChainDep, body: UserChangeBody
) -> Response:
    """Change the password of a user, or whether it is a superuser."""
    if body.user_id not in (None, user_id):
        raise ApiError(400, "BAD_REQUEST", f"the body is of {body.user_id!r}, not of {user_id!r}")
    of = await _of(nodes.own, id, chain)
    password = None if body.password is None else body.password.encode()
    change = proto.UserChange(of.chain, of.mechanism, user_id, password, body.is_superuser)
    with answering():
        done = await nodes.own.ask(proto.USERS_SET(change))
    return json_response(_USER(done.user))


async def delete_authenticator_user(id: str, user_id: str, nodes: NodesDep, chain: ChainDep) -> None:
    """Delete a user."""
    of = await _of(nodes.own, id, chain)
    with answering():
        await nodes.own.ask(proto.USERS_DELETE(proto.UserName(of.chain, of.mechanism, user_id)))


async def import_authenticator_users(
    id: str,
    request: Request,
    nodes: NodesDep,
    chain: ChainDep,
    type: Annotated[Literal["hash", "plain", "auto"], Query(description="What the file has of passwords")] = "hash",
) -> Response:
    """Add the users of a file, `.csv` or `.json`: the part `filename` of a form, or the body itself."""
    from heliograph.access.users.files import UserFileError  # only those that import need them
    from heliograph.control.user_files import UserFile, algorithm_of

    of = await _of(nodes.own, id, chain)
    text, form = await _file(request)
    file = UserFile(text, form, _kind(text, form) if type == "auto" else type)
    target = await nodes.own.ask(proto.USERS_TARGET(of))
    added = overwritten = 0
    try:
        total = await asyncio.to_thread(file.check, algorithm_of(target))
        parts = file.parts(target)
        while part := await asyncio.to_thread(next, parts, ()):
            users = proto.UsersImport(of.chain, of.mechanism, part)
            done = await nodes.own.ask(proto.USERS_IMPORT(users))
            added, overwritten = added + done.added, overwritten + done.overwritten
    except UserFileError as error:
        raise ApiError(400, "BAD_REQUEST", str(error)) from None
    success = added + overwritten
    counts: ImportedUsers = {
        "total": total,
        "success": added,
        "override": overwritten,
        "skipped": total - success,
        "failed": 0,
    }
    return json_response(counts)


def _add_routes(prefix: str, *, is_hidden: bool) -> None:
    shared: dict[str, Any] = {"errors": _BAD, "include_in_schema": not is_hidden, "deprecated": is_hidden}
    users, one = f"{prefix}/{{id}}/users", f"{prefix}/{{id}}/users/{{user_id}}"
    area.get(users, answers=_USER.page, **shared)(list_authenticator_users)
    new = {**shared, "errors": {**_BAD, 409: ("ALREADY_EXISTS",)}}
    area.post(users, status=201, answers=_USER.one, **new)(create_authenticator_user)
    area.get(one, answers=_USER.one, **shared)(get_authenticator_user)
    area.put(one, answers=_USER.one, **shared)(update_authenticator_user)
    area.delete(one, **shared)(delete_authenticator_user)
    upload: dict[str, Any] = {"openapi_extra": {"requestBody": _UPLOAD}, **shared}
    area.post(f"{prefix}/{{id}}/import_users", answers=ImportedUsers, **upload)(import_authenticator_users)


_UPLOAD: Final = {
    "content": {
        "multipart/form-data": {
            "schema": {"type": "object", "properties": {"filename": {"type": "string", "format": "binary"}}}
        },
        "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
        "text/csv": {"schema": {"type": "string"}},
    }
}

_add_routes("/authentication", is_hidden=False)
_add_routes("/listeners/{listener_id}/authentication", is_hidden=True)


async def _of(node: Node, name: str, chain: str) -> proto.UsersOf:
    """Whose users are meant.

    Raises:
        ApiError: 404, there is no such authenticator; 400, it has no users.
    """
    mechanism, _, backend = name.partition(":")
    of = proto.UsersOf(chain, mechanism)
    if backend != _BUILT_IN:
        from heliograph.control.proto_v1.authn import AuthnName

        with answering():
            await node.ask(AUTHN_SHOW(AuthnName(name, chain)))
        raise ApiError(400, "BAD_REQUEST", f"{name} has no users of its own")
    with answering(no_authenticator=(404, "NOT_FOUND")):
        await node.ask(proto.USERS_TARGET(of))
    return of


async def _file(request: Request) -> tuple[bytes, str]:
    """The file of a request, and its form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        return await request.body(), "json"
    if kind == "text/csv":
        return await request.body(), "csv"
    if kind != "multipart/form-data":
        raise ApiError(400, "BAD_REQUEST", "a form with the part filename is expected, or JSON, or CSV")
    async with request.form() as form:
        part = form.get("filename")
        if not isinstance(part, UploadFile):
            raise ApiError(400, "BAD_REQUEST", "the form has no file in the part filename")
        return await part.read(), (part.filename or "").rpartition(".")[2].lower()


def _kind(text: bytes, form: str) -> str:
    """Whether a file has hashes, or passwords."""
    try:
        if form == "json":
            first = orjson.loads(text)[0]
            names = set(first) if isinstance(first, dict) else set()
        else:
            names = set(text.split(b"\n", 1)[0].decode().replace(",", " ").split())
    except (orjson.JSONDecodeError, UnicodeDecodeError, LookupError, TypeError):
        raise ApiError(400, "BAD_REQUEST", "the file is not valid, or has no user") from None
    return "hash" if names & set(_HASHED) else "plain"

"""Login and logout of users, and the set-up of the first one."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Request, Response
from pydantic import Field
from typing_extensions import TypedDict

from heliograph import __version__
from heliograph.access.people.names import PeopleError
from heliograph.management.api.people import CallerDep, PeopleDep, check_new_user, kept
from heliograph.management.people.callers import PeopleCallers, address_of, device_of, token_of
from heliograph.management.people.logins import NewLogin
from heliograph.management.people.same_origin import clear_cookie, is_own_page, set_cookie, set_device_cookie
from heliograph.management.web.area import OPEN, Area
from heliograph.management.web.asked_nodes import asked_for
from heliograph.management.web.callers import NOBODY, Caller
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Row, Str
from heliograph.management.web.paging import json_response
from heliograph.management.web.roles import OWN
from heliograph.management.web.times import rfc3339

area = Area("Login", "Logging in and out. The first user is made once, with the set-up token of the log.")

_NO_TOKEN = "token: this is no set-up token that counts; the log of the node has the newest"
_SECRET = {"format": "password", "writeOnly": True}


class LoginBody(Body):
    """Who logs in."""

    username: Annotated[Str, Field(max_length=100)]
    password: Annotated[Str, Field(max_length=1024, json_schema_extra=_SECRET)]
    mfa_token: Annotated[Str, Field(max_length=100, description="The code of a second factor, where there is one")] = ""


class LogoutBody(Body):
    """Who logs out."""

    username: Str


class SetUpBody(Body):
    """The first user."""

    token: Annotated[Str, Field(max_length=200, description="From the log", json_schema_extra=_SECRET)]
    username: Str
    password: Annotated[Str, Field(max_length=1024, json_schema_extra=_SECRET)]


class FailuresAnswer(Row):
    """How many there were since the last login, and since when."""

    count: int
    since: str


class LoginAnswer(Row):
    """A token, to be sent as `Authorization: Bearer`."""

    token: str
    version: str
    license: dict[str, str]
    role: str
    failed_logins: Annotated[FailuresAnswer | None, Field(description="Wrong passwords since the last login")] = None
    wrong_codes: Annotated[
        FailuresAnswer | None,
        Field(description="Wrong codes of the second factor since then: another person may have the password"),
    ] = None


class SetUpState(TypedDict):
    """Whether the first user is to be made."""

    needed: bool


@area.post(
    "/login",
    scope=OPEN,
    errors={401: ("BAD_USERNAME_OR_PWD", "BAD_MFA_TOKEN"), 429: ("TOO_MANY_REQUESTS",)},
    response_model=LoginAnswer,
)
async def log_in(body: LoginBody, request: Request, people: PeopleDep) -> Response:
    """Log in. A page of this address gets a cookie as well."""
    node = asked_for(Caller(body.username, "user", ""), request)
    await people.first.settled()
    address, device = address_of(request), device_of(request, people)
    login = await people.logins.log_in(body.username, body.password, body.mfa_token, address, node, device)
    return _logged_in(request, login, people)


@area.post("/logout", scope=OWN, status=204, errors={401: ("WRONG_TOKEN_OR_USERNAME",)})
async def log_out(body: LogoutBody, request: Request, caller: CallerDep, people: PeopleDep) -> Response:
    """End the login whose token is sent."""
    token = token_of(request)
    if caller.kind not in ("user", "sso") or caller.name != body.username or not token:
        raise ApiError(401, "WRONG_TOKEN_OR_USERNAME", "the token is not of that user")
    people.logins.tokens.end(token)
    response = Response(status_code=204)
    clear_cookie(response, request)
    return response


class SessionAnswer(Row):
    """Who calls, and what they may do."""

    name: str
    kind: str
    role: str
    scopes: list[str]
    node: str
    version: str


@area.get("/heliograph/session", scope=OPEN, response_model=SessionAnswer)
async def get_session(request: Request, people: PeopleDep) -> Response:
    """Name, role and scopes of the caller; only an empty name for a caller that has not logged in."""
    try:
        caller = await people.identify(request)
    except ApiError as error:
        if error.status != HTTPStatus.UNAUTHORIZED:
            raise
        caller = NOBODY
    is_known = caller is not NOBODY
    answer = SessionAnswer(
        name=caller.name,
        kind=caller.kind,
        role=caller.role,
        scopes=[scope for scope in request.app.state.scopes if caller.may(scope, _method(scope))],
        node=request.app.state.settings.node_name if is_known else "",
        version=__version__ if is_known else "",
    )
    response = json_response(answer.model_dump())
    response.headers["cache-control"] = "no-store"
    return response


def _method(scope: str) -> str:
    return "GET" if scope.endswith(":read") else "POST"


@area.get("/heliograph/set_up", scope=OPEN)
async def get_set_up(people: PeopleDep) -> SetUpState:
    """Whether the first user is to be made."""
    await people.first.settled()
    return {"needed": await people.first.is_needed()}


@area.post(
    "/heliograph/set_up",
    scope=OPEN,
    errors={401: ("BAD_TOKEN",), 429: ("TOO_MANY_REQUESTS",)},
    response_model=LoginAnswer,
)
async def set_up(body: SetUpBody, request: Request, people: PeopleDep) -> Response:
    """Make the first user, an administrator who is logged in then, with the set-up token of the log."""
    try:
        if not await people.first.is_token(body.token):
            raise ApiError(401, "BAD_TOKEN", _NO_TOKEN)
        check_new_user(body.username, body.password)
        node = asked_for(Caller("set-up token", "user", ""), request)
        row = await kept(people.first.make(body.username, body.password, node))
    except PeopleError as error:
        raise ApiError(400, "BAD_REQUEST", str(error)) from None
    login = await people.logins.log_in(row.username, body.password, "", address_of(request), node)
    return _logged_in(request, login, people)


def _logged_in(request: Request, login: NewLogin, people: PeopleCallers) -> Response:
    answer: dict[str, Any] = {
        "token": login.token,
        "version": __version__,
        "license": {"edition": "opensource"},
        "role": login.user.user.role,
    }
    for name, failures in (("failed_logins", login.failed), ("wrong_codes", login.wrong_codes)):
        if failures.count:
            since = rfc3339(int(failures.since_s * 1_000_000))
            answer[name] = FailuresAnswer(count=failures.count, since=since).model_dump()
    response = json_response(answer)
    response.headers["cache-control"] = "no-store"
    if is_own_page(request):
        set_cookie(response, request, login.token)
        set_device_cookie(response, request, people.logins.devices.cookie, login.device)
    return response

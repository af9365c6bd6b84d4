"""Single sign-on: the way of a browser to the provider of identities, and back."""

from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import Field

from heliograph.control.proto_v1.people import PEOPLE_SSO_LOGGED_IN, SsoLogin
from heliograph.management.api.people import PeopleDep
from heliograph.management.people.callers import address_of
from heliograph.management.people.same_origin import is_over_tls, set_cookie
from heliograph.management.people.sso import CALLBACK, LIFE_S, SingleSignOn
from heliograph.management.web.area import BASE, MISSING, OPEN, Area
from heliograph.management.web.asked_nodes import asked_for
from heliograph.management.web.callers import Caller
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Str

area = Area("Single sign-on", "Logins at a provider of OpenID Connect, where `dashboard.sso.oidc` is enabled.")

_COOKIE: Final = "heliograph_sso"
_REDIRECT: Final = {
    302: {"description": "Where the browser goes.", "headers": {"location": {"schema": {"type": "string"}}}}
}


class SsoLoginBody(Body):
    """Which provider; there is one kind."""

    backend: Annotated[Str, Field(pattern="^oidc$")] = "oidc"


@area.get("/sso/running", scope=OPEN)
async def list_running_sso(people: PeopleDep) -> list[str]:
    """The kinds of single sign-on: `oidc`, or an empty list."""
    return ["oidc"] if people.sso is not None else []


@area.get("/sso/login/oidc", scope=OPEN, status=302, errors=MISSING, responses=_REDIRECT, response_class=Response)
async def begin_sso(request: Request, people: PeopleDep) -> Response:
    """Send a browser to the provider."""
    return await _begun(request, people)


@area.post("/sso/login/oidc", scope=OPEN, status=302, errors=MISSING, responses=_REDIRECT, response_class=Response)
async def post_sso(request: Request, people: PeopleDep, body: SsoLoginBody | None = None) -> Response:
    """Send a browser to the provider, as EMQX has it."""
    return await _begun(request, people)


@area.get(
    CALLBACK,
    scope=OPEN,
    status=302,
    errors={401: ("BAD_TOKEN",), 403: ("UNAUTHORIZED_ROLE",), **MISSING},
    responses=_REDIRECT,
    response_class=Response,
)
async def finish_sso(
    request: Request,
    people: PeopleDep,
    state: Annotated[str, Query(max_length=1024)] = "",
    code: Annotated[str, Query(max_length=4096)] = "",
    error: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Where the provider sends a browser back; it gets a cookie and goes on to the dashboard."""
    sso = _sso(people)
    if error or not code:
        raise ApiError(400, "BAD_REQUEST", f"the provider has not logged the user in: {error or 'it sent no code'}")
    user = await sso.finish(state, code, request.cookies.get(_COOKIE, ""))
    login = SsoLogin(user.name, user.role, address_of(request))
    await asked_for(Caller(user.name, "sso", ""), request).ask(PEOPLE_SSO_LOGGED_IN(login))
    response = Response(status_code=302, headers={"location": f"{sso.base_path}/", "cache-control": "no-store"})
    token = people.logins.tokens.begin(user.name, sso.version, user.role)
    set_cookie(response, request, token, f"{sso.base_path}{BASE}", sso.page)
    response.delete_cookie(_COOKIE, path=f"{sso.base_path}{BASE}/sso")
    return response


async def _begun(request: Request, people: PeopleDep) -> Response:
    sso = _sso(people)
    url, sealed = await sso.begin()
    response = Response(status_code=302, headers={"location": url, "cache-control": "no-store"})
    response.set_cookie(
        _COOKIE,
        sealed,
        max_age=LIFE_S,
        path=f"{sso.base_path}{BASE}/sso",
        httponly=True,
        samesite="lax",
        secure=is_over_tls(request, sso.page),
    )
    return response


def _sso(people: PeopleDep) -> SingleSignOn:
    if people.sso is None:
        raise ApiError(404, "NOT_FOUND", "there is no single sign-on here: dashboard.sso.oidc is not enabled")
    return people.sso

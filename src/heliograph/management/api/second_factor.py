"""The second factor of one's own login, and of others for administrators."""

from typing import Annotated

from fastapi import Request, Response
from pydantic import Field

from heliograph.control.proto_v1.people import PEOPLE_USER_SECOND_FACTOR, ManagementUserSecrets, SecondFactor
from heliograph.management.api.people import CallerDep, PeopleDep, kept
from heliograph.management.people import totp
from heliograph.management.people.callers import address_of, device_of
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.callers import Caller
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Row, Str
from heliograph.management.web.paging import json_response
from heliograph.management.web.roles import OWN

area = Area("Second factor", "Codes of an authenticator app, required at login beside the password.")

_SECRET = {"format": "password", "writeOnly": True}
_CODE = Annotated[Str, Field(max_length=100, description="What the app shows")]


class PasswordBody(Body):
    """The password once more: a page that was left open is not enough."""

    password: Annotated[Str, Field(max_length=1024, json_schema_extra=_SECRET)]


class CodeBody(Body):
    """The first code."""

    code: _CODE


class PasswordAndCodeBody(PasswordBody):
    """The password and a code once more."""

    code: _CODE


class EnrolmentAnswer(Row):
    """What an authenticator app needs."""

    secret: str
    uri: str
    qr_svg: str


class RecoveryAnswer(Row):
    """Codes that are each good for one login without the app; they are not shown again."""

    recovery_codes: list[str]


@area.post("/heliograph/second_factor", scope=OWN, errors={429: ("TOO_MANY_REQUESTS",)}, response_model=EnrolmentAnswer)
async def begin_second_factor(body: PasswordBody, request: Request, people: PeopleDep, caller: CallerDep) -> Response:
    """Get the secret of a second factor, also as a QR code. The factor is on when its first code is confirmed."""
    _check_user(caller)
    user = await _verified(people, caller, body.password, request)
    if user.user.has_second_factor:
        raise ApiError(400, "BAD_REQUEST", "there is a second factor already; take it away first")
    secret = people.enrolments.begin(caller.name)
    uri = totp.enrolment_uri(secret, caller.name)
    response = json_response({"secret": totp.shown(secret), "uri": uri, "qr_svg": totp.qr_code(uri)})
    response.headers["cache-control"] = "no-store"
    return response


@area.post(
    "/heliograph/second_factor/confirm", scope=OWN, errors={429: ("TOO_MANY_REQUESTS",)}, response_model=RecoveryAnswer
)
async def confirm_second_factor(body: CodeBody, nodes: NodesDep, people: PeopleDep, caller: CallerDep) -> Response:
    """Turn the second factor on; all logins end. The answer has the recovery codes, only this time."""
    _check_user(caller)
    codes = await kept(people.enrolments.confirm(caller.name, body.code, nodes.own), "USER_NOT_FOUND")
    response = json_response({"recovery_codes": codes})
    response.headers["cache-control"] = "no-store"
    return response


@area.post("/heliograph/second_factor/remove", scope=OWN, status=204, errors={429: ("TOO_MANY_REQUESTS",)})
async def remove_second_factor(
    body: PasswordAndCodeBody, request: Request, nodes: NodesDep, people: PeopleDep, caller: CallerDep
) -> None:
    """Turn one's own second factor off; all logins end."""
    _check_user(caller)
    user = await _verified(people, caller, body.password, request)
    if not user.totp_secret:
        raise ApiError(400, "BAD_REQUEST", "there is no second factor")
    try:
        people.logins.check_code(user, body.code, address_of(request), device_of(request, people))
    except ApiError as error:
        raise ApiError(400, "BAD_REQUEST", error.message) if error.code == "BAD_MFA_TOKEN" else error from None
    await kept(nodes.own.ask(PEOPLE_USER_SECOND_FACTOR(SecondFactor(caller.name))))


@area.delete("/heliograph/users/{username}/second_factor", scope="users:write", errors={404: ("USER_NOT_FOUND",)})
async def delete_second_factor(username: str, nodes: NodesDep) -> None:
    """Turn the second factor of another user off, for one who has lost the app; its logins end."""
    wanted = SecondFactor(username)
    await kept(nodes.own.ask(PEOPLE_USER_SECOND_FACTOR(wanted)), "USER_NOT_FOUND")


def _check_user(caller: Caller) -> None:
    if caller.kind != "user":
        raise ApiError(401, "API_KEY_NOT_ALLOW", "an API key has no second factor")


async def _verified(people: PeopleDep, caller: Caller, password: str, request: Request) -> ManagementUserSecrets:
    try:
        return await people.logins.verified(caller.name, password, address_of(request), device_of(request, people))
    except ApiError as error:
        if error.code != "BAD_USERNAME_OR_PWD":
            raise
        raise ApiError(400, "BAD_REQUEST", "the password is wrong") from None

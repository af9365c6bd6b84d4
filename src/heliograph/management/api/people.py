"""What the routes of people share: who keeps them, and how the node's refusals are answered."""

from collections.abc import Awaitable, Mapping
from typing import Annotated, TypeVar

from fastapi import Depends, Request

from heliograph.access.people.names import PeopleError, check_username
from heliograph.access.people.passwords import check_password
from heliograph.management.people.callers import PeopleCallers
from heliograph.management.web.callers import Caller
from heliograph.management.web.errors import ApiError
from heliograph.rpc.methods import RpcError

T = TypeVar("T")

_REFUSED: Mapping[str, tuple[int, str]] = {
    "people_invalid": (400, "BAD_REQUEST"),
    "people_full": (400, "BAD_REQUEST"),
    "already_exists": (400, "BAD_REQUEST"),
    "last_administrator": (400, "NOT_ALLOWED"),
}


def _people(request: Request) -> PeopleCallers:
    people = request.app.state.callers
    assert isinstance(people, PeopleCallers)
    return people


def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


PeopleDep = Annotated[PeopleCallers, Depends(_people)]
CallerDep = Annotated[Caller, Depends(_caller)]


def check_new_user(username: str, password: str) -> None:
    """Refuse what cannot be a user and a new password.

    Raises:
        ApiError: It cannot; its message begins with the field.
    """
    for field, check, value in (("username", check_username, username), ("password", check_password, password)):
        try:
            check(value)
        except PeopleError as error:
            raise ApiError(400, "BAD_REQUEST", f"{field}: {error}") from None


async def kept(change: Awaitable[T], absent: str = "NOT_FOUND") -> T:
    """What the node answers to a change.

    Args:
        absent: The code where what is to be changed is not there.

    Raises:
        ApiError: It refuses.
    """
    try:
        return await change
    except RpcError as error:
        if error.code == "not_found":
            raise ApiError(404, absent, error.message) from None
        if error.code in _REFUSED:
            raise ApiError(*_REFUSED[error.code], error.message) from None
        raise
    except PeopleError as error:
        raise ApiError(400, "BAD_REQUEST", str(error)) from None
